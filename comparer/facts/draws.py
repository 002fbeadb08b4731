"""Random numbers that were drawn before something diverged."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.result import Kind
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.locating.locate import Located
    from padiff.comparer.result import Divergence, Endpoint
    from padiff.dumpfile import Draw, Index, RecordInfo
    from padiff.pairing import Side

MOST_NAMES = 4
SIDES = ("reference", "candidate")


def random_notes(
    divergences: Sequence[Divergence],
    sides: tuple[Side, Side],
    seeds: tuple[int | None, int | None] = (None, None),
) -> tuple[str, ...]:
    """Warn of random numbers that were drawn before the first divergence of a step.

    The frameworks draw other numbers from one seed, so that a draw may make all that follows
    diverge.

    Args:
        divergences: Of the step, the first one first.
        sides: Reference and candidate.
        seeds: Of each, None where none is known.
    """
    first = next((found.pair for found in divergences), None)
    if first is None:
        return ()
    notes: list[str] = []
    generators: set[str] = set()
    ends = (first.reference, first.candidate)
    for name, end, side in zip(SIDES, ends, sides, strict=True):
        draws = [draw for draw in side.index.draws or () if draw.after < _upstream(end)]
        if draws:
            generators |= {one for draw in draws for one in draw.generators}
            drawn = ", ".join(_listed([_by_whom(draw, side.index) for draw in draws]))
            notes.append(
                f"random numbers were drawn on the {name} before the first divergence: by {drawn}"
            )
    if generators:
        frameworks = {side.framework for side in sides}
        notes.append(_advice(generators, frameworks, seeds))
    return tuple(notes)


def draws_random_numbers(index: Index, record: RecordInfo) -> bool:
    """Return whether random numbers were drawn in the call that a record is of."""
    return any(draw.call == record.call for draw in index.draws or () if draw.call is not None)


def _advice(
    generators: set[str], frameworks: set[str], seeds: tuple[int | None, int | None]
) -> str:
    """Describe what makes both sides draw the same, or nothing."""
    own = sorted(generators & frameworks)
    if own and len(frameworks) > 1:
        return (
            f"{' and '.join(sorted(frameworks))} draw other numbers from one seed: --no-dropout "
            "switches dropout layers off; make other draws an input of the model, or draw them by "
            "numpy with --seed on both sides"
        )
    if None in seeds or seeds[0] != seeds[1]:
        return (
            "--seed N on both sides (padiff.seed_everything(N) in a script) makes both draw the "
            "same numbers, if they draw as often"
        )
    return f"both began with seed {seeds[0]}: they draw the same numbers if they draw as often"


def _by_whom(draw: Draw, index: Index) -> str:
    whose = "+".join(draw.generators)
    if draw.call is None:
        return f"code between the calls ({whose})"
    return f"{index.modules[index.calls[draw.call].module].path or '(root)'} ({whose})"


def _listed(names: Sequence[str]) -> Iterator[str]:
    distinct = list(dict.fromkeys(names))
    yield from distinct[:MOST_NAMES]
    if len(distinct) > MOST_NAMES:
        yield f"{len(distinct) - MOST_NAMES} more"


def _upstream(end: Endpoint | None) -> float:
    """Return up to where calls lie before a divergence; without bound if all of them may.

    One side may lack what the other has. In every step but the first, what comes forward has also
    come from the calls of the step before, through the weights: the same modules.
    """
    if end is None:
        return math.inf
    address = end.address
    is_left_over = address.step > 0 and address.phase is Phase.FORWARD
    return math.inf if is_left_over else end.order


def add_call_facts(located: Located, reference: Side, candidate: Side) -> Located:
    """Add to each origin that its call draws random numbers, or ran again in the backward pass."""
    sides = [
        ("reference", reference.index, _by_call(reference.index)),
        ("candidate", candidate.index, _by_call(candidate.index)),
    ]

    def with_notes(divergence: Divergence) -> Divergence:
        if divergence.kind is not Kind.ORIGIN:
            return divergence
        ends = (divergence.pair.reference, divergence.pair.candidate)
        lines = [
            line
            for end, (name, index, draws) in zip(ends, sides, strict=True)
            if end is not None and end.call is not None
            for line in _facts(end.call, name, index, draws, divergence.phase)
        ]
        return replace(divergence, evidence=(*divergence.evidence, *lines))

    return replace(located, divergences=tuple(map(with_notes, located.divergences)))


def _by_call(index: Index) -> dict[int, Draw]:
    return {draw.call: draw for draw in index.draws or () if draw.call is not None}


def _facts(
    call: int, side: str, index: Index, draws: dict[int, Draw], phase: Phase
) -> Iterator[str]:
    if call in draws:
        whose = ", ".join(draws[call].generators)
        yield f"draws random numbers itself on the {side} ({whose})"
    if phase is Phase.BACKWARD and index.calls[call].recomputed:
        yield f"ran again inside the backward pass on the {side} (activation checkpointing)"
