"""Choices that both programs make alike: errors of rounding are not to turn them.

A comparison, a sort or a search jumps where its operands are equal: the smallest error then changes
everything behind it. Two programs of which both came to the same outcome do not differ for that,
and what they differ in is measured with these outcomes as they are.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from padiff.program import CHOOSING, Execution
from padiff.program.primitives import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.program import Leaf, Limits
    from padiff.program.primitives import Array

    from .side import Side

__all__ = ["choices_alike"]

_WHOLE = frozenset({"ceil", "floor", "round", "sign", "trunc"})
"""Choices whose results are floating-point numbers."""


def choices_alike(
    sides: tuple[Side, Side],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    wanted: tuple[Sequence[int], Sequence[int]],
    limits: Limits,
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Return the outcomes that both sides have, by the terms of the reference and the candidate.

    Args:
        sides: The reference and the candidate.
        given: What their leaves hold.
        wanted: Ids of the values behind which choices are looked for.
        limits: Of the executions.

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
