"""Ranks that say the same, told once: by the first of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Generic, TypeVar

from padiff.comparer.judgedpairs import sayings
from padiff.comparer.proving import Edit, LeafDifference, UnsoundValue, UpdateDifference
from padiff.comparer.stored import origins_of

from .numbers import count, number, plural
from .wording import each_of, origins_or_first

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from padiff.comparer.result import (
        Comparison,
        Divergence,
        Endpoint,
        JudgedPair,
        StepComparison,
        VerdictReason,
    )


Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Repeated(Generic[Thing]):
    """What several ranks say, as the first of them says it."""

    first: Thing
    ranks: tuple[int, ...]
    """All of them; empty of what is said of no rank."""


def fold_ranks(
    things: Iterable[Thing],
    key: Callable[[Thing], Hashable],
    rank: Callable[[Thing], int | None],
) -> list[Repeated[Thing]]:
    """Return things once for all ranks that say them, in the order of the first.

    What one rank says twice stays twice.

    Args:
        things: What there is to tell.
        key: What two of them have in common that say the same; without the rank.
        rank: Of which rank one is; None of none.
    """
    times: Counter[Hashable] = Counter()
    found: dict[Hashable, tuple[Thing, list[int]]] = {}
    for thing in things:
        its_key, its_rank = key(thing), rank(thing)
        times[its_key, its_rank] += 1
        _, ranks = found.setdefault((its_key, times[its_key, its_rank]), (thing, []))
        ranks += [] if its_rank is None else [its_rank]
    return [Repeated(first, tuple(sorted(ranks))) for first, ranks in found.values()]


def fold_origins(comparison: Comparison) -> list[Repeated[Divergence]]:
    """Return the origins of a comparison, or its first divergence, with the ranks that have it.

    Two say the same if they are at one place of one step, for one cause: how far it moves the
    results of a rank is no part of the cause.
    """
    return fold_ranks(origins_or_first(comparison), cause_of, _rank)


def count_origins(comparison: Comparison) -> str:
    """Count the origins, those that ranks share once, and all of them beside that."""
    every = len(comparison.origins)
    origins = len(fold_origins(comparison)) if every else 0
    more = f" ({count(every)} over all ranks)" if origins < every else ""
    return f"{plural(origins, 'origin')}{more}"


def fold_steps(steps: Iterable[StepComparison]) -> list[Repeated[StepComparison]]:
    """Return steps with the ranks that have the same verdicts, as many of each, and origins."""
    return fold_ranks(steps, _outcome, lambda step: step.rank)


def fold_pairs(pairs: Iterable[JudgedPair]) -> list[Repeated[JudgedPair]]:
    """Return records with the ranks on which they differ by the same numbers."""
    return fold_ranks(pairs, _measured, lambda pair: pair.end.address.rank)


def fold_reasons(reasons: Iterable[VerdictReason]) -> list[str]:
    """Return the reasons of a verdict, those that several ranks have in one line."""
    folded = fold_ranks(
        reasons,
        lambda one: (one.kind, one.step, one.detail or one.text),
        lambda one: one.rank,
    )
    return [
        f"{each_of(one.first.step, one.ranks)}: {one.first.detail}"
        if one.first.step is not None and len(one.ranks) > 1
        else one.first.text
        for one in folded
    ]


def _rank(found: Divergence) -> int:
    return found.pair.end.address.rank


def _ends(pair: JudgedPair) -> tuple[Hashable, ...]:
    """Return where a record is on both sides, whatever the rank."""
    return tuple(map(_end, (pair.reference, pair.candidate)))


def _end(end: Endpoint | None) -> Hashable:
    return None if end is None else replace(end.address, rank=0)


def cause_of(found: Divergence) -> Hashable:
    """Return where and why something diverged: equal on ranks that say the same of it."""
    causes = tuple(map(_without_size, found.faults))
    said = (found.kind, found.pair.verdict, found.suspects)
    return (_ends(found.pair), found.phase, *said, causes or found.evidence)


@singledispatch
def _without_size(fault: object) -> Hashable:
    """Return what is wrong, without how far it is off."""
    return fault


@_without_size.register(Edit)
def _(fault: Edit) -> Hashable:
    return repr(replace(fault, influence=None))  # arguments may be mappings, which have no hash


@_without_size.register(LeafDifference)
def _(fault: LeafDifference) -> Hashable:
    return replace(fault, influence=None, largest=None, elements=0)


@_without_size.register(UpdateDifference)
def _(fault: UpdateDifference) -> Hashable:
    return replace(fault, error=0.0, effect=None)


@_without_size.register(UnsoundValue)
def _(fault: UnsoundValue) -> Hashable:
    return replace(fault, value=replace(fault.value, error=None, largest=None))


def _outcome(step: StepComparison) -> Hashable:
    counts: Counter[Hashable] = Counter()
    for one, times in sayings([step]).items():
        counts[one.verdict, one.is_covered] += times
    origins = [cause_of(found) for found in origins_of(step.divergences)]
    return step.step, len(step.divergences), frozenset(counts.items()), tuple(origins)


def _measured(pair: JudgedPair) -> Hashable:
    metrics, said = pair.metrics, (pair.verdict, pair.kind, pair.reason)
    found = metrics and (number(metrics.max_abs), number(metrics.relative_l2), metrics.mismatched)
    return (_ends(pair), *said, found, pair.tolerance)
