"""Which pairs of modules tell something of weights: containers only where what they hold does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Index
    from padiff.pairing.result import ModulePair

__all__ = ["grounded"]

_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_MOST_LEVELS = 64
"""So many containers around a layer are looked at."""


def grounded(modules: Sequence[ModulePair], reference: Index, candidate: Index) -> list[ModulePair]:
    """Drop pairs in doubt, and containers that are partners for nothing but pairs in doubt.

    A container has no rivals of its own: it is paired by what is inside. Where each layer in it
    might as well belong elsewhere, so might the container.

    Args:
        modules: Pairs of modules, as the pairing of two runs gives them.
        reference: The reference's tables.
        candidate: The candidate's tables.
    """
    partners = {pair.reference: pair.candidate for pair in modules}
    around: set[tuple[int, int | None]] = set()
    supported: set[tuple[int, int | None]] = set()
    own = _owners(reference), _owners(candidate)
    for pair in modules:
        is_layer = pair.reference in own[0] and pair.candidate in own[1]
        theirs = set(_outward(candidate, pair.candidate))
        met = {
            (outer, found)
            for outer in _outward(reference, pair.reference)
            if (found := partners.get(outer)) in theirs
        }
        if pair.is_ambiguous:
            around |= met
        elif is_layer:
            supported |= met
    doubted = around - supported
    return [
        pair for pair in modules
        if not pair.is_ambiguous and (pair.reference, pair.candidate) not in doubted
    ]  # fmt: skip


def _owners(index: Index) -> frozenset[int]:
    """Give the modules that keep parameters of their own."""
    return frozenset(record.module for record in index.records if record.role in _OWNED)


def _outward(index: Index, module: int) -> list[int]:
    """Give the modules around one, the innermost first."""
    found: list[int] = []
    outer = index.modules[module].parent
    while outer is not None and len(found) < _MOST_LEVELS:
        found.append(outer)
        outer = index.modules[outer].parent
    return found
