"""Files appear whole or not at all; JSON is strict."""

from __future__ import annotations

import json
import math
import stat
from typing import TYPE_CHECKING

import pytest

from padiff.cli.output import write_json
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def test_json_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old", encoding="utf-8")

    write_json(path, {"a": [1, 2.5, "é"]})

    assert json.loads(path.read_text(encoding="ascii")) == {"a": [1, 2.5, "é"]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o400


@pytest.mark.parametrize("value", [math.nan, math.inf, object()])
def test_what_strict_json_cannot_hold_leaves_the_old_file(value: object, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("old", encoding="utf-8")

    with pytest.raises((ValueError, TypeError)):
        write_json(path, {"a": value})

    assert path.read_text(encoding="utf-8") == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["absent/r.json", "."])
def test_a_place_that_cannot_be_written_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        write_json(tmp_path / name, {})

    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []
