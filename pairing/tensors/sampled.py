"""Elements of two records that are the same place, and how far apart they are under a layout."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError, Content, DumpError, RecordInfo
from padiff.pairing.rule import Rule
from padiff.pairing.steps import PICKING, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import ValueInfo
    from padiff.pairing.side import Side

Array = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]

MOST_TRACED = 1 << 26
"""Elements of a tensor whose places are followed through a layout rule (4 bytes for each)."""
LEAST_SAMPLE = 256
"""Elements that two samples must have in common to decide anything: a divergence of 1 % of the
elements is among so few with a probability of 92 %."""
_KEEPS_ORDER = frozenset(
    {Verb.RESHAPE, Verb.INSERT, Verb.SQUEEZE, Verb.NOT, Verb.SPLIT, Verb.MERGE}
)


@runtime_checkable
class _Sampled(Protocol):
    """A side that may hold samples: an opened file."""

    def sample(self, value: ValueInfo) -> tuple[Positions, Array]:
        """Return positions and elements of a sampled value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """What one side holds of a record."""

    shape: tuple[int, ...]
    values: Array
    """One-dimensional."""
    positions: Positions | None
    """Flat positions of the values, ascending; None if they are all there."""

    def at(self, wanted: Positions) -> tuple[npt.NDArray[np.bool_], Array]:
        """Return which of the wanted positions are there, and give the elements at those."""
        if self.positions is None:
            return np.ones(wanted.size, np.bool_), self.values[wanted]
        spots = np.searchsorted(self.positions, wanted)
        spots[spots == self.positions.size] = 0
        there = self.positions[spots] == wanted
        return there, self.values[spots[there]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """Elements of both sides, place by place; one-dimensional."""

    reference: Array
    candidate: Array
    places: Positions
    """Flat positions in the candidate, ascending."""


def elements_of(side: Side, record: RecordInfo) -> Elements | None:
    """Return what a side holds of a record; None if nothing.

    Raises:
        DumpFormatError: The elements cannot be read.
    """
    value = None if record.value is None else side.index.values[record.value]
    if value is None:
        return None
    if value.content is Content.FULL:
        return Elements(shape=record.shape, values=side.array(record).reshape(-1), positions=None)
    if value.content is not Content.SAMPLE or not isinstance(side, _Sampled):
        return None
    positions, values = side.sample(value)
    return Elements(shape=record.shape, values=values, positions=positions)


def match_elements(
    rule: Rule, references: Sequence[Elements], candidate: Elements
) -> Matched | None:
    """Find what both sides hold of a pair.

    Args:
        rule: Turns the references into the candidate; it fits their shapes.
        references: What the reference holds of each record.
        candidate: What the candidate holds.

    Returns:
        None where that is less than ``LEAST_SAMPLE`` elements and less than was drawn for a sample,
        or where the tensor is too large to follow its places through the rule.
    """
    found = _matched(rule, references, candidate)
    if found is None or found.places.size < _least((*references, candidate)):
        return None
    return found


def _least(sides: Sequence[Elements]) -> int:
    """Return how many elements must be in common: less where less was asked for."""
    drawn = [side.positions.size // 2 for side in sides if side.positions is not None]
    return min(LEAST_SAMPLE, *drawn) if drawn else 0


def _matched(rule: Rule, references: Sequence[Elements], candidate: Elements) -> Matched | None:
    verbs = [step.verb for step in rule.steps]
    moving = Rule(tuple(step for step in rule.steps if step.verb is not Verb.NOT))
    if len(references) == 1 and _KEEPS_ORDER.issuperset(verbs):
        found = _in_order(references[0], candidate)
    elif max(math.prod(side.shape) for side in (*references, candidate)) > MOST_TRACED:
        return None
    else:
        found = _through(moving, references, candidate)
    if verbs.count(Verb.NOT) % 2 == 0:
        return found
    return Matched(
        reference=np.logical_not(found.reference), candidate=found.candidate, places=found.places
    )


def _in_order(reference: Elements, candidate: Elements) -> Matched:
    """Take equal flat positions."""
    one = candidate if reference.positions is None else reference
    wanted = one.positions
    if wanted is None:
        wanted = np.arange(candidate.values.size)
    here, found = candidate.at(wanted)
    there, known = reference.at(wanted[here])
    return Matched(reference=known, candidate=found[there], places=wanted[here][there])


def _through(rule: Rule, references: Sequence[Elements], candidate: Elements) -> Matched:
    """Number the elements of all references, and see where the rule puts the numbers.

    The first number is 1: what the rule fills with zeros is no element of any.
    """
    starts = np.cumsum([1, *(math.prod(side.shape) for side in references)])
    dtype = np.uint32 if starts[-1] < 1 << 32 else np.uint64
    numbers = [
        np.arange(start, start + math.prod(side.shape), dtype=dtype).reshape(side.shape)
        for start, side in zip(starts.tolist(), references, strict=False)
    ]
    made = rule.apply(numbers, candidate.shape)
    wanted = candidate.positions
    if wanted is None:
        wanted = np.arange(candidate.values.size)
    origins = made[np.unravel_index(wanted, candidate.shape)].astype(np.int64)
    known: list[Array] = []
    spots: list[Positions] = []
    for start, stop, side in zip(starts[:-1], starts[1:], references, strict=True):
        own = np.flatnonzero((origins >= start) & (origins < stop))
        there, values = side.at(origins[own] - start)
        known.append(values)
        spots.append(own[there])
    order = np.argsort(np.concatenate(spots), kind="stable")
    places = wanted[np.concatenate(spots)[order]]
    return Matched(
        reference=np.concatenate(known)[order], candidate=candidate.at(places)[1], places=places
    )


def holds_all(rule: Rule) -> bool:
    """Return whether a rule keeps every element as it is, so that statistics are the same."""
    return not any(step.verb in PICKING or step.verb is Verb.NOT for step in rule.steps)


EQUAL = 1e-2
"""Relative distance up to which two tensors count as the same under a layout."""


def elements_of_both(
    sides: tuple[Side, Side], one: RecordInfo, two: RecordInfo
) -> tuple[Elements, Elements] | None:
    """Return all elements of both, or what sampled dumps hold of them; None if nothing."""
    try:
        known = elements_of(sides[0], one)
        found = elements_of(sides[1], two)
    except DumpError:
        return None
    return None if known is None or found is None else (known, found)


def distance(rule: Rule, one: Elements, two: Elements) -> float:
    """Return the distance relative to the reference's size, over what is finite on both sides."""
    try:
        made, found = _both(rule, one, two)
    except ConfigError:
        return float("inf")
    if np.iscomplexobj(made) or np.iscomplexobj(found):
        made, found = np.abs(made), np.abs(found)
    mine, theirs = made.astype(np.float64), found.astype(np.float64)
    both = np.isfinite(mine) & np.isfinite(theirs)
    size = float(np.linalg.norm(mine[both]))
    gap = float(np.linalg.norm(theirs[both] - mine[both]))
    return gap / size if size else float("inf")


def _both(rule: Rule, one: Elements, two: Elements) -> tuple[Array, Array]:
    """Return the reference in the candidate's layout, and the candidate; of samples what both hold.

    Raises:
        ConfigError: The rule does not fit, or the samples have too little in common.
    """
    if one.positions is None and two.positions is None:
        made = rule.apply([one.values.reshape(one.shape)], two.shape)
        return np.asarray(made), two.values.reshape(two.shape)
    matched = match_elements(rule, [one], two)
    if matched is None:
        raise ConfigError("the samples have too little in common")
    return matched.reference, matched.candidate
