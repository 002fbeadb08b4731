"""``padiff audit`` of programs that others wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.cli.main import main
from tests.support.indexes import read_tables, write_tables
from tests.support.tiny_program import tiny_program

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_value_of_an_unknown_dtype_is_not_audited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tiny_program(is_plain=True).write(tmp_path / "net")
    index, program = read_tables(dump), read_tables(dump, "program")
    index["string_bytes"] = np.append(index["string_bytes"], np.frombuffer(b"float99", np.uint8))
    index["string_ends"] = np.append(index["string_ends"], np.uint16(index["string_bytes"].size))
    program["values"]["dtype"] = index["string_ends"].size - 1
    write_tables(write_tables(dump, index), program, "program")

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
