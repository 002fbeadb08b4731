"""Execute two programs in float64, and say of each pair of results whether they agree.

Two forms of one function differ by what float64 rounds on the way, and that is measured: each
program is executed again with small random errors in every primitive. Elements that sums of large
ones left behind may be off by more, others by less.

Errors of rounding are not to turn choices that both programs make alike. A comparison, a sort or a
search jumps where its operands are equal: the smallest error then changes everything behind it. Two
programs of which both came to the same outcome do not differ for that, and what they differ in is
measured with these outcomes as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError
from padiff.program import CHOOSING, UNIT_ROUNDOFF, Execution, Limits, Rounding, execute
from padiff.program.primitives import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.pairing import Rule
    from padiff.program import Leaf
    from padiff.program.primitives import Array

    from .side import Side


LIMITS = Limits(total_bytes=4 << 30, work=10**12)
COUNTING = replace(LIMITS, counts_anew=True)
"""Of executions with the reference's draws, or with values of it: there a search may find more or
fewer elements than the candidate did."""
_NEAR = 1e-9
"""Elements that agree to this share of themselves are equal: correct forms agree to 1e-12 (thirty
pairs of real models)."""
_DISTURBANCES = 1e6
"""Others may be off by this many times what random errors of 2**-53 in each primitive moved them:
1e-10 of the sizes that went into them."""
_MOST = 1e-3
"""Of the root mean square of a result: what random errors move by more shows nothing."""
ROUNDINGS = 256
"""Behind recorded values: roundings of their dtype, of the root mean square of the result."""
_MASK = 1e3
"""Times all others are elements to which the number of a mask was added: -1e4 at least."""
_DISTURBANCE = UNIT_ROUNDOFF["float64"]
_SEEDS = (1, 2)
_CLEAR = 100.0
"""Half of the doubtful elements beyond this many times what they may be off by are no accident of
the first seed: another one moves an element by so many times more once in 150."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Two values that have to agree: results, and what operators without a rule take."""

    reference: int
    """Value id."""
    candidate: int
    rule: Rule | None
    """The layout of a result; None for what operators take."""
    others: tuple[int, ...] = ()
    """More values of the reference, which the rule joins with the first."""
    is_loss: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether both are one value each, in the same layout."""
        return not self.others and not (self.rule is not None and self.rule.steps)


class Runs:
    """Both programs executed from the reference's leaves."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        sinks: Sequence[Sink],
        executed: tuple[Mapping[int, Leaf], Mapping[int, Leaf]] = ({}, {}),
        *,
        limits: Limits | None = None,
    ) -> None:
        """Execute them.

        Args:
            sides: The reference and the candidate.
            given: What their leaves hold.
            sinks: The results.
            executed: Values that were made of these leaves before. What needs them starts there,
                but for random errors, which begin at the leaves.
            limits: Of each execution; None lets searches find other numbers of elements.

        Raises:
            ProgramError: Elements lack, or a limit is passed.
            DumpFormatError: Elements are damaged.
        """
        self._sides, self._limits = sides, limits or COUNTING
        self._given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]]
        self._given = {**executed[0], **given[0]}, {**executed[1], **given[1]}
        self._wanted = _values(sinks)
        self._made: dict[int, tuple[dict[int, Array], dict[int, Array]]] = {}
        """The results of both sides with random errors, by seed."""
        self.arrays = self.execute(0), self.execute(1)
        """The results of both sides, by value id."""
        self._given = given

    @cached_property
    def _choices(self) -> tuple[Mapping[int, Array], Mapping[int, Array]]:
        """What both sides chose alike, which no errors turn."""
        return choices_alike(self._sides, self._given, self._wanted, self._limits)

    def error(self, sink: Sink) -> float:
        """Return the largest difference over the root mean square of the reference's elements."""
        found = self.differences(sink)
        if found is None:
            return float("inf")
        off, known = found
        return float(np.max(off, initial=0.0)) / self.scale(sink, off, known)

    def agree(self, sink: Sink, larger: Callable[[], tuple[Array, float]] | None = None) -> bool:
        """Return whether all elements agree as far as float64 can tell.

        Args:
            sink: The result.
            larger: By how much larger errors moved each element, and by how much these are larger
                than 2**-53; asked for only where most differences are none of right forms. They
                move a result as many times as far, or by about its own size where it does not
                follow them, and then no difference is larger: so they only tell what differs.
        """
        found = self.differences(sink)
        if found is None:
            return False
        off, known = found
        size = root_mean_square(known)
        doubtful = ~(off <= _NEAR * np.abs(known))
        if not doubtful.any():
            return True
        if not np.all(off[doubtful] <= _MOST * size):
            return False
        if larger is not None and np.median(off) > _NEAR * size:
            moved, growth = larger()
            if is_clear(off, moved * (_DISTURBANCES / growth)):
                return False
        return self._is_allowed(sink, off[doubtful], doubtful)

    def _is_allowed(self, sink: Sink, off: Array, doubtful: Array) -> bool:
        """Return whether doubtful differences are no larger than errors of 2**-53 allow."""
        allowed = np.zeros(off.shape)
        for seed in _SEEDS:
            allowed = np.fmax(allowed, _DISTURBANCES * self._moved_by(sink, seed)[doubtful])
            if np.all(off <= allowed):
                return True
            if is_clear(off, allowed):
                return False
        return False

    def is_finite(self, sink: Sink) -> bool:
        """Return whether all elements are finite on both sides."""
        known = [self.arrays[0][value] for value in (sink.reference, *sink.others)]
        return all(np.isfinite(one).all() for one in (*known, self.arrays[1][sink.candidate]))

    def agree_within(self, sink: Sink, unit: float, size: float | None = None) -> bool:
        """Return whether all elements agree within the rounding of a dtype.

        Args:
            sink: The result.
            unit: Roundoff of the dtype.
            size: What differences are measured by; None for that of this execution.
        """
        found = self.differences(sink)
        if found is None:
            return False
        off, known = found
        size = self.scale(sink, off, known) if size is None else size
        return bool(np.all(off <= max(ROUNDINGS * unit, _NEAR) * size))

    def scale(self, sink: Sink, off: Array, known: Array) -> float:
        """Return the size that differences of a result are measured by."""
        return size_of(off, known, lambda: self._moved(sink))

    def execute(
        self, which: int, rounding: Rounding | None = None, sinks: Sequence[Sink] | None = None
    ) -> dict[int, Array]:
        """Execute results of the reference (0) or the candidate (1).

        Args:
            which: The side.
            rounding: Errors to make in each primitive; None makes none.
            sinks: The results; None executes all.

        Raises:
            ProgramError: Elements lack, or a limit is passed.
            DumpFormatError: Elements are damaged.
        """
        wanted = self._wanted[which] if sinks is None else _values(sinks)[which]
        if not wanted:
            return {}
        lowered, given = self._sides[which].lowered, self._given[which]
        if rounding is not None:
            rounding.held = self._choices[which]
        return execute(lowered, given, wanted, limits=self._limits, rounding=rounding)

    def pair(
        self,
        sink: Sink,
        known: Mapping[int, Array] | None = None,
        found: Mapping[int, Array] | None = None,
    ) -> list[Array]:
        """Return what both sides hold of a result, in the candidate's layout.

        Args:
            sink: The result.
            known: Results of the reference by value id; None takes those without errors.
            found: Of the candidate.
        """
        known = self.arrays[0] if known is None else known
        found = self.arrays[1] if found is None else found
        two = found[sink.candidate]
        one = known[sink.reference]
        if sink.rule is not None:
            parts = [one, *(known[value] for value in sink.others)]
            one = sink.rule.apply(parts, two.shape)
        is_complex = "c" in (one.dtype.kind, two.dtype.kind)
        return [each.astype(np.complex128 if is_complex else np.float64) for each in (one, two)]

    def differences(self, sink: Sink) -> tuple[Array, Array] | None:
        """Return the magnitudes of the differences and the reference's elements.

        None where shapes differ.
        """
        try:
            one, two = self.pair(sink)
        except ConfigError:
            return None
        if one.shape != two.shape:
            return None
        with np.errstate(all="ignore"):
            is_alike = (one == two) | (np.isnan(one) & np.isnan(two))
            off = np.where(is_alike, 0.0, np.abs(one - two))
        return np.where(np.isnan(off), np.inf, off), one

    def _disturbed(self, seed: int) -> tuple[dict[int, Array], dict[int, Array]]:
        """Return the results of both sides with random errors."""
        if seed not in self._made:
            known, found = (
                self.execute(which, disturbing(len(side.program.operators), seed))
                for which, side in enumerate(self._sides)
            )
            self._made[seed] = known, found
        return self._made[seed]

    def _moved(self, sink: Sink) -> Array:
        """Return by how much random errors moved each element, on the side where it is more."""
        return np.fmax(*(self._moved_by(sink, seed) for seed in _SEEDS))

    def _moved_by(self, sink: Sink, seed: int) -> Array:
        """Return the same of the errors of one seed."""
        pairs = zip(self.pair(sink), self.pair(sink, *self._disturbed(seed)), strict=True)
        with np.errstate(all="ignore"):
            one, two = (np.abs(after - before) for before, after in pairs)
            return np.asarray(np.fmax(np.fmax(one, two), 0.0))


