"""Which records are a promise of shape and order: what a model gives to whoever calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from padiff.dumpfile import RecordInfo
    from padiff.pairing.side import Side

__all__ = ["is_promised"]

_GIVEN = frozenset({Role.OUTPUT, Role.GRAD_OUTPUT})


def is_promised(sides: tuple[Side, Side], reference: RecordInfo, candidate: RecordInfo) -> bool:
    """Return whether two records are what models of one framework give, or its gradient.

    No layout is guessed for these: a caller of the one could not call the other. Models of two
    frameworks may lie otherwise (NCHW, NHWC), which the report then notes.

    Args:
        sides: Reference and candidate.
        reference: A record of the one.
        candidate: A record of the other.
    """
    if sides[0].framework != sides[1].framework:
        return False
    return any(
        record.role in _GIVEN
        and record.call is not None
        and side.index.calls[record.call].parent is None
        for side, record in zip(sides, (reference, candidate), strict=True)
    )
