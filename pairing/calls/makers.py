"""Calls that make the weight of a layer: torch's parametrizations, which no other framework has.

A convolution under ``weight_norm`` is one call in Paddle. In torch its weight is made by modules of
its own, which run inside it and hold what it is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.pairing.kinds import kind_of

if TYPE_CHECKING:
    from padiff.dumpfile import Index

__all__ = ["weight_makers"]

_MAKER = "parametrizations"
Calls = frozenset[int]


def weight_makers(indices: tuple[Index, Index]) -> tuple[Calls, Calls]:
    """Give the calls of each side that make weights, where the other side has none of the kind.

    Args:
        indices: The reference's tables and the candidate's.
    """
    makers = [
        {module.id for module in index.modules if kind_of(module) == _MAKER} for index in indices
    ]
    if all(makers) or not any(makers):
        return frozenset(), frozenset()
    first, second = (_inside(index, own) for index, own in zip(indices, makers, strict=True))
    return first, second


def _inside(index: Index, makers: set[int]) -> Calls:
    found: set[int] = set()
    for call in index.calls:
        if call.module in makers or call.parent in found:
            found.add(call.id)
    return frozenset(found)
