"""Refute coincidences: programs that agree on what was recorded, and are two functions.

A scale of 1, a mask that masks nothing, a limit that nothing reaches: there two functions give the
same. So what is not the same expression is executed once more, with a second set of weights and
inputs: each element is multiplied by a random factor, and a weight that is all zeros, as biases
begin, gets random elements, unless a leaf without a partner holds the same zeros. Signs, other
zeros, integers, masks and all that was made from numbers stay, but for the moments that norms over
batches keep, and inputs stay within the range that they had. Where elements are compared with
limits, a third set follows, of larger weights of either sign: two functions that part beyond a
limit are one below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from padiff.dumpfile import DumpFormatError, LeafKind, ProgramError
from padiff.program import UNIT_ROUNDOFF, ValueRef
from padiff.program.primitives import Kind

from .executed import LIMITS, Runs
from .hidden import Errors, Rounded
from .results import READ

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.program import Leaf, Lowered, Value
    from padiff.program.primitives import Array

    from .executed import Sink
    from .leaves import Leaves
    from .side import Side

    Given: TypeAlias = tuple[Mapping[int, Leaf], Mapping[int, Leaf]]

LARGER = 3.0
"""How much larger factors are in the third set, as a power of two."""
_LIMITING = frozenset({"abs", "less", "less_equal", "maximum", "minimum"})

_POWERS = {
    LeafKind.PARAMETER: (-2.0, 2.0), LeafKind.BUFFER: (-2.0, 2.0), LeafKind.INPUT: (-1.0, 0.0),
}  # fmt: skip
"""The factors, as powers of two: what is an input between 0 and 1 remains so."""
_STATISTICS = frozenset({"mean", "running_mean", "running_var", "variance"})
"""What norms over batches call the buffers that they take as the moments of their input."""
_BEGUN = 0.25
"""How large the elements are that a weight of zeros gets, as those of trained biases are."""


class Second:
    """The second set of the reference's leaves, or the third."""

    def __init__(
        self, sides: tuple[Side, Side], leaves: Leaves, *, is_larger: bool = False
    ) -> None:
        """Choose what is changed."""
        self.is_larger = is_larger
        self._sides, self._values = sides, sides[0].program.values
        pairs = leaves.pairs.items()
        kept = set(_statistics(sides[1]))
        kept = {one for value, pair in pairs if value in kept for one in pair.reference}
        kept.update(_statistics(sides[0]))
        own = {
            one.id
            for one in self._values
            if _is_varied(one) and (one.kind is not LeafKind.BUFFER or one.id in kept)
        }
        taken = {one for one, pair in pairs if not own.isdisjoint(pair.reference)}
        self._varied = own, taken
        """Value ids of the leaves that change, of both sides."""
        paired = {one for _, pair in pairs for one in pair.reference}, leaves.pairs.keys()
        self._lone = {
            info.digest
            for side, those in zip(sides, paired, strict=True)
            for one in side.program.values
            if one.kind is not None and one.id not in those
            and (info := side.recorded.info(one.id)) is not None
        }  # fmt: skip
        """What leaves without a partner hold: equal zeros may be one leaf on the other side."""

    def __call__(self, value: int, array: Array) -> Array:
        """Return the elements of a leaf of the reference in the second set."""
        kind = self._values[value].kind
        if kind is None or value not in self._varied[0]:
            return array
        wide = array.astype(np.float64)
        if kind is LeafKind.INPUT and np.array_equal(np.rint(wide), wide, equal_nan=True):
            return array  # a mask, or positions
        random = np.random.default_rng(value)
        factors = np.exp2(random.uniform(*_POWERS[kind], array.shape))
        if self.is_larger and kind is LeafKind.PARAMETER:
            factors *= 2**LARGER * random.choice((-1.0, 1.0), array.shape)
        info = self._sides[0].recorded.info(value)
        is_alone = info is not None and info.digest in self._lone
        if kind is not LeafKind.INPUT and not (is_alone or wide.any()):
            return np.asarray(_BEGUN * factors)
        return np.asarray(wide * factors)

    def agree(self, runs: Runs, sink: Sink) -> bool:
        """Return whether a result of two programs that were executed with this set agrees.

        Larger weights bring exponentials to their ends, where nothing is left of an element but
        what rounding made of it: differences of the third set count beside the whole result.
        """
        return runs.agree(sink) or (self.is_larger and runs.agree_within(sink, 0.0))

    def is_read(self, which: int, wanted: Sequence[int]) -> bool:
        """Return whether a number that changes was read into Python before values were made.

        What was made of it then is a number of the program, as it was recorded.
        """
        side = self._sides[which]
        terms = side.lowered.terms
        varied = (terms[value] for value in self._varied[which] if value in terms)
        changed = side.lowered.ahead(varied)
        last = max((side.program.values[one].producer or 0 for one in wanted), default=0)
        return any(
            READ in operator.keywords and any(terms[one] in changed for one in operator.taken)
            for operator in side.program.operators[:last]
        )


