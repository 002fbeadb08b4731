"""Pair draws by what was drawn for: dropouts of the same expression keep the same elements.

Two ports may run their branches in another order, and draw in another order then.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase
from padiff.pairing import IDENTITY, layouts_between
from padiff.program import execute

from .executed import COUNTING, is_near
from .leaves import LeafPair
from .masks import is_same_number
from .numbering import Numbering
from .parting import place_of
from .result import Change, Edit, EditKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from padiff.pairing import Rule
    from padiff.program import Argument, Leaf, Operator
    from padiff.program.primitives import Array

    from .leaves import Leaves
    from .side import Side


def differing_draws(leaves: Leaves, sides: tuple[Side, Side]) -> Iterator[Edit]:
    """Yield where partners draw from two distributions: what they drew shows nothing of that."""
    for (one, known), (two, found) in leaves.masks:
        if not is_same_number(known, found):
            yield _drawn_otherwise(sides, (one, two), (Change("share of ones", known, found),))
    for one, two in leaves.cuts:
        told, own = sides[0].drawn_by(one), sides[1].drawn_by(two)
        changes = tuple(
            Change(name, told[name], own[name])
            for name in told
            if name in own and not _is_alike(told[name], own[name])
        )
        if changes and Phase.UPDATE not in (one.phase, two.phase):
            yield _drawn_otherwise(sides, (one, two), changes)


def _drawn_otherwise(
    sides: tuple[Side, Side], operators: tuple[Operator, Operator], changes: tuple[Change, ...]
) -> Edit:
    places = (place_of(side, one.id, 1) for side, one in zip(sides, operators, strict=True))
    reference, candidate = places
    return Edit(kind=EditKind.ARGUMENT, reference=reference, candidate=candidate, changes=changes)


def _is_alike(known: Argument, found: Argument) -> bool:
    """Return whether two arguments are the same."""
    if isinstance(known, int | float) and isinstance(found, int | float):
        return is_same_number(known, found)
    return known == found


def settle_draws(leaves: Leaves, sides: tuple[Side, Side]) -> Numbering:
    """Exchange the partners of draws until as many as can be are of the same expression.

    Args:
        leaves: Of both sides, draws paired in order; changed in place.
        sides: The reference and the candidate.

    Returns:
        The numbers of the expressions with these draws.
    """
    numbering = Numbering(*sides, leaves)
    for _ in sides[1].draws:
        better = dict(_better(leaves, sides, numbering))
        if not better:
            break
        _exchange(leaves, sides[0], better)
        numbering = Numbering(*sides, leaves)
    return numbering


def _better(
    leaves: Leaves, sides: tuple[Side, Side], numbering: Numbering
) -> Iterator[tuple[int, int]]:
    """Yield draws of the candidate whose partner is another, each with one for the same."""
    known, found = map(_what_for, sides, numbering.both)
    wrong, settled = list[int](), set[int]()
    for own, what in found.items():
        pair = leaves.pairs.get(own)
        if pair is None:
            wrong.append(own)
        elif pair.reference[0] not in known:  # an operator of its own drew that
            continue
        elif pair.rule == IDENTITY and what != known[pair.reference[0]]:
            wrong.append(own)
        else:
            settled.update(pair.reference)
    left: dict[Hashable, deque[int]] = defaultdict(deque)
    for one, what in known.items():
        if one not in settled:
            left[what].append(one)
    for own in wrong:
        if left[found[own]]:
            yield own, left[found[own]].popleft()


def follow_draws(leaves: Leaves, sides: tuple[Side, Side], numbering: Numbering) -> bool:
    """Pair draws with those that say what is kept of the same elements, in whatever layout.

    Both programs are executed up to what the draws without such a partner are for.

    Args:
        leaves: Of both sides; changed in place.
        sides: The reference and the candidate.
        numbering: Of their terms.

    Returns:
        Whether a draw has another partner than before.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    known, found = map(_dropped, sides)
    settled = {
        pair.reference[0]: own
        for own, pair in leaves.pairs.items()
        if own in found
        and pair.reference[0] in known
        and numbering.reference[known[pair.reference[0]]] == numbering.candidate[found[own]]
    }
    free = {one: term for one, term in known.items() if one not in settled}
    open_ = {own: term for own, term in found.items() if own not in settled.values()}
    if not free or not open_:
        return False
    before = dict(leaves.pairs)
    arrays = _executed(sides[0], leaves.of_reference(*sides), free)
    while free and open_:
        better = dict(_laid_out(arrays, _executed(sides[1], leaves.of_candidate(*sides), open_)))
        for own, pair in better.items():
            leaves.pairs[own] = pair
            del open_[own], free[pair.reference[0]], arrays[pair.reference[0]]
        if not better:
            break
    return leaves.pairs != before


