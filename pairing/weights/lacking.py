"""Parts of a fused projection that lack what the others have: a key without bias.

The key of Whisper, BEIT and Swin v2 has no bias, its query and value have one. Fused they have one
bias; what the key lacks is zeros there. That is so only where it is meant: a bias that went missing
is told from one that never was by layers alike, and by what lies beside.
"""

from __future__ import annotations

import re
from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpError

from .fused_layouts import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .fused_layouts import Layout
    from .inventory import Entry, Inventory, Unit

__all__ = ["NOT_EMPTY", "Lacking", "is_empty", "zeros_note"]

NOT_EMPTY = "its part for a layer that has none on the other side is not zero"
"""Why a fused vector of the reference has no partner."""
_NUMBER = re.compile(r"\d+")


class Lacking:
    """Tells what the parts of one side lack, and whether that is meant."""

    def __init__(self, side: Inventory, lone: Iterable[Unit]) -> None:
        """Take the side of the parts, and its lone units."""
        self._side = side
        self._lone = list(lone)
        self._have: Mapping[str, set[str]] | None = None

    def is_meant(self, unit: Unit, atom: str) -> bool:
        """Tell whether a layer is one of those that have no such parameter.

        No layer of its name in another block has it, and no lone vector of its size lies beside.

        Args:
            unit: The layer.
            atom: Neutral name of the parameter: ``bias``.
        """
        if self._have is None:
            have: dict[str, set[str]] = defaultdict(set)
            for one in self._side.units:
                have[_form(one)].update(name for entry in one.entries for name in entry.atoms)
            self._have = have
        return atom not in self._have.get(_form(unit), ()) and not self._is_beside(unit)

    def _is_beside(self, unit: Unit) -> bool:
        rows, holders = rows_of(unit), {unit.holder, unit.module.id, unit.module.parent}
        return rows is None or any(
            prod(entry.shape) == rows[0] and not entry.is_buffer
            for one in self._lone
            if one.module.id in holders and not one.is_laid_out
            for entry in one.needed
        )


def is_empty(side: Inventory, layout: Layout, entry: Entry, parts: Sequence[Entry | int]) -> bool:
    """Tell whether a fused vector holds nothing but zeros where parts have none.

    Args:
        side: The side of the fused one.
        layout: How the parts lie in it.
        entry: The fused vector.
        parts: Of each its vector, or the rows that it would have.
    """
    if side.value(entry) is None:
        return False
    placed = [parts[place] for place in layout.order]
    shapes = [(part,) if isinstance(part, int) else part.shape for part in placed]
    rules = layout.join.then(entry.rule).inverses(shapes, entry.shape) or ()
    try:
        array = side.side.array(entry.record)
    except DumpError:
        return False
    gaps = [rule for rule, part in zip(rules, placed, strict=True) if isinstance(part, int)]
    return not any(np.any(rule.apply([array])) for rule in gaps)


def zeros_note(whole: Unit, parts: Sequence[Unit], *, is_join: bool) -> str:
    """Say that a fused vector has zeros where a part has none; alike for like layers.

    Args:
        whole: The fused layer.
        parts: Those that lack it.
        is_join: Whether the fused one is the candidate's.
    """
    names = " and ".join(repr(_form(one)) for one in parts)
    have = "has" if len(parts) == 1 else "have"
    if is_join:
        done = f"{_form(whole)!r} gets zeros for it"
    else:
        done = f"{_form(whole)!r} holds zeros for it, which go nowhere"
    side = "reference" if is_join else "candidate"
    return f"{names} of the {side} {have} no bias, unlike what is fused with it: {done}"


def _form(unit: Unit) -> str:
    return _NUMBER.sub("#", unit.path)