def _values(sinks: Sequence[Sink]) -> tuple[list[int], list[int]]:
    """Return the value ids of results, of the reference and of the candidate."""
    joined = [value for sink in sinks for value in (sink.reference, *sink.others)]
    return joined, [sink.candidate for sink in sinks]


def size_of(off: Array, known: Array, moved: Callable[[], Array]) -> float:
    """Return the root mean square of a result, or of what went into one that is zero.

    The mean of what a norm gives is zero but for the rounding of float64 itself.

    Args:
        off: The magnitudes of the differences.
        known: The reference's elements.
        moved: By how much random errors of 2**-53 in each primitive move each element; asked for
            only where a difference is larger than the result.
    """
    size = root_mean_square(known)
    if not np.max(off, initial=0.0) > size > 0:
        return size or 1.0
    went_in = root_mean_square(moved()) / _DISTURBANCE
    return size if size > ROUNDINGS * _DISTURBANCE * went_in else went_in


def is_clear(off: Array, allowed: Array) -> bool:
    """Return whether differences are too large to be an accident of the errors of one seed."""
    with np.errstate(all="ignore"):
        return bool(np.median(off / allowed) > _CLEAR)


def is_near(found: Array, known: Array) -> bool:
    """Return whether elements agree to 1e-9 of themselves, or of their root mean square.

    Arrays that are zero or not finite show nothing. Beside what masks add, other elements have a
    size of their own.
    """
    found, known = (one * 1.0 if one.dtype == np.bool_ else one for one in (found, known))
    size: float | Array = root_mean_square(known)
    if found.shape != known.shape or not size or not np.isfinite(known).all():
        return False
    magnitudes, off = np.abs(known), np.abs(found - known)
    is_masked = magnitudes > _masked_from(magnitudes)
    if is_masked.any():
        size = np.where(is_masked, size, root_mean_square(known[~is_masked]))
    return bool(np.all(off <= _NEAR * np.maximum(magnitudes, size)))


