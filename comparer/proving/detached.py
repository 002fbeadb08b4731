"""Find gradients that one side cuts off where the other hands them on: the forward pass is equal.

A detached value computes the same and learns another way. So does a value that is computed under
``no_grad``, and a number that a script reads from a value and hands to an operator. It counts where
the other side has the same value and does not detach it, where the results depend on it, and where
the parameters behind it get other gradients, or none: a maximum that is taken off before a softmax
may be detached or not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.auditing.slices import MOVES, carrying_gradients
from padiff.dumpfile import LeafKind
from padiff.program import UNIT_ROUNDOFF

from .parting import place_of
from .pool import parts_of
from .result import LeafDifference
from .results import READ

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from padiff.program import Argument, Operator, Value
    from padiff.program.primitives import Array

    from .side import Side

_CUTTING = frozenset({"detach", "detach_"})
_LAYOUTS = MOVES - {"slice"}
_GRADIENT, _GRAPH = "grad", "create_graph"
"""An operator whose results are detached, too, and the argument that says otherwise."""
_ROUNDINGS = 8
"""By how much the norm of right gradients may differ, in roundings of the dtype, and at least:"""
_LEAST = 1e-3


def find_detached(
    sides: tuple[Side, Side],
    numbers: tuple[Sequence[int], Sequence[int]],
    results: tuple[Sequence[int], Sequence[int]],
) -> Iterator[LeafDifference]:
    """Yield the values that one side detaches, by the candidate's order of them.

    Args:
        sides: The reference and the candidate.
        numbers: Of their terms; equal ones are the same expression.
        results: Value ids of what both give.
    """
    others = [{*each} for each in reversed(numbers)]
    cut = [
        _cut(side, each, known, those)
        for side, each, known, those in zip(sides, numbers, others, results, strict=True)
    ]
    for number in sorted(cut[0].keys() ^ cut[1].keys()):
        ends = [_values(side, each, number) for side, each in zip(sides, numbers, strict=True)]
        if not all(ends):
            continue  # another form: nothing is the same value there
        one, two = (_learned(side, those[0].id) for side, those in zip(sides, ends, strict=True))
        if one[0] != two[0] or not _is_near(one[1], two[1], ends[1][0].dtype):
            known, found = (_name(side, those[0]) for side, those in zip(sides, ends, strict=True))
            count = math.prod(ends[1][0].shape)
            which = int(number in cut[1])
            yield LeafDifference(
                reference=known, candidate=found, kind="gradient",
                elements=count, of=count, largest=None,
                place=place_of(sides[which], cut[which][number], 1),
                is_without_gradients=sides[which].program.operators[cut[which][number]].no_grad,
            )  # fmt: skip


def find_held(
    sides: tuple[Side, Side], numbers: tuple[Sequence[int], Sequence[int]]
) -> Iterator[LeafDifference]:
    """Yield the weights of which one side gives a row no gradient, and the other does.

    Raises:
        DumpFormatError: Elements are damaged.
    """
    held = [_held(side, each) for side, each in zip(sides, numbers, strict=True)]
    for key in sorted(held[0].keys() ^ held[1].keys()):
        ends = [_values(side, each, key[0]) for side, each in zip(sides, numbers, strict=True)]
        if not all(ends):
            continue
        known, found = (those[0] for those in ends)
        rows = [_row(side, those, key[1]) for side, those in zip(sides, ends, strict=True)]
        if rows[0] is None or rows[1] is None:
            continue  # one of them gives no gradient at all: that is found elsewhere
        off, size = (float(np.linalg.norm(one)) for one in (rows[0] - rows[1], rows[0]))
        largest = max(size, float(np.linalg.norm(rows[1])))
        if off > _LEAST * largest:
            which = int(key in held[1])
            yield LeafDifference(
                reference=_name(sides[0], known), candidate=_name(sides[1], found),
                kind="gradient", elements=rows[0].size, of=math.prod(found.shape),
                largest=off / largest, place=place_of(sides[which], held[which][key], 1),
            )  # fmt: skip


def _held(side: Side, numbers: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the operators that give a row no gradient, by the weight's number and the row."""
    found: dict[tuple[int, int], int] = {}
    for node in side.lowered.nodes:
        row = dict(node.attributes).get("held")
        if isinstance(row, int):
            found[numbers[node.operands[0]], row] = node.operator
    return found


def _row(side: Side, values: Sequence[Value], row: int) -> Array | None:
    """Return a row of the gradient of the first value that has one in the dump."""
    gradients = (side.recorded.gradient(one.id) for one in values)
    found = next((one for one in gradients if one is not None), None)
    return None if found is None else found[row].astype(np.float64)


