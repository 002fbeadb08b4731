"""What recording saw of the calls in which something diverged first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.result import Kind
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.comparer.locating.locate import Located
    from padiff.comparer.result import Divergence
    from padiff.dumpfile import Draw, Index
    from padiff.pairing import Side

__all__ = ["add_call_facts"]


def add_call_facts(located: Located, reference: Side, candidate: Side) -> Located:
    """Add to each origin that its call draws random numbers, or ran again in the backward pass."""
    sides = [
        ("reference", reference.index, _by_call(reference.index)),
        ("candidate", candidate.index, _by_call(candidate.index)),
    ]

    def told(divergence: Divergence) -> Divergence:
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

    return replace(located, divergences=tuple(map(told, located.divergences)))


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
