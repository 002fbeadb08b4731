"""Links that somebody put where padiff keeps files of its own lead it nowhere."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from padiff.cli.main import main
from padiff.dumpfile import validate
from padiff.dumpfile.manifestcodec import BEGUN_NAME, MANIFEST_NAME
from padiff.dumpfile.place import is_incomplete
from tests.support.confined import listing
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path

PRECIOUS = "what nobody may touch\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a folder that came from somebody, beside a file of the user's."""
    made = tmp_path / "home"
    made.mkdir()
    (tmp_path / "precious").write_text(PRECIOUS, encoding="utf-8")
    for name in ("a", "b", "base"):
        tiny_net(weight_change=float(name == "b")).write(made / name)
    assert main(["compare", str(made / "a"), str(made / "b"), "-q", f"--json={made}/r.json"]) == 1
    return made


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (".base.lock", ["accept", "base", "b", "--reason", "new"]),
        ("base.accepted.jsonl", ["accept", "base", "b", "--reason", "new"]),
        (".base.lock", ["check", "--recover", "base"]),
        (".packed.padiff.zip.lock", ["pack", "a", "-o", "packed.padiff.zip"]),
        (".r.html.lock", ["report", "r.json", "--html", "r.html"]),
        (".m.toml.lock", ["map", "a", "b", "-o", "m.toml"]),
    ],
)
def test_a_link_at_a_name_of_ours_is_refused(
    link: str,
    words: list[str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(home)
    (home / link).symlink_to("../precious")
    before = listing(home.parent)

    assert main(words) == 2

    assert "is a link, which is not followed" in capsys.readouterr().err
    assert (home.parent / "precious").read_text(encoding="utf-8") == PRECIOUS
    assert listing(home.parent) == before


def test_a_pipe_for_a_log_waits_for_nobody(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    os.mkfifo(home / "base.accepted.jsonl")

    assert main(["accept", "base", "b", "--reason", "new"]) == 2

    assert "cannot write the log 'base.accepted.jsonl'" in capsys.readouterr().err
    assert validate(home / "base", deep=True) == []


def test_a_link_where_a_report_is_written_is_replaced(home: Path) -> None:
    (home / ".r.html.partial").symlink_to("../precious")

    assert main(["report", str(home / "r.json"), "--html", str(home / "r.html")]) == 1

    assert (home.parent / "precious").read_text(encoding="utf-8") == PRECIOUS
    assert (home / "r.html").is_file()


def left_behind(home: Path) -> Path:
    """Make what a killed recording of ``net`` left: one whole step."""
    partial = (home / "a").rename(home / ".net.partial-0123abcd")
    begun = json.loads((partial / MANIFEST_NAME).read_text(encoding="utf-8"))
    (partial / BEGUN_NAME).write_text(json.dumps(begun | {"files": []}), encoding="utf-8")
    (partial / MANIFEST_NAME).unlink()
    return partial


def test_steps_of_another_place_are_not_removed(home: Path) -> None:
    """Where whole steps are kept there may be a link to somebody else's."""
    other = tiny_net().write(home.parent / "other", incomplete="killed")
    assert is_incomplete(other)
    (home / "net.incomplete").symlink_to(other)
    left_behind(home)

    assert main(["check", "--recover", str(home / "net")]) == 2  # it is incomplete

    (kept,) = home.glob("net.incomplete-*")
    assert is_incomplete(kept)
    assert is_incomplete(other)


@pytest.mark.parametrize(
    ("link", "target"),
    [("step_000001", ".."), (".manifest.json.partial", "../../precious"), ("x", "../../precious")],
)
def test_what_holds_links_is_not_recovered(link: str, target: str, home: Path) -> None:
    partial = left_behind(home)
    (partial / link).symlink_to(target)
    before = listing(home.parent)

    assert main(["check", "--recover", str(home / "net")]) == 2

    assert listing(home.parent) == before