def _dropped(side: Side) -> dict[int, int]:
    """Return the terms of which draws say, element by element, what is kept, by the draw."""
    lowered = side.lowered
    draws = {lowered.terms[draw]: draw for draw in side.draws if draw in lowered.terms}
    return {
        draws[node.operands[0]]: node.operands[1]
        for node in lowered.nodes
        if node.primitive == "where"
        and node.operands[0] in draws
        and lowered.specs[node.operands[0]].shape == lowered.specs[node.operands[1]].shape
    }


def _executed(side: Side, leaves: Mapping[int, Leaf], terms: Mapping[int, int]) -> dict[int, Array]:
    """Return what draws are for, by the draw."""
    draws: dict[int, list[int]] = defaultdict(list)
    for draw, term in terms.items():
        draws[term].append(draw)
    found: dict[int, Array] = {}

    def observe(term: int, array: Array) -> None:
        found.update((draw, array.copy()) for draw in draws.get(term, ()))

    wanted = {side.draws[draw].outputs[0] for draw in terms}
    execute(side.lowered, leaves, sorted(wanted), limits=COUNTING, observe=observe)
    return found


def _laid_out(
    known: Mapping[int, Array], found: Mapping[int, Array]
) -> Iterator[tuple[int, LeafPair]]:
    """Yield draws of the candidate with the partners that are for the same elements."""
    left = dict(known)
    for own, array in found.items():
        pairs = ((one, rule) for one in left for rule in _layouts(left[one].shape, array.shape))
        for one, rule in pairs:
            if is_near(array, rule.apply([left[one]], array.shape)):
                yield own, LeafPair(reference=(one,), candidate=own, rule=rule)
                del left[one]
                break


def _layouts(known: tuple[int, ...], found: tuple[int, ...]) -> tuple[Rule, ...]:
    layouts = layouts_between(known, found)
    return (IDENTITY, *layouts) if known == found else layouts


def _what_for(side: Side, numbers: Sequence[int]) -> dict[int, Hashable]:
    """Return the expressions of which each draw says what is kept, and its form."""
    terms = side.lowered.terms
    draws = {terms[draw]: draw for draw in side.draws if draw in terms}
    taken: dict[int, tuple[int, ...]] = dict.fromkeys(side.draws, ())
    for node in side.lowered.nodes:
        for term in draws.keys() & node.operands:
            others = (numbers[one] for one in node.operands if one != term)
            taken[draws[term]] += tuple(others)
    return {draw: (others, side.form_of_draw(draw)) for draw, others in taken.items()}


def _exchange(leaves: Leaves, reference: Side, better: Mapping[int, int]) -> None:
    """Give draws their partners; those that had them get what is left of that form, in order."""
    wanted = set(better.values())
    before = [leaves.pairs.pop(own).reference[0] for own in better if own in leaves.pairs]
    losing = [own for own, pair in leaves.pairs.items() if pair.reference[0] in wanted]
    free: dict[Hashable, deque[int]] = defaultdict(deque)
    for one in before:
        if one not in wanted:
            free[reference.form_of_draw(one)].append(one)
    for own in losing:
        left = free[reference.form_of_draw(leaves.pairs.pop(own).reference[0])]
        if left:
            leaves.pairs[own] = LeafPair(reference=(left.popleft(),), candidate=own)
    for own, one in better.items():
        leaves.pairs[own] = LeafPair(reference=(one,), candidate=own)
