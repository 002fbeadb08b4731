"""What calls take, as expressions of leaves that both sides have, and of calls that are partners.

Where both dumps hold programs, equal numbers are equal expressions, whatever modules and functions
the two authors made of them. Elsewhere modules without parameters are the operators, and what a
function between two of them makes is not known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpFormatError, LeafKind, ProgramError, Role, StepFile
from padiff.program import LAYOUT, TABLES, Expressions, lower, read_program

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import ValueInfo
    from padiff.pairing.view import View
    from padiff.program import Lowered, RecordedProgram

    from .likeweights import Places

__all__ = ["flows_of", "inputs_of", "sole", "told_by_weights"]

_HELD = frozenset({LeafKind.INPUT, LeafKind.CONSTANT, LeafKind.PARAMETER, LeafKind.BUFFER})
_OWNED = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER})
_UNKNOWN = -1
_MATRIX = 2


def inputs_of(
    views: tuple[View, View], partners: Iterable[tuple[int, int]]
) -> tuple[Sequence[int], Sequence[int]]:
    """Number the largest input of each call, equal ones alike on both sides; -1 is unknown.

    Args:
        views: Both sides.
        partners: Calls that are partners: what they give counts as the same.
    """
    pairs = sorted(partners)
    one, two = _program_of(views[0]), _program_of(views[1])
    if one is not None and two is not None:
        found = _along_operators(views, (one, two), pairs)
    else:
        digests = [{value.digest for value in view.values} for view in views]
        table: dict[Hashable, int] = {
            ("value", d): n for n, d in enumerate(sorted(digests[0] & digests[1]))
        }
        found = (
            _along_calls(views[0], {pair[0]: n for n, pair in enumerate(pairs)}, table),
            _along_calls(views[1], {pair[1]: n for n, pair in enumerate(pairs)}, table),
        )
    common = set(found[0]) & set(found[1])
    return _among(found[0], common), _among(found[1], common)


def flows_of(
    views: tuple[View, View],
    layers: tuple[Sequence[int], Sequence[int]],
    pairs: Mapping[int, int],
) -> list[tuple[list[Hashable], list[Hashable]]]:
    """Number what layers take, and what their outputs are read for, weights by role and shape.

    Leaves that hold what the other side has nowhere are known by what reads them and by their
    shape. Equal numbers are then one place in one computation, up to what weights it has.

    Args:
        views: Both sides.
        layers: Calls of layers of both sides; positions are ranks.
        pairs: The candidate's rank by the reference's, of layers that are partners.

    Returns:
        Of both together, of the one, and of the other the keys of all layers, side by side; None
        is unknown. Only of what they take where programs do not hold all that reads a value.
    """
    one, two = _program_of(views[0]), _program_of(views[1])
    if one is None or two is None or any(_has_holes(side[0]) for side in (one, two)):
        given = inputs_of(views, ((layers[0][one], layers[1][two]) for one, two in pairs.items()))
        known, found = (
            [None if of[call] < 0 else of[call] for call in calls]
            for of, calls in zip(given, layers, strict=True)
        )
        return [(known, found)]
    expressions, sides = Expressions(), (one, two)
    leaves, unseen = _leaves(views, sides, expressions)
    keys: list[list[tuple[int, int]]] = []
    for which, (view, side) in enumerate(zip(views, sides, strict=True)):
        recorded, lowered = side
        terms = _terms(view, side, Role.INPUT), _terms(view, side, Role.OUTPUT)
        taken, made = ([of[call] for call in layers[which]] for of in terms)
        given = {**leaves[which], **_by_shape(side, unseen[which], expressions)}
        reads: dict[int, int] = {}
        for number, pair in enumerate(pairs.items()):
            rank = pair[which]
            source, target = taken[rank], made[rank]
            if source is not None:
                reads.setdefault(source, expressions.new(("input", number)))
                if target is not None and target != source:
                    given[target] = expressions.new(("call", number))
        forward = expressions.number(lowered, given)
        backward = expressions.number_reads(lowered, reads, _read_unseen(recorded, lowered))
        keys.append(
            [
                (-1 if t is None else forward[t], -1 if m is None else backward[m])
                for t, m in zip(taken, made, strict=True)
            ]
        )
    parts = (itemgetter(slice(2)), itemgetter(slice(1)), itemgetter(slice(1, 2)))
    found = []
    for part in parts:
        one_side, other = ([None if -1 in key else key for key in map(part, side)] for side in keys)
        found.append((one_side, other))
    return found


def _by_shape(
    side: tuple[RecordedProgram, Lowered], unseen: Container[int], expressions: Expressions
) -> dict[int, int]:
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


def _among(numbers: Sequence[int], common: Container[int]) -> list[int]:
    return [number if number in common else _UNKNOWN for number in numbers]


def sole(
    keys: tuple[Mapping[int, Hashable], Mapping[int, Hashable]],
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of which each is the only one of its side that has a key."""
    counts = [Counter(side.values()) for side in keys]
    others = {key: place for place, key in keys[1].items() if counts[1][key] == 1}
    for place, key in keys[0].items():
        if counts[0][key] == 1 and key in others:
            yield place, others[key]


