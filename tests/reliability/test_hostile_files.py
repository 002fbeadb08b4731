"""Files beside dumps that mean harm: refused by their reason, nothing executed, little memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.confined import confined, listing
from tests.support.hostile_checkpoints import CHECKPOINTS, WITNESS
from tests.support.hostile_texts import TEXTS
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.confined import Outcome
    from tests.support.hostile_dumps import Cases


def each(cases: Cases) -> list[Any]:
    assert cases
    return [pytest.param(*case, id=case[0].__name__) for case in cases]


def assert_harmless(found: Outcome, words: str, home: Path) -> None:
    assert words in found.text
    assert "Traceback" not in found.text
    assert "internal error" not in found.text
    assert "more memory" not in found.text
    assert not (home / WITNESS).exists()


@pytest.mark.parametrize(("write", "words"), each(CHECKPOINTS))
def test_a_hostile_checkpoint_is_refused(
    write: Callable[[Path], Path], words: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"secret")
    path = write(home)
    before = listing(tmp_path)

    found = confined(
        ["weights", "stats", path],
        ["weights", "convert", path, "--like", path, "--to", "made.safetensors"],
        folder=home,
    )

    assert found.codes == (2, 2), found.text
    assert listing(tmp_path) == before
    assert_harmless(found, words, home)


@pytest.mark.parametrize(("write", "words"), each(TEXTS))
def test_a_hostile_map_array_report_or_log_is_refused(
    write: Callable[[Path], list[str]], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("padiff.dumpfile.untrusted._WAIT_S", 0.2)
    tiny_net().write(tmp_path / "good")
    command = write(tmp_path)
    before = listing(tmp_path)

    found = confined(command, folder=tmp_path)

    assert set(found.codes) <= {0, 2}, found.text  # 0: what is odd in a log is left out
    assert listing(tmp_path) == before
    assert_harmless(found, words, tmp_path)
