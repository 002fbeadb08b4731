"""``padiff check`` lists what is wrong with a dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.cli.main import main
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_valid_dump_is_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_net().write(tmp_path / "net")

    assert main(["check", str(path)]) == 0
    assert main(["check", "--deep", str(path)]) == 0
    assert capsys.readouterr().out.count("ok: ") == 2


def test_truncated_file_is_2_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tiny_net().write(tmp_path / "net")
    file = path / "step_000000" / "rank_0000.h5"
    file.write_bytes(file.read_bytes()[:-100])

    assert main(["check", str(path)]) == 2
    assert "step_000000/rank_0000.h5" in capsys.readouterr().out


def test_changed_element_is_found_by_deep_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = tiny_net()
    path = built.write(tmp_path / "net")
    file = path / "step_000000" / "rank_0000.h5"
    weight = built.records[0][1]
    assert weight is not None
    data = file.read_bytes()
    assert data.count(weight.tobytes()) == 1
    file.write_bytes(data.replace(weight.tobytes(), (weight + 1).tobytes()))

    assert main(["check", str(path)]) == 0
    assert main(["check", "--deep", str(path)]) == 2
    assert "digest" in capsys.readouterr().out


def test_no_dump_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "none" in err
