"""Layers whose weights one side folded together, as exporters for inference do.

The scale of a norm goes into the layer before it or behind it, branches without an activation
become one kernel, and a norm is kept as a scale and a shift. No weight has a partner then, and what
the layers make of the same elements is the same but for the rounding of the weights. So where each
side computes a value from the same elements by additions and products with weights alone, both are
executed with these elements drawn at random, and at zero: functions that are affine and agree there
are the same. They may be off by what rounding does to the weights and to each operation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpFormatError, LeafKind, Phase, ProgramError
from padiff.program import UNIT_ROUNDOFF, Image, execute_with_spread, is_affine
from padiff.program.primitives import Kind

from .numbering import Numbering

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from padiff.program import Leaf, Lowered, Node
    from padiff.program.primitives import Array, Spec

    from .leaves import Leaves
    from .side import Side

FIXED = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER, LeafKind.CONSTANT, LeafKind.HOLE})
"""Leaves that are there before the model is called; a hole is, where it holds what such leaves
make."""
_ROUNDINGS = 8
"""Times the root mean square of what rounding does to an element by which it may be off: two
roundings of each weight on the way to it, at four standard deviations. Correct ones reach 1.8."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What both sides compute from weights that lie in other forms."""

    images: dict[int, Image] = field(default_factory=dict)
    """Of which of the reference's values those of the candidate are copies, by their ids."""
    remade: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """The weights that matter nowhere else, of both sides, and lack a partner or are no copies."""
    every: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """All leaves that matter nowhere else, of both sides."""


def folded_pieces(
    sides: tuple[Side, Side],
    leaves: Leaves,
    odd: tuple[set[int], set[int]],
    alone: tuple[set[int], set[int]],
) -> Folded:
    """Find the values that both sides compute from weights in other forms.

    Weights of one form are no other form, however little they differ: one of both sides has to hold
    something that has no partner at all.
    """
    if not (all(odd) and any(alone)):
        return Folded()
    folds = _Folds(sides, leaves, odd, alone)
    folds.numbering.of_candidate(sides[1].lowered, {}, join=folds.join)
    known, found = folds.parts
    images = {found.values[term]: Image(known.values[one]) for term, one in folds.joined.items()}
    if not images:
        return Folded()
    every = known.settled(folds.joined.values()), found.settled(folds.joined)
    settled = every[0] & odd[0], every[1] & odd[1]
    return Folded(images, settled, every)


def fixed_terms(side: Side, kinds: Container[LeafKind | None]) -> set[int]:
    """Return the terms that follow from leaves of some kinds alone."""
    values, leaves = side.program.values, side.lowered.leaves
    return side.lowered.following(term for term, one in leaves.items() if values[one].kind in kinds)


