"""All cases of the score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import attacks, foreign, localised, otherforms, planted, rewrites, rewritten, training

if TYPE_CHECKING:
    from .case import Case

__all__ = ["corpus"]


def corpus(*, with_shared: bool = True) -> list[Case]:
    """List all cases; the names are unique.

    Args:
        with_shared: With the pairs that lie beside the checkout.
    """
    parts = [planted, rewrites, otherforms, rewritten, training, attacks, localised]
    found = [case for part in (*parts, *[foreign] * with_shared) for case in part.cases()]
    names = [case.name for case in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"cases of one name: {sorted(twice)}")
    return found
