"""What calls hold and take: weights, and expressions of leaves and of calls that are partners.

Where both dumps hold programs, equal numbers are equal expressions, whatever modules and functions
the two authors made of them. Elsewhere modules without parameters are the operators, and what a
function between two of them makes is not known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import DumpFormatError, LeafKind, ProgramError, Role, StepFile
from padiff.program import LAYOUT, TABLES, Expressions, lower, read_program

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import RecordInfo, ValueInfo
    from padiff.pairing.view import View
    from padiff.program import Lowered, RecordedProgram

    Side = tuple[RecordedProgram, Lowered]
    Numbers = tuple[Sequence[int | None], Sequence[int | None]]

Places = npt.NDArray[np.int64]

_HELD = frozenset({LeafKind.INPUT, LeafKind.CONSTANT, LeafKind.PARAMETER, LeafKind.BUFFER})
_OWNED = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER})
_MATRIX = 2
_MOVES = LAYOUT - {"cast"} | {"concat", "diagonal", "flip", "roll", "slice"}
"""Primitives of which each element is one of an operand's."""


def flows_of(
    views: tuple[View, View], partners: Iterable[tuple[int, int]]
) -> tuple[Numbers, Numbers]:
    """Number what each call takes, and what its output is read for; None is unknown.

    Only the largest input and output are looked at. Equal numbers are one place in one
    computation, up to the weights: leaves that hold what the other side has nowhere are known by
    their shape and by what reads them. Without programs modules without parameters are the
    operators, and what values are read for is unknown.

    Returns:
        The numbers of all calls, side by side: of what they take, and of what is read.
    """
    pairs = sorted(partners)
    one, two = _program_of(views[0]), _program_of(views[1])
    if one is not None and two is not None:
        taken, read = _along_operators(views, (one, two), pairs)
        return _in_common(*taken), _in_common(*read)
    digests = [{value.digest for value in view.values} for view in views]
    table: dict[Hashable, int] = {
        ("value", d): n for n, d in enumerate(sorted(digests[0] & digests[1]))
    }
    known, found = (
        _along_calls(view, {pair[which]: n for n, pair in enumerate(pairs)}, table)
        for which, view in enumerate(views)
    )
    nothing: tuple[Sequence[None], ...] = tuple([None] * len(view.calls) for view in views)
    return _in_common(known, found), (nothing[0], nothing[1])


def _along_operators(
    views: tuple[View, View], sides: tuple[Side, Side], pairs: Sequence[tuple[int, int]]
) -> tuple[Numbers, Numbers]:
    expressions = Expressions()
    leaves = _leaves(views, sides, expressions)
    has_holes = any(_has_holes(recorded) for recorded, _ in sides)
    found: tuple[list[Sequence[int | None]], list[Sequence[int | None]]] = ([], [])
    for which, (view, side) in enumerate(zip(views, sides, strict=True)):
        recorded, lowered = side
        taken, made = _terms(view, side, Role.INPUT), _terms(view, side, Role.OUTPUT)
        given, reads = leaves[which], dict[int, int]()
        for number, pair in enumerate(pairs):
            source, target = taken[pair[which]], made[pair[which]]
            if source is not None:
                reads.setdefault(source, expressions.new(("input", number)))
            if target is not None and target != source:
                given[target] = expressions.new(("call", number))
        numbers = expressions.number(lowered, given)
        found[0].append([None if term is None else numbers[term] for term in taken])
        numbers = expressions.number_reads(lowered, reads, _read_unseen(recorded, lowered))
        found[1].append([None if term is None or has_holes else numbers[term] for term in made])
    return (found[0][0], found[0][1]), (found[1][0], found[1][1])


def _by_shape(side: Side, unseen: Container[int], expressions: Expressions) -> dict[int, int]:
    """Number leaves that only one side has by their shapes where they are read."""
    recorded, lowered = side
    kinds: dict[int, LeafKind | None] = {}
    for term, value in lowered.leaves.items():
        kind = recorded.program.values[value].kind
        if term in unseen and kind in _HELD:
            kinds[term] = None if kind in _OWNED else kind
    for node in lowered.nodes:
        if node.primitive in LAYOUT and node.operands[0] in kinds:
            kinds[node.outputs[0]] = kinds[node.operands[0]]
    shapes = ((term, kind, lowered.specs[term].shape) for term, kind in kinds.items())
    return {term: expressions.new(("shape", kind, shape)) for term, kind, shape in shapes}