class _Part:
    """One side, and what it computes from weights without a copy."""

    def __init__(self, side: Side, odd: set[int]) -> None:
        """See what moves with the inputs, and what rests on odd weights."""
        self.side, lowered = side, side.lowered
        self._odd = {lowered.terms[one]: one for one in odd}
        self._fixed = fixed_terms(side, FIXED)
        self._behind = lowered.ahead(self._odd)
        self.values = lowered.values

    def is_open(self, term: int) -> bool:
        """Return whether a term is a recorded value that inputs and odd weights go into."""
        is_real = self.side.lowered.specs[term].kind is Kind.FLOAT
        return is_real and term in self._behind and term in self.values and term not in self._fixed

    def by_spec(self) -> dict[Spec, list[int]]:
        """Return the terms that are open by their kinds and shapes."""
        found: dict[Spec, list[int]] = defaultdict(list)
        for node in self.side.lowered.nodes:
            for term in filter(self.is_open, node.outputs):
                found[self.side.lowered.specs[term]].append(term)
        return found

    def piece(self, term: int, is_shared: Callable[[int], bool]) -> _Piece | None:
        """Return how a term is computed from values that both sides have, by weights alone.

        None if anything else is done on the way, or if an input that has no partner goes into it.
        """
        lowered = self.side.lowered
        found = _Piece(term)
        open_, seen = [term], {term}
        while open_:
            one = open_.pop()
            is_moving = one not in self._fixed
            is_begin = is_moving and one != term and is_shared(one)
            if is_begin and one in self.values:
                found.begins.append(one)
                continue
            place = lowered.producers.get(one)
            if place is None:
                if is_moving:
                    return None
                found.weights.add(lowered.leaves[one])
                continue
            node = lowered.nodes[place]
            if is_moving and not self._is_affine(node):
                if not is_begin:
                    return None
                found.begins.append(one)  # inside an operator, as what a norm scales
                continue
            open_ += (operand for operand in node.operands if operand not in seen)
            seen.update(node.operands)
        is_real = (lowered.specs[one].kind is Kind.FLOAT for one in found.begins)
        return found if found.begins and all(is_real) else None

    def _is_affine(self, node: Node) -> bool:
        lowered = self.side.lowered
        is_real = all(lowered.specs[one].kind is Kind.FLOAT for one in node.outputs)
        return is_real and is_affine(node, lambda one: one not in self._fixed)

    def named(self, terms: Iterable[int]) -> tuple[Lowered, dict[int, int]]:
        """Return the program with ids for terms, also for those inside operators, and these."""
        lowered = self.side.lowered
        inside = {term: ~term for term in terms if term not in self.values}
        ids = {**lowered.terms, **{id_: term for term, id_ in inside.items()}}
        return replace(lowered, terms=ids).like(lowered), {**self.values, **inside}

    def unit(self, piece: _Piece) -> float:
        """Return the largest unit roundoff of the weights of a piece."""
        values = self.side.program.values
        return max(UNIT_ROUNDOFF.get(values[one].dtype, 0.0) for one in piece.weights)

    def settled(self, joined: Iterable[int]) -> set[int]:
        """Return the leaves that nothing rests on but terms that are the other side's."""
        lowered, cuts = self.side.lowered, self.side.cuts
        read = {operand for node in lowered.nodes for operand in node.operands}
        taken = {value for one in cuts for value in one.taken}
        late = (one for one in self.side.program.operators if one.phase is Phase.UPDATE)
        taken.update(value for one in late for value in one.taken)
        taken.update(self.side.program.outputs)
        ends = {term for node in lowered.nodes for term in node.outputs if term not in read}
        ends.update(lowered.terms[one] for one in taken if one in lowered.terms)
        known = frozenset(joined)
        ends -= known
        needed = set(ends)
        for place in lowered.behind(ends, known=known):
            needed.update(lowered.nodes[place].operands)
        leaves = lowered.leaves.items()
        return {one for term, one in leaves if term in read and term not in needed}


@dataclass(slots=True)
class _Piece:
    """How one value is computed from others."""

    term: int
    begins: list[int] = field(default_factory=list)
    """Terms of what it is computed from, but for weights."""
    weights: set[int] = field(default_factory=set)
    """Ids of the leaves that were there before the model was called."""


