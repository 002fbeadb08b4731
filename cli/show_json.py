"""Give a dump's manifest, indexes and programs as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from padiff.program import argument_to_json

from .show_program import find_holes, marks
from .show_text import Choice
from .spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.dumpfile import JSON, Index, Manifest, RecordInfo
    from padiff.program import Operator, RecordedProgram


def manifest_to_json(manifest: Manifest) -> JSON:
    """Return every field of a manifest."""
    return _as_object(manifest)


def step_to_json(index: Index, choice: Choice) -> dict[str, JSON]:
    """Return the modules, calls and records of one step and rank."""
    wanted = choice.wanted(index)
    calls = [
        {"module_path": index.modules[call.module].path, **_row(call)}
        for call in index.calls
        if call.module in wanted
    ]
    return {
        "step": index.step,
        "rank": index.rank,
        "modules": [_as_object(module) for module in index.modules if module.id in wanted],
        "calls": list(calls),
        "records": [_record(index, record) for record in index.records if record.module in wanted],
    }


def _record(index: Index, record: RecordInfo) -> JSON:
    """Return one record with its address and the statistics of its value."""
    value = None if record.value is None else index.values[record.value]
    return {
        "address": _as_object(index.address(record)),
        "order": record.order,
        "shape": list(record.shape),
        "layout": _as_object(record.layout),
        "dtype": "none" if value is None else value.dtype,
        "requires_grad": record.requires_grad,
        "value": record.value,
        "digest": None if value is None else value.digest,
        "statistics": None if value is None else _as_object(value.statistics),
    }


def _row(thing: object) -> dict[str, JSON]:
    """Return a dataclass as an object."""
    plain = _as_object(thing)
    return plain if isinstance(plain, dict) else {}


def _as_object(thing: object) -> JSON:
    """Turn dataclasses, mappings and tuples into what strict JSON can carry."""
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
        return {name: _as_object(getattr(thing, name)) for name in names}
    if isinstance(thing, Mapping):
        return {str(key): _as_object(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_as_object(item) for item in thing]
    return _scalar(thing)


def _scalar(thing: object) -> JSON:
    """Turn one value into what strict JSON can carry."""
    if thing is None or isinstance(thing, bool | int):
        return thing
    if isinstance(thing, float):
        return thing if math.isfinite(thing) else str(thing)
    return str(thing)


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
