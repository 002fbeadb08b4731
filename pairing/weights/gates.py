"""What w1, w2 and w3 of a gated network are: their sizes tell which of two conventions it is.

Llama's authors call the gate ``w1``, the way up ``w3`` and the way down ``w2``; xFormers and DINOv2
call them ``w1``, ``w2`` and ``w3``. The way down is the one of another shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .inventory import Unit

__all__ = ["GATES", "with_gates"]

GATES = {"w1": "gate", "w3": "up", "w2": "down"}
"""The convention of stacks, whose shapes say nothing of single experts."""
_LEAVES = tuple(GATES)
_OTHER = {"w1": "gate", "w2": "up", "w3": "down"}


def with_gates(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Add to the words of such units what they are; nothing where all are square."""
    families: dict[int | None, dict[str, Unit]] = {}
    for unit in units:
        if unit.kind == "linear" and unit.path.endswith(_LEAVES):
            leaf = unit.path.rpartition(".")[2]
            if leaf in GATES:
                families.setdefault(unit.module.parent, {})[leaf] = unit
    if not families:
        return units
    words = {
        id(unit): word
        for family in families.values()
        if len(family) == len(GATES)
        for leaf, word in _roles(family).items()
        for unit in (family[leaf],)
    }
    return tuple(
        unit.with_words(frozenset({words[id(unit)]})) if id(unit) in words else unit
        for unit in units
    )


def _roles(family: Mapping[str, Unit]) -> Mapping[str, str]:
    shapes = {leaf: unit.main.neutral_shape for leaf, unit in family.items()}
    for roles in (GATES, _OTHER):
        gate, up, down = (
            next(shapes[leaf] for leaf, role in roles.items() if role == wanted)
            for wanted in ("gate", "up", "down")
        )
        if gate == up != down:
            return roles
    return {}
