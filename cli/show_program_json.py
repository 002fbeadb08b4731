"""A program and its holes as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program import argument_to_json

from .holes import find_holes
from .show_program import marks
from .show_text import Choice
from .spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.dumpfile import JSON
    from padiff.program import Operator, RecordedProgram

__all__ = ["holes_to_json", "program_to_json"]


def program_to_json(recorded: RecordedProgram | None, choice: Choice) -> dict[str, object] | None:
    """Return a program in the order of execution; its lists are iterators."""
    if recorded is None:
        return None
    index = recorded.index
    wanted = choice.wanted(index) if choice.include else None
    return {
        "framework": recorded.program.framework,
        "outputs": list(recorded.program.outputs),
        "values": _values(recorded),
        "operators": (
            _operator(recorded, one)
            for one in recorded.program.operators
            if wanted is None or (one.call is not None and index.calls[one.call].module in wanted)
        ),
        "construction": program_to_json(recorded.construction, Choice()),
    }


def holes_to_json(recorded: RecordedProgram | None, choice: Choice) -> list[JSON] | None:
    """Return the holes of a program; None where there is no program."""
    if recorded is None:
        return None
    return [
        {
            "value": hole.value.id,
            "dtype": hole.value.dtype,
            "shape": list(hole.value.shape),
            "reason": hole.reason.name.lower(),
            "taken_by": None if hole.operator is None else _operator(recorded, hole.operator),
            "readers": hole.readers,
        }
        for hole in find_holes(recorded, choice)
    ]


def _values(recorded: RecordedProgram) -> Iterator[dict[str, JSON]]:
    spelling = Spelling(recorded, plain=True)
    for value in recorded.program.values:
        yield {
            "value": value.id,
            "name": spelling.value(value.id),
            "dtype": value.dtype,
            "shape": list(value.shape),
            "path": value.name or None,
            "kind": None if value.kind is None else str(value.kind),
            "operator": value.producer,
        }


def _operator(recorded: RecordedProgram, operator: Operator) -> dict[str, JSON]:
    index, site = recorded.index, operator.site
    call = None if operator.call is None else index.calls[operator.call]
    return {
        "operator": operator.id,
        "name": operator.name,
        "module": None if call is None else index.modules[call.module].path,
        "call": None if call is None else call.index,
        "positional": [argument_to_json(one) for one in operator.positional],
        "keywords": {key: argument_to_json(one) for key, one in operator.keywords.items()},
        "outputs": list(operator.outputs),
        "marks": list(marks(operator)),
        "site": None if site is None else f"{site.file}:{site.line}",
        "function": None if site is None else site.function,
    }