def _statistics(side: Side) -> Iterator[int]:
    """Yield the values that norms over batches take as moments: a fresh one has zeros and ones."""
    for one in side.program.operators:
        if "batchnorm" in one.name.lower().replace("_", ""):
            named = side.table.named(one.name, one.positional, one.keywords)
            yield from (
                value.id
                for name, value in named
                if name in _STATISTICS and isinstance(value, ValueRef)
            )


def _is_varied(value: Value) -> bool:
    return value.kind in _POWERS and value.dtype in UNIT_ROUNDOFF and "complex" not in value.dtype


def has_limits(lowered: Lowered, places: Iterable[int]) -> bool:
    """Return whether some nodes of a program ask how large floating-point elements are."""
    return any(
        node.primitive in _LIMITING and lowered.specs[node.operands[0]].kind is Kind.FLOAT
        for node in (lowered.nodes[place] for place in places)
    )


def refuted(
    sides: tuple[Side, Side], leaves: Leaves, sinks: Sequence[Sink], *, is_hidden: bool
) -> tuple[Given, list[Sink]] | None:
    """Execute both programs with the other sets, and return the results that differ there.

    Args:
        sides: The reference and the candidate.
        leaves: Of both.
        sinks: Results that agree on the recorded leaves.
        is_hidden: Whether they do but for a difference that rounding hides there. One that it hides
            with the second set, too, refutes nothing then: gradients do not show it either.

    Returns:
        The leaves and the results; None where nothing is refuted. That is so, too, where the
        programs cannot take other leaves: they made other choices, or read numbers into Python.
    """
    second = Second(sides, leaves)
    wanted = (
        [one for sink in sinks for one in (sink.reference, *sink.others)],
        [sink.candidate for sink in sinks],
    )
    if any(second.is_read(which, wanted[which]) for which in (0, 1)):
        return None
    found = _differing(sides, leaves, sinks, second, is_hidden=is_hidden)
    programs = [side.lowered for side in sides]
    behind = [
        lowered.behind(lowered.terms[value] for value in values)
        for lowered, values in zip(programs, wanted, strict=True)
    ]
    if found is None and any(map(has_limits, programs, behind)):
        third = Second(sides, leaves, is_larger=True)
        found = _differing(sides, leaves, sinks, third, is_hidden=is_hidden)
    return found


def _differing(
    sides: tuple[Side, Side],
    leaves: Leaves,
    sinks: Sequence[Sink],
    second: Second,
    *,
    is_hidden: bool,
) -> tuple[Given, list[Sink]] | None:
    """Return one set of leaves and the results that differ with it; None where none does."""
    given = leaves.of_reference(*sides, second), leaves.of_candidate(*sides, second)
    try:
        runs = Runs(sides, given, sinks, limits=LIMITS)
        differing = [
            sink for sink in sinks if runs.is_finite(sink) and not second.agree(runs, sink)
        ]
        if is_hidden:
            rounded = Rounded(runs, Errors(sides), differing)
            effects = {sink: rounded.effect(sink) for sink in differing}
            differing = [sink for sink, one in effects.items() if one and not one.is_hidden]
    except (ProgramError, DumpFormatError):
        return None
    return (given, differing) if differing else None
