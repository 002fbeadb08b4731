"""The layers of a dump that own weights and ran, and whether a comparison paired them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Role, open_dump

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer import Comparison


def layers_that_ran(dump: Path) -> set[str]:
    """Give the paths of the modules without children that ran and own a weight of their own.

    A second name of a tied weight is no weight of its own.
    """
    with open_dump(dump).open() as side:
        index = side.index
        parents = {module.parent for module in index.modules}
        ran = {call.module for call in index.calls}
        owners: dict[int | None, int] = {}
        for record in index.records:
            if record.role is Role.WEIGHT:
                owners.setdefault(record.tensor, record.module)
        return {
            index.modules[owner].path
            for owner in owners.values()
            if owner in ran and owner not in parents
        }


def paired_layers(result: Comparison, side: str) -> set[str]:
    """Give the paths that were paired, of ``reference`` or ``candidate``."""
    return {getattr(pair, side) for pair in result.steps[0].pairing}
