"""Recurrent layers taken apart: into their cells, and cells into their two products.

One author runs ``nn.LSTM``, another a loop over ``LSTMCell``, a third writes the cell with a Linear
for the input and one for the state. The gates lie in the same order in all of them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .inventory import Entry, Unit

__all__ = ["cells_in", "is_whole", "recurrent_parts"]

_CELLS = {"lstm": "lstm_cell", "gru": "gru_cell", "rnn": "rnn_cell"}
_RUNNERS = frozenset({"cell_runner", "cell_runner2"})
_GATES = {4: "lstm_cell", 3: "gru_cell", 1: "rnn_cell"}
"""Kind of cell by how many gates the rows of the state's weight hold."""
_IN_LAYER = re.compile(r"(\d+)\.(fw|bw)\.(\w+)")
"""Neutral name of a parameter: layer, direction, name in the cell."""
_IN_CELL = re.compile(r"(weight|bias)_(ih|hh|hr)")
_DIRECTIONS = {
    "fw": frozenset({"fw", "forward", "mlp"}),  # names of layers make "mlp" of "forward"
    "bw": frozenset({"bw", "backward", "reverse", "reversed"}),
}
_PRODUCTS = {
    "ih": frozenset({"ih", "in", "x", "wx", "i"}),
    "hh": frozenset({"hh", "hidden", "recurrent", "state", "wh", "h"}),
    "hr": frozenset({"hr", "ho", "proj", "out"}),
}


def recurrent_parts(units: Sequence[Unit], others: Sequence[Unit]) -> list[Unit]:
    """Take recurrent units apart where the other side has only what they are made of.

    Args:
        units: Units of one side without partner.
        others: Those of the other side.

    Returns:
        The units, layers replaced by their cells if the other side has cells of that kind and no
        such layer, or stacks as many cells in another number of layers; cells by their products if
        it has no such cell either.
    """
    kinds = {unit.kind for unit in others}
    cells = {_kind_of_cell(unit) for unit in others if _is_layer(unit)}
    stacked = {kind for kind in cells if kind and _is_stacked(units, others, kind)}
    found: list[Unit] = []
    for unit in units:
        kind = _kind_of_cell(unit)
        if kind is None or (kind in cells and kind not in stacked):
            found.append(unit)
            continue
        parts = list(_cells(unit, kind)) if _is_layer(unit) else [unit]
        if kind not in kinds | cells and not any(map(_is_bare_cell, others)):
            parts = [product for part in parts for product in _products(part)]
        found += parts
    return _numbered(found, units, others)


def cells_in(unit: Unit) -> int:
    """Count the cells of a recurrent layer, 0 for anything else."""
    return sum(1 for _ in _cells(unit, "")) if _is_layer(unit) else 0


def _is_stacked(units: Sequence[Unit], others: Sequence[Unit], kind: str) -> bool:
    """Tell whether both sides have as many cells of a kind, in layers of other numbers of them."""
    counts = [
        sorted(cells_in(unit) for unit in side if _is_layer(unit) and _kind_of_cell(unit) == kind)
        for side in (units, others)
    ]
    return counts[0] != counts[1] and sum(counts[0]) == sum(counts[1])


def _is_layer(unit: Unit) -> bool:
    return unit.kind in _CELLS or unit.kind in _RUNNERS


def is_whole(unit: Unit) -> bool:
    """Tell whether a unit is a cell or a part of one, and so is not to be taken apart further."""
    return unit.is_part or unit.kind in _CELLS.values() or _is_bare_cell(unit)


def _is_bare_cell(unit: Unit) -> bool:
    """Tell whether a class of the user's own keeps what a cell keeps."""
    return unit.kind is None and any(_IN_CELL.fullmatch(entry.local) for entry in unit.entries)


def _kind_of_cell(unit: Unit) -> str | None:
    """Give the kind of cell that a unit is or is made of; None for anything else."""
    if unit.kind in _CELLS:
        return _CELLS[unit.kind]
    if unit.kind in _CELLS.values():
        return unit.kind
    if unit.kind not in _RUNNERS:
        return None
    for entry in unit.entries:
        if entry.atoms and entry.atoms[0].endswith("weight_hh") and entry.shape[-1]:
            return _GATES.get(entry.shape[0] // entry.shape[-1])
    return None


def _cells(unit: Unit, kind: str) -> Iterable[Unit]:
    cells: dict[tuple[int, str], list[Entry]] = {}
    rest: list[Entry] = []
    for entry in unit.entries:
        match = _IN_LAYER.fullmatch(entry.atoms[0]) if len(entry.atoms) == 1 else None
        if match is None:
            rest.append(entry)
        else:
            named = entry.holding(match[3])
            cells.setdefault((int(match[1]), match[2]), []).append(named)
    layers = len({layer for layer, _ in cells})
    is_double = len(cells) > layers
    for (layer, direction), entries in cells.items():
        aliases = rest if (layer, direction) == (0, "fw") else []
        words = _DIRECTIONS[direction] if is_double else frozenset[str]()
        yield replace(
            unit,
            path=f"{unit.path}.{layer}.{direction}".strip("."),
            kind=kind,
            entries=(*entries, *aliases),
            own_ranks=(*unit.own_ranks, layer) if layers > 1 else unit.own_ranks,
            own_words=unit.own_words | words,
            is_part=True,
        )


def _products(unit: Unit) -> Iterable[Unit]:
    """Give a Linear for the input and one for the state."""
    groups: dict[str, list[Entry]] = {}
    for entry in unit.entries:
        match = _IN_CELL.fullmatch(entry.atoms[0]) if len(entry.atoms) == 1 else None
        if match is None:
            return (unit,)
        groups.setdefault(match[2], []).append(entry.holding(match[1]))
    return [
        replace(
            unit,
            path=f"{unit.path}.{stem}".strip("."),
            kind="linear",
            entries=tuple(entries),
            own_words=unit.own_words | _PRODUCTS[stem],
            is_part=True,
        )
        for stem, entries in groups.items()
    ]


def _numbered(found: Sequence[Unit], units: Sequence[Unit], others: Sequence[Unit]) -> list[Unit]:
    """Give the parts numbers that no other unit has."""
    known = {id(unit) for unit in units}
    free = 1 + max((unit.id for unit in (*units, *others)), default=0)
    numbers = iter(range(free, free + len(found)))
    return [unit if id(unit) in known else replace(unit, id=next(numbers)) for unit in found]
