"""The lines that join the names of a tree."""

from __future__ import annotations

__all__ = ["branches"]

_DEEPEST = 12
"""Levels that are drawn as branches; below, the depth is given as a number."""


def branches(trunk: tuple[bool, ...], *, plain: bool) -> str:
    """Give what stands before a name in a tree.

    Args:
        trunk: For each ancestor below the root, and for the node itself, whether siblings follow
            below it; empty for the root.
        plain: Whether to use ASCII only.

    >>> branches((True, False), plain=True)
    '|  `- '
    """
    if not trunk:
        return ""
    through, none, middle, last = ("|  ", "   ", "|- ", "`- ")
    if not plain:
        through, none, middle, last = ("│  ", "   ", "├─ ", "└─ ")
    *above, follows = trunk
    end = middle if follows else last
    if len(above) > _DEEPEST:
        return f"[depth {len(trunk)}] {end}"
    return "".join(through if more else none for more in above) + end