def _masked_from(magnitudes: Array) -> float:
    """Return the largest magnitude that is below the numbers of masks; infinity without any."""
    if np.max(magnitudes, initial=0.0) < _MASK:
        return np.inf
    ordered = np.sort(magnitudes[magnitudes > 0])
    is_gap = ordered[1:] > _MASK * np.maximum(ordered[:-1], 1.0)
    return float(ordered[np.argmax(is_gap)]) if is_gap.any() else np.inf


def disturbing(operators: int, seed: int) -> Rounding:
    """Return random errors of 2**-53 in the primitives of so many operators."""
    return Rounding(dict.fromkeys(range(operators), _DISTURBANCE), seed=seed)


def root_mean_square(array: Array) -> float:
    """Return the root mean square of the finite elements, 0 where there are none."""
    finite = np.abs(array[np.isfinite(array)])
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0


_WHOLE = frozenset({"ceil", "floor", "round", "sign", "trunc"})
"""Choices whose results are floating-point numbers."""


def choices_alike(
    sides: tuple[Side, Side],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    wanted: tuple[Sequence[int], Sequence[int]],
    limits: Limits,
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Return the outcomes that both sides have, by the terms of the reference and the candidate.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    terms = [_choosing(side, values) for side, values in zip(sides, wanted, strict=True)]
    if not all(terms):
        return {}, {}
    outcomes = []
    for side, leaves, own in zip(sides, given, terms, strict=True):
        run = Execution(side.lowered, leaves, limits, None)
        run.run_all(run.needed(own), own)
        outcomes.append({term: run.operand(term) for term in own})
    digests = [{term: _digest(one) for term, one in each.items()} for each in outcomes]
    both = set(digests[0].values()) & set(digests[1].values())
    known, found = (
        {term: array for term, array in each.items() if own[term] in both}
        for each, own in zip(outcomes, digests, strict=True)
    )
    return known, found


def _choosing(side: Side, values: Sequence[int]) -> list[int]:
    """Return the terms that are outcomes of choices between floating-point numbers."""
    lowered = side.lowered
    nodes = (lowered.nodes[at] for at in lowered.behind([lowered.terms[one] for one in values]))
    return [
        term
        for node in nodes
        if node.primitive in CHOOSING
        if any(lowered.specs[one].kind is Kind.FLOAT for one in node.operands)
        for term in node.outputs
        if node.primitive in _WHOLE or lowered.specs[term].kind is not Kind.FLOAT
    ]


def _digest(outcome: Array) -> bytes:
    flat = np.ascontiguousarray(outcome).reshape(-1)
    return blake2b(
        flat.view(np.uint8).data, digest_size=16, key=outcome.dtype.str.encode()
    ).digest()
