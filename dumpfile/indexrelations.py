"""What the rows of an index say about each other: every cell by itself is right already."""

from __future__ import annotations

import math
from itertools import pairwise, repeat
from operator import add, is_not, lt
from typing import TYPE_CHECKING, Any

from .address import CALL_ROLES
from .indextables import COLUMNS, Table, shown
from .problem import Problem, ProblemKind
from .sampling import LARGEST_SAMPLE, LARGEST_SIZE, is_sampled
from .schema import Content

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["check_events", "check_references", "check_samples"]

_ROLES: frozenset[str] = frozenset(CALL_ROLES)
_WITH_ELEMENTS: frozenset[str] = frozenset({Content.FULL, Content.SAMPLE})


def _problem(loc: str, kind: ProblemKind, message: str) -> Problem:
    return Problem(loc=loc, kind=kind, message=message)


def check_references(
    tables: Mapping[str, Table], problems: list[Problem], *, known: Collection[str] = ()
) -> None:
    """Check what rows say about rows of other tables.

    Args:
        tables: All tables.
        problems: Gets what is wrong.
        known: Tables that were checked before, together with what they refer to.
    """
    unknown = COLUMNS.keys() - known
    _check_ranges(tables, unknown, problems)
    for table, column in (("modules", 4), ("calls", 2)):
        if table in unknown:
            _check_parents(table, tables[table][column], problems)
    if problems:
        return
    if "modules" in unknown:
        _check_paths(tables["modules"][0], problems)
    if "calls" in unknown:
        _check_order(tables["calls"], problems)
    if "records" in unknown:
        _check_records(tables, problems)
        _check_addresses(tables["records"], problems)
    if "values" in unknown:
        _check_values(tables["values"], problems)
        if not problems:
            _check_overlaps(tables["values"], tables.get("samples", []), problems)


def _check_ranges(
    tables: Mapping[str, Table], unknown: Collection[str], problems: list[Problem]
) -> None:
    """Check that the rows that others refer to are there."""
    for table, column, target in (
        ("calls", 0, "modules"),
        ("records", 0, "modules"),
        ("records", 1, "calls"),
        ("records", 7, "values"),
    ):
        cells = tables[table][column] if table in unknown else ()
        limit = len(tables[target][0])
        if max((cell for cell in cells if cell is not None), default=-1) < limit:
            continue
        for row, cell in enumerate(cells):
            if cell is not None and cell >= limit:
                loc = f"{table}[{row}].{COLUMNS[table][column].name}"
                message = f"expected one of {limit} {target}, found {cell}"
                problems.append(_problem(loc, ProblemKind.REFERENCE, message))


def _check_parents(table: str, parents: Sequence[Any], problems: list[Problem]) -> None:
    for row, parent in enumerate(parents):
        if parent is not None and parent >= row:
            message = f"expected an earlier row, found {parent}"
            problems.append(_problem(f"{table}[{row}].parent", ProblemKind.REFERENCE, message))


def _check_paths(paths: Sequence[Any], problems: list[Problem]) -> None:
    if len(set(paths)) != len(paths):
        message = "a module path stands there twice"
        problems.append(_problem("modules", ProblemKind.UNEXPECTED, message))


def _check_order(calls: Table, problems: list[Problem]) -> None:
    if len(set(zip(calls[0], calls[1], strict=True))) != len(calls[0]):
        message = "a module has two calls of the same index"
        problems.append(_problem("calls", ProblemKind.UNEXPECTED, message))
    starts = calls[3]
    if not all(map(lt, starts, starts[1:])):
        message = "expected calls to stand in the order of their start"
        problems.append(_problem("calls", ProblemKind.RANGE, message))


def _check_records(tables: Mapping[str, Table], problems: list[Problem]) -> None:
    if _are_sized(tables) and _are_of_calls(tables):
        return
    sizes = tables["values"][2]
    call_modules = tables["calls"][0]
    modules, calls, _, roles, _, _, shapes, values, _, _ = tables["records"]
    for row, (module, call, role, dims, value) in enumerate(
        zip(modules, calls, roles, shapes, values, strict=True)
    ):
        if value is not None and math.prod(dims) != sizes[value]:
            message = f"expected {sizes[value]} elements, found shape {shown(list(dims))}"
            problems.append(_problem(f"records[{row}].shape", ProblemKind.SIZE, message))
        if (call is None) is (role in _ROLES):
            message = f"role {role} {'needs a' if call is None else 'has no'} call"
            problems.append(_problem(f"records[{row}].call", ProblemKind.REFERENCE, message))
        elif call is not None and call_modules[call] != module:
            message = f"expected the call's module {call_modules[call]}, found {module}"
            problems.append(_problem(f"records[{row}].module", ProblemKind.REFERENCE, message))


def _are_sized(tables: Mapping[str, Table]) -> bool:
    """Tell whether each record has as many elements as its value."""
    sizes, shapes, values = tables["values"][2], tables["records"][6], tables["records"][7]
    distinct = dict(zip(map(id, shapes), shapes, strict=True))
    counts = {place: math.prod(dims) for place, dims in distinct.items()}
    found = map(counts.__getitem__, map(id, shapes))
    return all(
        value is None or sizes[value] == count for value, count in zip(values, found, strict=True)
    )


