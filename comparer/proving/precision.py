"""Find values that the candidate computes in a coarser dtype than the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program import UNIT_ROUNDOFF

from .parting import place_of
from .result import CoarserValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .leaves import Leaves
    from .side import Side


def find_coarser(
    sides: tuple[Side, Side],
    numbers: tuple[Sequence[int], Sequence[int]],
    leaves: Leaves,
    results: Sequence[int],
) -> CoarserValue | None:
    """Return the first value that lost precision on its way to the results.

    Models may have other dtypes altogether: that of the candidate's weights and inputs for a dtype
    of the reference is no loss, and neither is what autocast chose.
    """
    reference, candidate = sides
    allowed = _allowed(leaves, reference, candidate)
    known: dict[int, str] = {}
    for value in reference.program.values:
        if value.id in reference.lowered.terms and value.dtype in UNIT_ROUNDOFF:
            number = numbers[0][reference.lowered.terms[value.id]]
            known[number] = _coarser(known.get(number, value.dtype), value.dtype)
    needed = candidate.program.behind(results)
    for value in candidate.program.values:
        if value.producer is None or value.id not in needed or value.dtype not in UNIT_ROUNDOFF:
            continue
        operator = candidate.program.operators[value.producer]
        dtype = known.get(numbers[1][candidate.lowered.terms[value.id]])
        if dtype is None or operator.autocast is not None:
            continue
        most = _coarser(dtype, allowed.get(dtype, dtype))
        if UNIT_ROUNDOFF[value.dtype] > UNIT_ROUNDOFF[most]:
            return CoarserValue(
                place=place_of(candidate, operator.id, 1), reference=dtype, candidate=value.dtype
            )
    return None


def _coarser(one: str, two: str) -> str:
    return max(one, two, key=lambda dtype: UNIT_ROUNDOFF[dtype])


def _allowed(leaves: Leaves, reference: Side, candidate: Side) -> dict[str, str]:
    """Return the coarsest dtype of the candidate's leaves by that of the reference's."""
    found: dict[str, str] = {}
    for pair in leaves.pairs.values():
        dtypes = [
            reference.program.values[pair.reference[0]].dtype,
            candidate.program.values[pair.candidate].dtype,
        ]
        if all(dtype in UNIT_ROUNDOFF for dtype in dtypes):
            one, two = dtypes
            found[one] = _coarser(found.get(one, two), two)
    return found
