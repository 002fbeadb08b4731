"""Terms of a sum that go into an operator as if they were the sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Phase
from padiff.program import read_program

from .assembling import reduction_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.dumpfile import StepFile
    from padiff.program import Operator

_COLLECTIVES = ("_c10d_functional.", "torch.distributed.")
_MOVING = frozenset(
    {
        *("chunk", "split", "cat", "stack", "view", "view_as", "reshape", "flatten", "unflatten"),
        *("contiguous", "clone", "to", "transpose", "permute", "narrow", "wait_tensor"),
        *("__getitem__", "__setitem__", "detach"),
    }
)
"""Last names of operators that move terms of a sum, and leave them terms."""
_ADDING = frozenset({"add", "__add__", "__iadd__", "add_", "sub", "__sub__"})


def terms_used(file: StepFile) -> Iterator[tuple[str, str]]:
    """Yield (module, line) of each operator that takes terms of a sum and needs the sum."""
    recorded = read_program(file)
    if recorded is None:
        return
    contents: dict[int, str] = {}
    for record in file.index.records:
        placements = () if record.layout is None else record.layout.placements
        is_term = record.phase is Phase.FORWARD and any(map(reduction_of, placements))
        if is_term and record.value is not None:
            path = file.index.modules[record.module].path or "(root)"
            name = f"{path} {record.role}{record.slot}: {' '.join(placements)}"
            contents.setdefault(record.value, name)
    names = {
        value.id: contents[row]
        for value in recorded.program.values
        if (row := recorded.row(value.id)) is not None and row in contents
    }
    for operator in recorded.program.operators:
        terms = [names[value] for value in operator.taken if value in names]
        if not terms or operator.spread or operator.name.startswith(_COLLECTIVES):
            continue
        last = operator.name.rpartition(".")[2]
        if last in _MOVING or (last in _ADDING and len(terms) == len(operator.taken)):
            names.update(dict.fromkeys(operator.outputs, terms[0]))
            continue
        module = recorded.module_of(operator)[0]
        yield (
            module,
            f"{terms[0]}, used as whole by {last} of {module or '(root)'}{_site(operator)}",
        )


def _site(operator: Operator) -> str:
    return "" if operator.site is None else f" at {operator.site.file}:{operator.site.line}"