def _cut(
    side: Side, numbers: Sequence[int], known: Collection[int], results: Sequence[int]
) -> dict[int, int]:
    """Return the numbers of values that learn, that results need, and that are detached.

    Each with the id of the operator that detaches it, the first one where several do. Of a part of
    a value which the other side has only whole that is the number.

    Args:
        side: Whose values.
        numbers: Of its terms.
        known: The other side's.
        results: Value ids of what it gives.
    """
    learning = {one.id for one in side.program.values if one.kind is LeafKind.PARAMETER}
    for operator in side.program.operators:
        if not learning.isdisjoint(operator.taken):
            learning.update(operator.outputs)
    needed, open_ = set(results), set(results)
    given: set[object] = set()
    """Numbers that operators are given."""
    carrying = carrying_gradients(side.recorded)
    found: dict[int, int] = {}
    for operator in reversed(side.program.operators):
        is_read = READ in operator.keywords
        if needed.isdisjoint(operator.outputs) and not is_read:
            continue
        taken = operator.taken
        cut: Sequence[int] = ()
        if is_read:
            cut = taken if given.intersection(_numbers(operator.keywords[READ])) else ()
        else:
            needed.update(taken)
            given.update(_numbers((operator.positional, *operator.keywords.values())))
            if operator.no_grad and operator.id not in carrying:  # what is inside cuts nothing
                is_moved = operator.in_place  # a weight that a script moves goes on learning
                cut = [one for one in operator.outputs if one in open_ and not is_moved]
            else:
                open_.update(taken)
                is_cut = operator.name.rpartition(".")[2] in _CUTTING
                cut = (*taken, *operator.outputs) if is_cut else _graphless(side, operator)
        if not learning.isdisjoint(taken):
            found.update((_known(side, numbers, known, one), operator.id) for one in cut)
    return found


def _known(side: Side, numbers: Sequence[int], known: Collection[int], value: int) -> int:
    """Return the number of a value, or of what it was laid out of if that is known, too.

    One side may detach a value ahead of a transpose, and the other one behind it.
    """
    lowered, term = side.lowered, side.lowered.terms[value]
    found = numbers[term]
    while (place := lowered.producers.get(term)) is not None:
        moves = MOVES if found not in known else _LAYOUTS  # a part is another value than the whole
        node = lowered.nodes[place]
        is_same = bool(node.operands) and numbers[node.operands[0]] == numbers[term]
        if node.primitive not in moves and not is_same:
            break
        term = node.operands[0]
        found = numbers[term] if numbers[term] in known else found
    return found


def _numbers(argument: Argument) -> Iterator[float]:
    """Yield the numbers of an argument that hardly any other one equals by chance."""
    for part in parts_of(argument):
        if isinstance(part, float) and not part.is_integer():
            yield part


def _graphless(side: Side, operator: Operator) -> Sequence[int]:
    """Return the gradients that a script computes and that hand none on."""
    if operator.name.rpartition(".")[2] != _GRADIENT:
        return ()
    arguments = dict(side.table.named(operator.name, operator.positional, operator.keywords))
    return () if arguments.get(_GRAPH) else operator.outputs


def _values(side: Side, numbers: Sequence[int], number: int) -> list[Value]:
    terms = side.lowered.terms
    return [
        one for one in side.program.values if one.id in terms and numbers[terms[one.id]] == number
    ]


def _learned(side: Side, value: int) -> tuple[int, float]:
    """Return how many elements of the parameters behind a value learn, and their gradients' norm.

    Both are the same however parameters are turned, cut or joined.
    """
    needed = side.program.behind([value])
    behind = [
        (math.prod(one.shape), info.statistics.l2 or 0.0)
        for one in side.program.values
        if one.kind is LeafKind.PARAMETER and one.id in needed
        if (info := side.recorded.gradient_info(one.id)) is not None and info.statistics is not None
    ]
    return sum(count for count, _ in behind), math.hypot(*(norm for _, norm in behind))


def _is_near(one: float, two: float, dtype: str) -> bool:
    allowed = max(_ROUNDINGS * UNIT_ROUNDOFF.get(dtype, 0.0), _LEAST)
    return abs(one - two) <= allowed * max(one, two)


def _name(side: Side, value: Value) -> str:
    """Return what a value is called: its own name, or what made it and where."""
    if value.producer is None:
        return value.name
    operator = side.program.operators[value.producer]
    path = side.recorded.module_of(operator)[0] or "(root)"
    return f"{operator.name} of {path}"
