"""What the rows of an index say about each other: every cell by itself is right already."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from .address import CALL_ROLES
from .columns import INT_LIMIT, Pools, Table, shown
from .dtypes import MOST_AXES
from .problem import Problem, ProblemKind
from .sampling import LARGEST_SAMPLE, LARGEST_SIZE, is_sampled
from .schema import Content

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from .dtypes import Array

_MOST_PROBLEMS = 10  # of one kind
_PLACEMENT = re.compile(r"R|S\((?P<axis>[0-9]{1,2})(;[1-9][0-9]{0,5})?\)|P\([a-z0-9_]{1,20}\)")


def check_relations(tables: Mapping[str, Table], pools: Pools, problems: list[Problem]) -> None:
    """Check what rows say about each other.

    Args:
        tables: All tables; those that the file lacks have no rows.
        pools: The pools of the file.
        problems: Gets what is wrong.
    """
    for name in ("modules", "calls"):
        _check_parents(name, tables[name]["parent"], problems)
    _check_modules(tables["modules"], problems)
    _check_calls(tables["calls"], problems)
    _check_values(tables["values"], pools, problems)
    _check_samples(tables["samples"], tables["values"], pools, problems)
    _check_records(tables, pools, problems)
    if _repeats([tables["recomputed"]["call"]]).size:
        message = "a call stands there twice"
        problems.append(_problem("recomputed", ProblemKind.UNEXPECTED, message))
    if not problems:
        _check_overlaps(tables["values"], tables["samples"], problems)
        _check_layouts(tables, pools, problems)


def _problem(loc: str, kind: ProblemKind, message: str) -> Problem:
    return Problem(loc=loc, kind=kind, message=message)


def _bad(right: Array) -> list[int]:
    """Return the first rows that are wrong."""
    return np.flatnonzero(~right)[:_MOST_PROBLEMS].tolist()  # type: ignore[no-any-return]


def _repeats(columns: Sequence[Array]) -> Array:
    """Return the rows whose cells all stand in an earlier row, ascending."""
    codes, span = columns[0] + 1, int(columns[0].max(initial=-1)) + 2
    for column in columns[1:]:
        width = int(column.max(initial=-1)) + 2
        if span * width >= INT_LIMIT:
            codes, column = _ranks(codes), _ranks(column) - 1  # noqa: PLW2901
            span, width = codes.size + 1, codes.size + 1
        codes, span = codes * width + column + 1, span * width
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    return np.sort(order[1:][ordered[1:] == ordered[:-1]])


def _ranks(numbers: Array) -> Array:
    """Return the place of each number among the distinct ones."""
    order = np.argsort(numbers, kind="stable")
    ranks = np.zeros(numbers.size, np.int64)
    ranks[order[1:]] = np.cumsum(np.diff(numbers[order]) != 0)
    return ranks


def _check_parents(table: str, parents: Array, problems: list[Problem]) -> None:
    for row in _bad(parents < np.arange(parents.size)):
        message = f"expected an earlier row, found {parents[row]}"
        problems.append(_problem(f"{table}[{row}].parent", ProblemKind.REFERENCE, message))


def _check_modules(modules: Table, problems: list[Problem]) -> None:
    if _repeats([modules["path"]]).size:  # texts are distinct
        message = "a module path stands there twice"
        problems.append(_problem("modules", ProblemKind.UNEXPECTED, message))


def _check_calls(calls: Table, problems: list[Problem]) -> None:
    if _repeats([calls["module"], calls["index"]]).size:
        message = "a module has two calls of the same index"
        problems.append(_problem("calls", ProblemKind.UNEXPECTED, message))
    if not (np.diff(calls["start"]) > 0).all():
        message = "expected calls to stand in the order of their start"
        problems.append(_problem("calls", ProblemKind.RANGE, message))


def _check_records(tables: Mapping[str, Table], pools: Pools, problems: list[Problem]) -> None:
    records = tables["records"]
    shape, value, call = (records[name] for name in ("shape", "value", "call"))
    sizes = np.append(tables["values"]["size"], -1)[value]
    counts = np.append(pools.list_counts, 0)[shape]
    for row in _bad((value < 0) | (counts == sizes)):
        found = shown(list(pools.lists[shape[row]]))
        message = f"expected {sizes[row]} elements, found shape {found}"
        problems.append(_problem(f"records[{row}].shape", ProblemKind.SIZE, message))
    needs_call = _is_one_of(records["role"], CALL_ROLES, pools)
    for row in _bad((call >= 0) == needs_call):
        role = pools.strings[records["role"][row]]
        message = f"role {role} {'needs a' if call[row] < 0 else 'has no'} call"
        problems.append(_problem(f"records[{row}].call", ProblemKind.REFERENCE, message))
    modules = np.append(tables["calls"]["module"], -1)[call]
    for row in _bad((call < 0) | (modules == records["module"])):
        message = f"expected the call's module {modules[row]}, found {records['module'][row]}"
        problems.append(_problem(f"records[{row}].module", ProblemKind.REFERENCE, message))
    _check_addresses(records, problems)


def _is_one_of(column: Array, words: Collection[str], pools: Pools) -> Array:
    """Return which texts are among some words."""
    known = np.array([*map(set(words).__contains__, pools.strings), False], np.bool_)
    found: Array = known[column]
    return found


def _check_addresses(records: Table, problems: list[Problem]) -> None:
    address = [records[name] for name in ("module", "call", "phase", "role", "slot")]
    for row in _repeats(address)[:_MOST_PROBLEMS].tolist():
        same = np.logical_and.reduce([column == column[row] for column in address])
        message = f"the same address as records[{np.flatnonzero(same)[0]}]"
        problems.append(_problem(f"records[{row}]", ProblemKind.UNEXPECTED, message))


def _check_values(values: Table, pools: Pools, problems: list[Problem]) -> None:
    has_elements = _is_one_of(values["content"], (Content.FULL, Content.SAMPLE), pools)
    for row in _bad((values["dataset"] >= 0) == (has_elements & (values["size"] > 0))):
        content = pools.strings[values["content"][row]]
        dataset = pools.strings[values["dataset"][row]] if values["dataset"][row] >= 0 else None
        message = f"content {content} of {values['size'][row]} elements, but dataset "
        message += shown(dataset)
        problems.append(_problem(f"values[{row}].dataset", ProblemKind.MISSING, message))


def _check_overlaps(values: Table, samples: Table, problems: list[Problem]) -> None:
    """Check that no two values share elements."""
    sizes = values["size"].copy()
    sizes[samples["value"]] = np.minimum(sizes[samples["value"]], samples["count"])
    stored = np.flatnonzero(values["dataset"] >= 0)
    order = stored[np.lexsort((values["offset"][stored], values["dataset"][stored]))]
    ends = values["offset"][order] + sizes[order]
    dataset = values["dataset"][order]
    is_same = dataset[1:] == dataset[:-1]
    for place in _bad(~is_same | (ends[:-1] <= values["offset"][order][1:])):
        message = f"its elements overlap with those of values[{order[place]}]"
        loc = f"values[{order[place + 1]}].offset"
        problems.append(_problem(loc, ProblemKind.RANGE, message))


def _check_samples(samples: Table, values: Table, pools: Pools, problems: list[Problem]) -> None:
    """Check that each sampled value, and no other, has a row that fits its size."""
    value, shape = samples["value"], samples["shape"]
    is_sample = _is_one_of(values["content"], (Content.SAMPLE,), pools)
    once = np.ones(value.size, np.bool_)
    once[_repeats([value])] = False
    for row in _bad(once & is_sample[value]):
        message = f"expected a value of content sample, once, found {value[row]}"
        problems.append(_problem(f"samples[{row}].value", ProblemKind.REFERENCE, message))
    sizes, counts = values["size"][value], np.append(pools.list_counts, 0)[shape]
    for row in _bad(sizes == counts):
        found = shown(list(pools.lists[shape[row]]))
        message = f"expected {sizes[row]} elements, found shape {found}"
        problems.append(_problem(f"samples[{row}].shape", ProblemKind.SIZE, message))
    for row, (size, count) in enumerate(
        zip(sizes.tolist(), samples["count"].tolist(), strict=True)
    ):
        if count > LARGEST_SAMPLE or size > LARGEST_SIZE or not is_sampled(size, count):
            message = f"{count} positions of {size} elements are no sample"
            problems.append(_problem(f"samples[{row}].count", ProblemKind.RANGE, message))
    has_row = np.zeros(is_sample.size, np.bool_)
    has_row[value] = True
    for row in _bad(~is_sample | has_row):
        message = "expected a row of samples, found none"
        problems.append(_problem(f"values[{row}]", ProblemKind.MISSING, message))


# -- layouts


def _check_layouts(tables: Mapping[str, Table], pools: Pools, problems: list[Problem]) -> None:
    """Check that layouts fit their meshes, and records their layouts."""
    meshes, layouts = tables["meshes"], tables["layouts"]
    names = ("dims", "sizes", "ranks")
    rows = zip(*(meshes[name].tolist() for name in names), strict=True)
    for row, (dims, sizes, ranks) in enumerate(rows):
        problems.extend(
            _problem(f"meshes[{row}]", ProblemKind.SIZE, text)
            for text in mesh_problems(pools.lists[dims], pools.lists[sizes], pools.lists[ranks])
        )
    texts = [[pools.strings[one] for one in pools.lists[p]] for p in layouts["placements"]]
    wholes = [pools.lists[shape] for shape in layouts["shape"]]
    for row, (mesh, placements, dims) in enumerate(
        zip(layouts["mesh"], texts, wholes, strict=True)
    ):
        loc, width = f"layouts[{row}].placements", len(pools.lists[meshes["dims"][mesh]])
        if len(placements) != width:
            message = f"expected {width} placements, found {len(placements)}"
            problems.append(_problem(loc, ProblemKind.SIZE, message))
        for one in placements:
            axis = _split_axis(one)
            if _PLACEMENT.fullmatch(one) is None or (axis is not None and axis >= len(dims)):
                message = f"expected a placement of {len(dims)} axes, found {shown(one)}"
                problems.append(_problem(loc, ProblemKind.RANGE, message))
    if _repeats([tables["spread"]["record"]]).size:
        message = "a record stands there twice"
        problems.append(_problem("spread", ProblemKind.UNEXPECTED, message))
    if not problems:
        _check_spread(tables, pools, texts, problems)


def _check_spread(
    tables: Mapping[str, Table],
    pools: Pools,
    placements: Sequence[Sequence[str]],
    problems: list[Problem],
) -> None:
    """Check that each part of a tensor can be one of the whole."""
    spread, layouts = tables["spread"], tables["layouts"]
    parts = tables["records"]["shape"][spread["record"]]
    axes = [set(map(_split_axis, one)) for one in placements]
    codes = parts * max(len(axes), 1) + spread["layout"]
    rows = range(codes.size)
    for row in dict(zip(codes.tolist(), rows, strict=True)).values():  # one of each
        layout = spread["layout"][row]
        whole = pools.lists[layouts["shape"][layout]]
        if not _is_part(pools.lists[parts[row]], whole, axes[layout]):
            loc = f"records[{spread['record'][row]}].shape"
            message = f"expected a part of {shown(list(whole))}"
            problems.append(_problem(loc, ProblemKind.SIZE, message))


def mesh_problems(dims: Sequence[Any], sizes: Sequence[Any], ranks: Sequence[Any]) -> Iterator[str]:
    """Yield what is wrong with a mesh, in words."""
    if len(dims) != len(sizes) or not sizes:
        yield f"expected as many sizes as dimensions, found {len(sizes)} and {len(dims)}"
    elif len(sizes) > MOST_AXES:
        yield f"expected at most {MOST_AXES} dimensions, found {len(sizes)}"
    elif math.prod(sizes) != len(ranks) or len(set(ranks)) != len(ranks):
        yield f"expected {math.prod(sizes)} distinct ranks, found {shown(list(ranks))}"


def _is_part(part: Sequence[int], whole: Sequence[int], split: Collection[int | None]) -> bool:
    """Return whether a part has the sizes of the whole, or less along the axes that are split."""
    if 0 in part:
        return True  # a rank that has nothing of it
    return len(part) == len(whole) and all(
        size <= limit if axis in split else size == limit
        for axis, (size, limit) in enumerate(zip(part, whole, strict=True))
    )


def _split_axis(placement: str) -> int | None:
    """Return the axis along which a tensor is split, None where it is not."""
    found = _PLACEMENT.fullmatch(placement)
    return None if found is None or found["axis"] is None else int(found["axis"])
