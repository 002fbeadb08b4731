"""Several steps of one run: what diverged in a step explains the steps after it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .judgedpairs import remarkable, replaced
from .result import Kind, StepComparison
from .stored import changed, changed_at, origins_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from .result import Divergence, Endpoint, JudgedPair, NodeRow


_PHASES = tuple(Phase)
_Fault = tuple[Phase, str]
"""Phase and module path on the reference."""
_Owner = tuple[bool, int, int | None, Phase]
"""Whether the candidate alone has it, module and call by number, and phase."""


def inherit_across(
    steps: Sequence[StepComparison], fed: frozenset[Phase] = frozenset()
) -> tuple[StepComparison, ...]:
    """Make the divergences of a step inherited where training had diverged before.

    Steps are connected by the weights that one leaves to the next, so this holds only where
    updates were recorded. A learning rate diverges by itself at any step, though only once. In a
    phase that was fed a call is an origin in each step, if it is one before the updates diverged.
    """
    diverged: set[int] = set()
    rates: set[tuple[int, str]] = set()
    faults: dict[int, set[_Fault]] = {}
    """Origins in fed phases, of each rank, of the steps whose weights were right."""
    moved: set[int] = set()
    """Ranks whose weights are no longer the reference's."""
    kept_steps = []
    for step in steps:
        kept = step
        every = tuple(step.divergences)
        if step.rank in diverged:
            kept = _inheriting(
                step,
                [
                    place
                    for place, found in enumerate(every)
                    if not _is_new_rate(found, rates)
                    and not (found.phase in fed and _is_fault(found, step.rank, faults, moved))
                ],
            )
        if step.rank not in moved:
            origins = [found for found in every if found.kind is Kind.ORIGIN]
            own = {_fault(found) for found in origins if found.phase in fed}
            faults[step.rank] = faults.get(step.rank, set()) | own
        if any(found.phase is Phase.UPDATE for found in every):
            moved.add(step.rank)
        ends = [found.pair.end for found in every]
        rates |= {(step.rank, end.address.slot) for end in ends if _is_rate(end)}
        if every and _has_update(step, every):
            diverged.add(step.rank)
        kept_steps.append(kept)
    return tuple(_inherit_across_ranks(kept_steps))


def _inherit_across_ranks(steps: Sequence[StepComparison]) -> Iterator[StepComparison]:
    """Make inherited what a rank got from the others of its step: reduced gradients, and updates.

    It did if another rank diverged in an earlier phase.
    """
    earliest: dict[int, dict[int, int]] = {}
    for step in steps:
        phases = [_PHASES.index(found.phase) for found in step.divergences]
        if phases:
            earliest.setdefault(step.step, {})[step.rank] = min(phases)
    for step in steps:
        others = [phase for rank, phase in earliest.get(step.step, {}).items() if rank != step.rank]
        since = min(others, default=len(_PHASES))
        yield _inheriting(
            step,
            [
                place
                for place, found in enumerate(step.divergences)
                if _is_shared(found) and _PHASES.index(found.phase) > since
            ]
            if since < len(_PHASES)
            else (),
        )


def _inheriting(step: StepComparison, places: Sequence[int]) -> StepComparison:
    """Return a step of which some divergences were found to be inherited: all of it says so."""
    if not places:
        return step
    divergences = changed_at(step.divergences, frozenset(places), inherited)
    left = [found.pair for found in origins_of(divergences)]
    owners = {_owner(pair) for pair in left}
    paths = {pair.reference.address.module for pair in left if pair.reference is not None}
    return replace(
        step,
        divergences=divergences,
        pairs=changed(step.pairs, partial(_pairs_left, owners=owners)),
        tree=changed(step.tree, partial(_rows_left, paths=paths)),
    )


def _pairs_left(pairs: Sequence[JudgedPair], owners: Set[_Owner]) -> Sequence[JudgedPair]:
    """Make all pairs inherited that are not of a call or module that has an origin."""
    others = {
        place: replace(pair, kind=Kind.INHERITED)
        for place, pair in remarkable(pairs)
        if pair.kind is Kind.ORIGIN and _owner(pair) not in owners
    }
    return replaced(pairs, others)


def _rows_left(tree: Sequence[NodeRow], paths: Set[str]) -> Sequence[NodeRow]:
    """Make all rows of the tree inherited that are not of a module that has an origin."""
    return [
        replace(row, origin=False, inherited=True)
        if row.origin and row.reference not in paths
        else row
        for row in tree
    ]


def _owner(pair: JudgedPair) -> _Owner:
    """Return the call or module that a pair belongs to, and in which phase."""
    end = pair.end
    return pair.reference is None, end.module, end.call, end.address.phase


def _is_shared(divergence: Divergence) -> bool:
    """Return whether ranks reduce it, or make it of what they reduce."""
    is_gradient = divergence.pair.end.address.role is Role.WEIGHT_GRAD
    return is_gradient or divergence.phase is Phase.UPDATE


def known_notes(pairs: Sequence[JudgedPair]) -> tuple[str, ...]:
    """Return one line for each known difference that a step's pairs show, with where."""
    where: dict[str, list[str]] = {}
    for _, pair in remarkable(pairs):
        if pair.reason.startswith("known difference") and pair.reference is not None:
            name = pair.reference.address.name
            names = where.setdefault(pair.reason, [])
            if name not in names:
                names.append(name)
    return tuple(f"{reason}: {', '.join(names)}" for reason, names in where.items())


def _fault(divergence: Divergence) -> _Fault:
    return divergence.phase, divergence.pair.end.address.module


def _is_fault(
    divergence: Divergence, rank: int, faults: Mapping[int, set[_Fault]], moved: set[int]
) -> bool:
    """Return whether a call of a fed phase diverged by itself, and not by what updates left."""
    is_known = divergence.pair.end.call is not None and _fault(divergence) in faults.get(
        rank, set()
    )
    return is_known or rank not in moved


def _is_rate(end: Endpoint) -> bool:
    return end.address.role is Role.LR


def _is_new_rate(divergence: Divergence, known: set[tuple[int, str]]) -> bool:
    """Return whether a learning rate diverged that did not before."""
    end = divergence.pair.end
    return _is_rate(end) and (end.address.rank, end.address.slot) not in known


def inherited(divergence: Divergence) -> Divergence:
    """Return a divergence as the consequence of another."""
    return replace(
        divergence, kind=Kind.INHERITED, pair=replace(divergence.pair, kind=Kind.INHERITED)
    )


def _has_update(step: StepComparison, divergences: Sequence[Divergence]) -> bool:
    """Return whether what diverged may be in the weights or buffers of later steps."""
    addresses = (pair.end.address for pair in step.pairs)
    return any(found.phase is Phase.UPDATE for found in divergences) or any(
        at.phase is Phase.UPDATE and at.role is not Role.BUFFER for at in addresses
    )
