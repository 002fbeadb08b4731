"""Several steps of one run: what diverged in a step explains the steps after it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .result import Kind, StepComparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import Index, ModuleInfo

    from .result import Divergence, Endpoint, JudgedPair

__all__ = ["inherit_across", "known_notes", "random_notes"]

RANDOM = ("dropout", "droppath", "drop_path", "stochasticdepth", "gumbel")
"""Parts of the names of classes that draw random numbers while training."""
MOST_NAMES = 4
_PHASES = tuple(Phase)


def inherit_across(
    steps: Sequence[StepComparison], fed: frozenset[Phase] = frozenset()
) -> tuple[StepComparison, ...]:
    """Make the divergences of a step inherited where training had diverged before.

    Steps are connected by the weights that one leaves to the next, so this holds only where
    updates were recorded. A learning rate diverges by itself at any step, though only once, and so
    does a call in a phase that was fed.
    """
    diverged: set[int] = set()
    rates: set[tuple[int, str]] = set()
    kept_steps = []
    for step in steps:
        has_update = any(_is_update(pair.reference or pair.candidate) for pair in step.pairs)
        kept = step
        if step.rank in diverged:
            kept = replace(
                step,
                divergences=tuple(
                    found if found.phase in fed or _is_new_rate(found, rates) else _inherited(found)
                    for found in step.divergences
                ),
            )
        ends = [found.pair.reference or found.pair.candidate for found in step.divergences]
        rates |= {(step.rank, end.address.slot) for end in ends if end and _is_rate(end)}
        if has_update and step.divergences:
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
        yield replace(
            step,
            divergences=tuple(
                _inherited(found)
                if _is_shared(found) and _PHASES.index(found.phase) > since
                else found
                for found in step.divergences
            ),
        )


def _is_shared(divergence: Divergence) -> bool:
    """Tell whether ranks reduce it, or make it of what they reduce."""
    end = divergence.pair.reference or divergence.pair.candidate
    is_gradient = end is not None and end.address.role is Role.WEIGHT_GRAD
    return is_gradient or divergence.phase is Phase.UPDATE


def known_notes(pairs: Sequence[JudgedPair]) -> tuple[str, ...]:
    """Give one line for each known difference that a step's pairs show, with where."""
    where: dict[str, list[str]] = {}
    for pair in pairs:
        if pair.reason.startswith("known difference") and pair.reference is not None:
            address = pair.reference.address
            names = where.setdefault(pair.reason, [])
            name = f"{address.module}{address.slot}".lstrip(".")
            if name not in names:
                names.append(name)
    return tuple(f"{reason}: {', '.join(names)}" for reason, names in where.items())


def random_notes(divergences: Sequence[Divergence], sides: tuple[Index, Index]) -> tuple[str, ...]:
    """Warn of active random layers that ran before the first divergence.

    The two frameworks draw other numbers, so that such a layer makes all that follows diverge.
    """
    first = next((found.pair for found in divergences), None)
    if first is None:
        return ()
    notes = []
    ends = ("reference", first.reference), ("candidate", first.candidate)
    for (side, end), index in zip(ends, sides, strict=True):
        order = _upstream(end)
        ran = {call.module for call in index.calls if call.training and call.start <= order}
        names = [
            module.path or "(root)"
            for module in index.modules
            if module.id in ran and _is_random(module)
        ]
        if names:
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            notes.append(
                f"random layers were active on the {side} before the first divergence: "
                f"{', '.join(names[:MOST_NAMES])}{more}; --no-dropout switches them off"
            )
    return tuple(notes)


def _upstream(end: Endpoint | None) -> float:
    """Give up to where calls lie before a divergence; without bound if all of them may.

    One side may lack what the other has. What a step begins with, but the first, is made by the
    calls of the step before: the same modules.
    """
    if end is None:
        return math.inf
    address = end.address
    is_left_over = address.step > 0 and address.phase is Phase.FORWARD and end.call is None
    return math.inf if is_left_over else end.order


def _is_random(module: ModuleInfo) -> bool:
    """Tell whether a module that runs in training mode draws random numbers.

    Known by its class, or by a share that it keeps under a name such as ``attention_dropout``:
    attention and recurrent layers do, and modules of users that call a functional dropout.
    """
    name = module.class_name.lower()
    share = module.attributes.get("p", module.attributes.get("drop_prob"))
    if any(part in name for part in RANDOM):
        return share != 0
    return any(
        "drop" in key.lower() and isinstance(value, float) and 0.0 < value <= 1.0
        for key, value in module.attributes.items()
    )


def _is_rate(end: Endpoint) -> bool:
    return end.address.role is Role.LR


def _is_new_rate(divergence: Divergence, known: set[tuple[int, str]]) -> bool:
    """Tell whether a learning rate diverged that did not before."""
    end = divergence.pair.reference or divergence.pair.candidate
    if end is None or not _is_rate(end):
        return False
    return (end.address.rank, end.address.slot) not in known


def _inherited(divergence: Divergence) -> Divergence:
    return replace(
        divergence, kind=Kind.INHERITED, pair=replace(divergence.pair, kind=Kind.INHERITED)
    )


def _is_update(end: object) -> bool:
    address = getattr(end, "address", None)
    return address is not None and address.phase is Phase.UPDATE
