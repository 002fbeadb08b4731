"""``padiff audit`` of programs that others wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h5py

from padiff.cli.main import main
from tests.support.tiny_program import tiny_program

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FILE = "step_000000/rank_0000.h5"


def test_a_value_of_an_unknown_dtype_is_not_audited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tiny_program(is_plain=True).write(tmp_path / "net")
    with h5py.File(dump / FILE, "r+") as file:
        raw = file["program/string_bytes"]
        raw[...] = list(bytes(raw[...]).replace(b"float32", b"float99"))

    code = main(["audit", str(dump)])

    out, err = capsys.readouterr()
    assert (code, err) == (2, "")
    assert "NOT AUDITED: step 0: 4 operators" in out


def test_the_tiny_program_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tiny_program(is_plain=True).write(tmp_path / "net")

    code = main(["audit", str(dump)])

    assert (code, "SOUND: step 0: 4 operators; 4 values audited" in capsys.readouterr().out) == (
        0,
        True,
    )