def _has_holes(recorded: RecordedProgram) -> bool:
    """Return whether something computes that was not recorded, and may read any value."""
    return any(value.kind is LeafKind.HOLE for value in recorded.program.values)


def _read_unseen(recorded: RecordedProgram, lowered: Lowered) -> set[int]:
    """Return the terms that operators read of which nothing is known."""
    program = recorded.program
    values = (value for one in lowered.opaque for value in program.operators[one].taken)
    return {lowered.terms[value] for value in values if value in lowered.terms}


def _in_common(known: Sequence[int | None], found: Sequence[int | None]) -> Numbers:
    """Return the numbers that both sides have; None for the others."""
    common = set(known) & set(found)
    return [n if n in common else None for n in known], [n if n in common else None for n in found]


def sole(
    keys: tuple[Mapping[int, Hashable], Mapping[int, Hashable]],
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of which each is the only one of its side that has a key."""
    counts = [Counter(side.values()) for side in keys]
    others = {key: place for place, key in keys[1].items() if counts[1][key] == 1}
    for place, key in keys[0].items():
        if counts[0][key] == 1 and key in others:
            yield place, others[key]


def weight_numbers(
    reference: View, candidate: View, calls: tuple[Sequence[int], Sequence[int]]
) -> tuple[Places, Places]:
    """Number the weights that calls of both sides run with, equal ones alike.

    Returns:
        A number for each call, -1 where nothing of the other side has such weights, or where they
        say nothing. Of what the other side has in a module that no call runs, as a norm that it
        computes by hand, no call there has the number.
    """
    views = reference, candidate
    keys = [[_key(view, call) for call in side] for view, side in zip(views, calls, strict=True)]
    held = [
        {content_once(view, one.id) for one in view.modules if view.weights[one.id]}
        for view in views
    ]
    common = (set(keys[0]) & held[1] | set(keys[1]) & held[0] | set(keys[0]) & set(keys[1])) - {
        None
    }
    numbers: dict[Hashable, int] = {}
    for key in (*keys[0], *keys[1]):
        if key in common:
            numbers.setdefault(key, len(numbers))
    one, two = (np.array([numbers.get(key, -1) for key in side], np.int64) for side in keys)
    return one, two


def distinct_weights(view: View, module: int) -> Iterator[RecordInfo]:
    """Yield the distinct weights in and below a module."""
    own = view.weights[module]
    if len(own) <= 1 and not view.children[module]:
        yield from (view.records[record] for record in own)
        return
    todo, seen = [module], set()
    while todo:
        current = todo.pop()
        todo.extend(view.children[current])
        for record in view.weights[current]:
            info = view.records[record]
            if info.tensor is None or info.tensor not in seen:
                seen.add(info.tensor)
                yield info


def _key(view: View, call: int) -> Hashable | None:
    """Return a key of the weights' content that no layout changes; None where it says nothing."""
    return content_once(view, view.calls[call].module)


def content_once(view: View, module: int) -> Hashable | None:
    """Return ``content_of`` a module, computed once."""
    if module not in view.contents:
        view.contents[module] = content_of(view, module)
    return view.contents[module]


def content_of(view: View, module: int) -> tuple[int, float, float] | None:
    """Return the size and the limits of all weights in and below a module; None of constants."""
    size, low, high = 0, inf, -inf
    for info in distinct_weights(view, module):
        statistics = None if info.value is None else view.values[info.value].statistics
        if statistics is None or statistics.minimum is None or statistics.maximum is None:
            return None
        size += prod(info.shape)
        low, high = min(low, statistics.minimum), max(high, statistics.maximum)
    return None if low >= high else (size, low, high)


def told_by_weights(weights: tuple[Places, Places]) -> dict[int, int]:
    """Pair what holds weights that nothing else of its side holds."""
    keys = [{place: n for place, n in enumerate(side.tolist()) if n >= 0} for side in weights]
    return dict(sole((keys[0], keys[1])))


def _program_of(view: View) -> Side | None:
    """Return the program of a side in primitives; None where none can be had."""
    if not view.program:
        view.program.append(_read(view))
    return view.program[0]


def moved_from(view: View, record: int, sources: Iterable[int]) -> list[int]:
    """Return of which records the program of a side made another by moving elements alone.

    Args:
        view: The side.
        record: Of slices, heads in another order, or a join of what is in the others.
        sources: The records that are looked for, in the order in which they are preferred.

    Returns:
        None of them where anything else was done, or no program was recorded.
    """
    side = _program_of(view)
    if side is None or record not in side[0].borders:
        return []
    recorded, lowered = side
    terms: dict[int, int] = {}
    for source in sources:
        term = lowered.terms.get(recorded.borders.get(source, -1))
        if term is not None:
            terms.setdefault(term, source)
    found, open_ = set[int](), [lowered.terms.get(recorded.borders[record])]
    while open_:
        term = open_.pop()
        if term in terms:
            found.add(terms[term])
            continue
        place = None if term is None else lowered.producers.get(term)
        if place is None or lowered.nodes[place].primitive not in _MOVES:
            return []
        open_ += lowered.nodes[place].operands
    return sorted(found)


def _read(view: View) -> Side | None:
    side = view.side
    if not isinstance(side, StepFile) or side.framework not in TABLES:
        return None
    try:
        recorded = read_program(side)
        if recorded is None:
            return None
        table = TABLES[side.framework]
        return recorded, lower(recorded.program, table, contents=recorded.elements)
    except (DumpFormatError, ProgramError):
        return None


def _terms(view: View, side: Side, role: Role) -> list[int | None]:
    """Return the term of the largest input, or output, of each call."""
    values, terms = side[0].borders, side[1].terms
    records = (view.main(call, role) for call in range(len(view.calls)))
    return [None if one is None else terms.get(values.get(one.id, -1)) for one in records]


def _leaves(
    views: tuple[View, View],
    sides: tuple[Side, Side],
    expressions: Expressions,
) -> list[dict[int, int]]:
    """Number the leaves of two programs by what they hold, matrices whichever way they lie."""
    infos: list[dict[int, ValueInfo | None]] = []
    for view, (recorded, lowered) in zip(views, sides, strict=True):
        rows = {term: recorded.row(value) for term, value in lowered.leaves.items()}
        infos.append({t: None if row is None else view.values[row] for t, row in rows.items()})
    contents: dict[Hashable, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for which, known in enumerate(infos):
        for info in known.values():
            if info is not None:
                contents[_content(info)][which].add(info.digest)
    found: list[dict[int, int]] = []
    for which, (side, known) in enumerate(zip(sides, infos, strict=True)):
        numbers: dict[int, int] = {}
        unseen: set[int] = set()
        for term, info in known.items():
            held = None if info is None else _held(info, contents[_content(info)])
            if info is None or held is None:
                unseen.add(term)
                numbers[term] = expressions.new(("own", which, term))
                continue
            numbers[term] = expressions.new(("leaf", held))
            if side[1].specs[term].ndim == _MATRIX and held != info.digest:
                numbers[term] = expressions.transposed(numbers[term])
        found.append({**numbers, **_by_shape(side, unseen, expressions)})
    return found


def _held(info: ValueInfo, digests: tuple[set[str], set[str]]) -> str | None:
    """Return by which digest both sides know what a leaf holds; None where only one side has it.

    Of what no order of elements tells apart both sides may have one: the same matrix, turned.
    """
    if info.digest in digests[0] & digests[1]:
        return info.digest
    alone = digests[0] - digests[1], digests[1] - digests[0]
    return min(*alone[0], *alone[1]) if len(alone[0]) == len(alone[1]) == 1 else None


def _content(info: ValueInfo) -> Hashable:
    """Return what no order of elements and no wider dtype changes; of constants all they are."""
    told = info.statistics
    if told.minimum is None or told.minimum == told.maximum:
        return info.digest
    return info.size, told.minimum, told.maximum


def _along_calls(
    view: View, partners: Mapping[int, int], table: dict[Hashable, int]
) -> Sequence[int | None]:
    """Number inputs by their elements where both sides have them, else by the calls that made them.

    Of what two calls made alike nothing is known, nor of constants, which anything could make.
    """
    same = {value.id: table.get(("value", value.digest)) for value in view.values}
    numbers: dict[int, int | None] = {v: number for v, number in same.items() if number is not None}
    found: list[int | None] = [None] * len(view.calls)
    for call in range(len(view.calls)):
        taken, made = view.told_given[call], view.told_made[call]
        if taken is not None:
            found[call] = numbers.get(taken)
        if made is None or made == taken or view.inner[call] or same[made] is not None:
            continue
        number = None
        if call in partners:
            number = table.setdefault(("call", partners[call]), len(table))
        elif found[call] is not None and not view.weights[view.calls[call].module]:
            number = table.setdefault((view.kind(call), found[call]), len(table))
        numbers[made] = number if numbers.get(made, number) == number else None
    return found