def told_by_weights(weights: tuple[Places, Places]) -> dict[int, int]:
    """Pair what holds weights that nothing else of its side holds."""
    keys = [{place: n for place, n in enumerate(side.tolist()) if n >= 0} for side in weights]
    return dict(sole((keys[0], keys[1])))


def _program_of(view: View) -> tuple[RecordedProgram, Lowered] | None:
    """Return the program of a side in primitives; None where none can be had."""
    if not view.program:
        view.program.append(_read(view))
    return view.program[0]


def _read(view: View) -> tuple[RecordedProgram, Lowered] | None:
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


def _along_operators(
    views: tuple[View, View],
    sides: tuple[tuple[RecordedProgram, Lowered], tuple[RecordedProgram, Lowered]],
    pairs: Sequence[tuple[int, int]],
) -> tuple[Sequence[int], Sequence[int]]:
    expressions = Expressions()
    leaves, _ = _leaves(views, sides, expressions)
    found: list[list[int]] = []
    for which, (view, side) in enumerate(zip(views, sides, strict=True)):
        taken, made = _terms(view, side, Role.INPUT), _terms(view, side, Role.OUTPUT)
        given = dict(leaves[which])
        for number, pair in enumerate(pairs):
            term = made[pair[which]]
            if term is not None and term != taken[pair[which]]:
                given[term] = expressions.new(("call", number))
        numbers = expressions.number(side[1], given)
        found.append([_UNKNOWN if term is None else numbers[term] for term in taken])
    return found[0], found[1]


def _terms(view: View, side: tuple[RecordedProgram, Lowered], role: Role) -> list[int | None]:
    """Return the term of the largest input, or output, of each call."""
    values, terms = side[0].borders, side[1].terms
    records = (view.main(call, role) for call in range(len(view.calls)))
    return [None if one is None else terms.get(values.get(one.id, -1)) for one in records]


def _leaves(
    views: tuple[View, View],
    sides: tuple[tuple[RecordedProgram, Lowered], tuple[RecordedProgram, Lowered]],
    expressions: Expressions,
) -> tuple[tuple[dict[int, int], dict[int, int]], tuple[set[int], set[int]]]:
    """Number the leaves of two programs by what they hold, matrices whichever way they lie.

    Returns:
        The numbers, and the leaves that hold what the other side has nowhere.
    """
    infos: list[dict[int, ValueInfo | None]] = []
    for view, (recorded, lowered) in zip(views, sides, strict=True):
        rows = {term: recorded.row(value) for term, value in lowered.leaves.items()}
        infos.append({t: None if row is None else view.values[row] for t, row in rows.items()})
    contents: dict[Hashable, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for which, side in enumerate(infos):
        for info in side.values():
            if info is not None:
                contents[_content(info)][which].add(info.digest)
    found: tuple[dict[int, int], dict[int, int]] = ({}, {})
    unseen: tuple[set[int], set[int]] = (set(), set())
    for which, side in enumerate(infos):
        for term, info in side.items():
            held = None if info is None else _held(info, contents[_content(info)])
            if held is None:
                unseen[which].add(term)
            key = ("own", which, term) if info is None else ("leaf", held or info.digest)
            number = expressions.new(key)
            is_matrix = sides[which][1].specs[term].ndim == _MATRIX
            if is_matrix and info is not None and held not in {None, info.digest}:
                number = expressions.transposed(number)
            found[which][term] = number
    return found, unseen


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
) -> Sequence[int]:
    """Number inputs by their elements where both sides have them, else by the calls that made them.

    Of what two calls made alike nothing is known, nor of constants, which anything could make.
    """
    same = {value.id: table.get(("value", value.digest)) for value in view.values}
    numbers = {value: number for value, number in same.items() if number is not None}
    found = [_UNKNOWN] * len(view.calls)
    for call in range(len(view.calls)):
        taken, made = view.told_given[call], view.told_made[call]
        if taken is not None:
            found[call] = numbers.get(taken, _UNKNOWN)
        if made is None or made == taken or view.inner[call] or same[made] is not None:
            continue
        number = _UNKNOWN
        if call in partners:
            number = table.setdefault(("call", partners[call]), len(table))
        elif found[call] != _UNKNOWN and not view.weights[view.calls[call].module]:
            number = table.setdefault((view.kind(call), found[call]), len(table))
        numbers[made] = number if numbers.get(made, number) == number else _UNKNOWN
    return found
