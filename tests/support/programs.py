"""A recorded program in a form that tests can ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import LEAF_KINDS, Form, LeafKind, Mode, open_dump

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from padiff.dumpfile import Index, ProgramColumns


@dataclass(frozen=True, slots=True)
class Recorded:
    """The program of a dump's step, with its index."""

    program: ProgramColumns
    index: Index

    @classmethod
    def read(cls, path: Path, step: int = 0) -> Recorded:
        """Read one step of a valid dump that holds a program."""
        dump = open_dump(path)
        assert list(dump.problems()) == []
        with dump.open(step, 0) as opened:
            program = opened.program()
            assert program is not None
            return cls(program, opened.index)

    @property
    def names(self) -> list[str]:
        """The operators' last names, in order."""
        strings = self.program.strings
        return [strings[one].rpartition(".")[2] for one in self.program.operator_name]

    @property
    def forward_names(self) -> list[str]:
        """The last names of the operators that are none of an update."""
        modes = self.program.operator_mode.tolist()
        return [
            name for name, mode in zip(self.names, modes, strict=True) if not mode & Mode.UPDATE
        ]

    def leaves(self, kind: LeafKind) -> list[int]:
        """Find the values that are leaves of a kind."""
        kinds = [LEAF_KINDS[one] for one in self.program.value_kind]
        return [value for value, found in enumerate(kinds) if found is kind]

    def position(self, name: str) -> int:
        """Find the only operator of a last name."""
        found = [at for at, one in enumerate(self.names) if one == name]
        assert len(found) == 1, f"{len(found)} operators {name!r} among {self.names}"
        return found[0]

    def inputs(self, operator: int) -> list[int]:
        """Find the values that an operator takes, in order."""
        start = int(self.program.operator_rows[:operator].sum())
        rows = slice(start, start + int(self.program.operator_rows[operator]))
        is_value = self.program.argument_form[rows] == Form.VALUE
        return [int(one) for one in self.program.argument_number[rows][is_value]]

    def outputs(self, operator: int) -> list[int]:
        """Find the values that an operator made or handed through."""
        start = int(self.program.operator_outputs[:operator].sum())
        count = int(self.program.operator_outputs[operator])
        return [int(one) for one in self.program.outputs[start : start + count]]

    def has_mode(self, operator: int, mode: Mode) -> bool:
        """Return whether an operator ran in a mode."""
        return bool(int(self.program.operator_mode[operator]) & mode)

    def content(self, value: int) -> Any:  # noqa: ANN401 - a ValueInfo
        """Return what was stored of a value."""
        return self.index.values[int(self.program.value_content[value])]


def same(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any]) -> bool:
    """Return whether two arrays are the same bytes."""
    return one.tobytes() == two.tobytes() and one.dtype == two.dtype