class _Folds:
    """Joins values of both sides, in the candidate's order."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        leaves: Leaves,
        odd: tuple[set[int], set[int]],
        alone: tuple[set[int], set[int]],
    ) -> None:
        self._odd, self._alone = odd, alone
        self.numbering = Numbering(*sides, leaves)
        self.parts = _Part(sides[0], odd[0]), _Part(sides[1], odd[1])
        self._known = self.parts[0].by_spec()
        self._given = leaves.of_reference(*sides), leaves.of_candidate(*sides)
        self._left = sum(len(side.lowered.nodes) for side in sides)
        """How many pieces may still be executed that turn out to differ."""
        self.joined: dict[int, int] = {}
        """Terms of the reference by those of the candidate that hold the same."""

    def join(self, term: int, numbers: Sequence[int]) -> int | None:
        """Return the number of a term of the reference that holds the same; None if none does."""
        known, found = self.parts
        if not found.is_open(term):
            return None
        near = [*self._near(term)]
        own = (
            found.piece(term, lambda one: self.numbering.is_of_reference(numbers[one]))
            if near
            else None
        )
        if own is None or self._odd[1].isdisjoint(own.weights):
            return None
        shared = set(numbers)
        for one in near:
            piece = known.piece(one, lambda it: self.numbering.reference[it] in shared)
            if piece is not None and self._are_same(piece, own, numbers):
                self.joined[term] = one
                return self.numbering.reference[one]
        return None

    def _near(self, term: int) -> Iterator[int]:
        """Yield terms of the reference of which the same was recorded as far as that tells."""
        known, found = self.parts
        own = _summary(found, term)
        for one in self._known.get(found.side.lowered.specs[term], ()):
            other = _summary(known, one)
            if own is not None and other is not None:
                size, unit = max(own[1]), max(own[0], other[0])
                if all(abs(a - b) <= unit * size for a, b in zip(own[1], other[1], strict=True)):
                    yield one

    def _are_same(self, piece: _Piece, own: _Piece, numbers: Sequence[int]) -> bool:
        """Return whether two pieces compute the same of all elements by weights of two forms."""
        both = piece, own
        is_other = any(
            not alone.isdisjoint(one.weights) for alone, one in zip(self._alone, both, strict=True)
        )
        if not is_other or self._odd[0].isdisjoint(piece.weights) or not self._left:
            return False
        self._left -= 1
        try:
            is_same = all(self._agree(both, numbers, size) for size in (1.0, 0.0))
        except (ProgramError, DumpFormatError):
            return False
        self._left += is_same
        return is_same

    def _agree(self, both: tuple[_Piece, _Piece], numbers: Sequence[int], size: float) -> bool:
        """Execute both pieces from random elements, times a number."""
        unit = max(part.unit(piece) for part, piece in zip(self.parts, both, strict=True))
        if unit > UNIT_ROUNDOFF["float32"]:
            return False  # other numbers would pass for rounding
        drawn: dict[int, Array] = {}
        made = []
        for which, (part, piece) in enumerate(zip(self.parts, both, strict=True)):
            lowered, named = part.named(piece.begins)
            given: dict[int, Leaf] = dict(self._given[which])
            of = numbers if which else self.numbering.reference
            for term in piece.begins:
                shape = lowered.specs[term].shape
                if of[term] not in drawn:
                    random = np.random.default_rng(len(drawn))
                    scale = size * _root_mean_square(part, term)
                    drawn[of[term]] = scale * random.standard_normal(shape)
                given[named[term]] = drawn[of[term]]
            units = dict.fromkeys(range(len(part.side.program.operators)), unit)
            made.append(execute_with_spread(lowered, given, part.values[piece.term], units))
        known, found = made
        allowed = _ROUNDINGS * np.hypot(known.errors, found.errors)
        with np.errstate(invalid="ignore"):
            return bool((np.abs(known.result - found.result) <= allowed).all())


def _summary(part: _Part, term: int) -> tuple[float, tuple[float, ...]] | None:
    """Return how far numbers that say what a value holds may be off, over its size, and these."""
    value = part.values[term]
    info = part.side.recorded.info(value)
    unit = UNIT_ROUNDOFF.get(part.side.program.values[value].dtype)
    if info is None or unit is None:
        return None
    found, root = info.statistics, math.sqrt(part.side.lowered.specs[term].count)
    numbers = (found.l2 or 0.0) / root, found.minimum, found.maximum, found.mean
    return math.sqrt(unit), tuple(0.0 if one is None else abs(one) for one in numbers)


def _root_mean_square(part: _Part, term: int) -> float:
    """Return the size of the elements that a value was recorded with; 1 if nobody knows it."""
    value = part.values.get(term)
    info = None if value is None else part.side.recorded.info(value)
    size = None if info is None else info.statistics.l2
    return size / math.sqrt(part.side.lowered.specs[term].count) if size else 1.0