def _are_of_calls(tables: Mapping[str, Table]) -> bool:
    """Tell whether the records that need a call have one, of their module, and no others."""
    call_modules = tables["calls"][0]
    modules, calls, _, roles = tables["records"][:4]
    kinds = set(zip(map(type, calls), roles, strict=True))
    return all((kind is int) is (role in _ROLES) for kind, role in kinds) and all(
        call is None or call_modules[call] == module
        for call, module in zip(calls, modules, strict=True)
    )


def _check_addresses(records: Table, problems: list[Problem]) -> None:
    modules, calls, phases, roles, slots = records[:5]
    addresses = list(zip(modules, calls, phases, roles, slots, strict=True))
    if len(set(addresses)) == len(addresses):
        return
    seen: dict[tuple[Any, ...], int] = {}
    for row, address in enumerate(addresses):
        first = seen.setdefault(address, row)
        if first != row:
            message = f"the same address as records[{first}]"
            problems.append(_problem(f"records[{row}]", ProblemKind.UNEXPECTED, message))


def _check_overlaps(values: Table, samples: Table, problems: list[Problem]) -> None:
    """Check that no two values share elements; writers put them one after the other."""
    if _are_in_turn(values):
        return
    counts = dict(zip(samples[0], samples[1], strict=True)) if samples else {}
    places = sorted(
        (dataset, offset, min(size, counts.get(row, size)), row)
        for row, (size, dataset, offset) in enumerate(
            zip(values[2], values[12], values[13], strict=True)
        )
        if dataset is not None
    )
    for (dataset, offset, size, row), after in pairwise(places):
        if after[0] == dataset and offset + size > after[1]:
            message = f"its elements overlap with those of values[{row}]"
            problems.append(_problem(f"values[{after[3]}].offset", ProblemKind.RANGE, message))


def _are_in_turn(values: Table) -> bool:
    """Tell whether the values of each dataset begin where the one before ends, or later."""
    ends: dict[str, int] = {}
    for dataset, offset, end in zip(
        values[12], values[13], map(add, values[13], values[2]), strict=True
    ):
        if dataset is not None:
            if offset < ends.get(dataset, 0):
                return False
            ends[dataset] = end
    return True


def _check_values(table: Table, problems: list[Problem]) -> None:
    sizes, contents, datasets = table[2], table[11], table[12]
    has_dataset = map(is_not, datasets, repeat(None))
    kinds = set(zip(contents, map(bool, sizes), has_dataset, strict=True))
    if all(has is (content in _WITH_ELEMENTS and is_any) for content, is_any, has in kinds):
        return
    for row, (size, content, dataset) in enumerate(zip(sizes, contents, datasets, strict=True)):
        if (dataset is not None) is not (content in _WITH_ELEMENTS and size > 0):
            message = f"content {content} of {size} elements, but dataset {shown(dataset)}"
            problems.append(_problem(f"values[{row}].dataset", ProblemKind.MISSING, message))


def check_events(tables: Mapping[str, Table], problems: list[Problem]) -> None:
    """Check that draws and recomputations are of calls that are there, each call's told once."""
    calls = len(tables["calls"][0])
    for name in ("draws", "recomputed"):
        for row, call in enumerate(tables[name][0]):
            if call is not None and call >= calls:
                message = f"expected one of {calls} calls, found {call}"
                loc = f"{name}[{row}].call"
                problems.append(_problem(loc, ProblemKind.REFERENCE, message))
    repeated = tables["recomputed"][0]
    if len(set(repeated)) != len(repeated):
        message = "a call stands there twice"
        problems.append(_problem("recomputed", ProblemKind.UNEXPECTED, message))


def check_samples(samples: Table, values: Table, problems: list[Problem]) -> None:
    """Check that each sampled value, and no other, has a row that fits its size."""
    sizes, contents = values[2], values[11]
    sampled: set[int] = set()
    if Content.SAMPLE in set(contents):
        sampled = {row for row, content in enumerate(contents) if content == Content.SAMPLE}
    for row, (value, count, dims) in enumerate(zip(*samples, strict=True)):
        loc = f"samples[{row}]"
        if value not in sampled:
            message = f"expected a value of content sample, once, found {value}"
            problems.append(_problem(f"{loc}.value", ProblemKind.REFERENCE, message))
            continue
        sampled.remove(value)
        size = sizes[value]
        if math.prod(dims) != size:
            message = f"expected {size} elements, found shape {shown(list(dims))}"
            problems.append(_problem(f"{loc}.shape", ProblemKind.SIZE, message))
        if count > LARGEST_SAMPLE or size > LARGEST_SIZE or not is_sampled(size, count):
            message = f"{count} positions of {size} elements are no sample"
            problems.append(_problem(f"{loc}.count", ProblemKind.RANGE, message))
    problems.extend(
        _problem(f"values[{row}]", ProblemKind.MISSING, "expected a row of samples, found none")
        for row in sorted(sampled)
    )
