"""Units taken apart into what the other side has: cells, products, projections, vectors of a norm.

One author runs ``nn.LSTM``, another a loop over ``LSTMCell``, a third writes the cell with a Linear
for the input and one for the state; the gates lie in the same order in all of them.
``paddle.nn.SpectralNorm`` stands beside the convolution whose weight it is given, and owns the two
vectors of the power iteration; ``spectral_norm(conv)`` of both frameworks keeps them inside.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.pairing.names import words_of
from padiff.pairing.rule import IDENTITY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .inventory import Entry, Inventory, Unit

_CELLS = {"lstm": "lstm_cell", "gru": "gru_cell", "rnn": "rnn_cell"}
_RUNNERS = frozenset({"cell_runner", "cell_runner2"})
_GATES = {4: "lstm_cell", 3: "gru_cell", 1: "rnn_cell"}
"""Kind of cell by how many gates the rows of the state's weight hold."""
_SPECTRAL = "spectral_norm"

_CELL = re.compile(r"(?P<part>\d+\.(?:fw|bw))\.(?P<atom>\w+)")
_PRODUCT = re.compile(r"(?P<atom>weight|bias)_(?P<part>ih|hh|hr)")
_VECTOR = re.compile(r"(?P<part>).*:(?P<atom>[uv])")
"""Neutral names of the parameters that make a part, and what they are there."""
_WORDS = {
    "fw": frozenset({"fw", "forward", "mlp"}),  # names of layers make "mlp" of "forward"
    "bw": frozenset({"bw", "backward", "reverse", "reversed"}),
    "ih": frozenset({"ih", "in", "x", "wx", "i"}),
    "hh": frozenset({"hh", "hidden", "recurrent", "state", "wh", "h"}),
    "hr": frozenset({"hr", "ho", "proj", "out"}),
}
"""What authors call the parts."""


def _split(
    unit: Unit, pattern: re.Pattern[str]
) -> tuple[dict[str, tuple[Entry, ...]], tuple[Entry, ...]]:
    """Return the entries of each part by its name, and those of none."""
    groups: dict[str, tuple[Entry, ...]] = {}
    rest: tuple[Entry, ...] = ()
    for entry in unit.entries:
        match = pattern.fullmatch(entry.atoms[0]) if len(entry.atoms) == 1 else None
        if match is None:
            rest = (*rest, entry)
        else:
            part = match["part"]
            groups[part] = (*groups.get(part, ()), entry.holding(match["atom"]))
    return groups, rest


def _part(
    unit: Unit,
    name: str,
    entries: Iterable[Entry],
    kind: str | None,
    words: frozenset[str] = frozenset(),
) -> Unit:
    return replace(
        unit,
        path=f"{unit.path}.{name}".strip("."),
        kind=kind,
        entries=tuple(entries),
        own_words=unit.own_words | words,
        is_part=True,
    )


def recurrent_parts(units: Sequence[Unit], others: Sequence[Unit]) -> list[Unit]:
    """Take recurrent units apart where the other side has only what they are made of.

    Returns:
        The units, layers replaced by their cells if the other side has cells of that kind and no
        such layer, or stacks as many cells in another number of layers; cells by their products if
        it has no such cell either.
    """
    kinds = {unit.kind for unit in others}
    is_told = any(unit.kind is None and _is_cell(unit) for unit in others)
    layers = [
        [(_kind_of_cell(unit), count) for unit in side if (count := cells_in(unit))]
        for side in (units, others)
    ]
    counts = {
        kind: [sorted(cells for own, cells in side if own == kind) for side in layers]
        for kind in _CELLS.values()
    }
    found: list[Unit] = []
    for unit in units:
        kind = _kind_of_cell(unit)
        own, their = counts.get(kind or "", ([], []))
        is_stacked = own != their and sum(own) == sum(their)
        if kind is None or (their and not is_stacked):
            found.append(unit)
            continue
        parts = list(_cells(unit, kind)) if cells_in(unit) else [unit]
        if not (their or kind in kinds or is_told):
            parts = [product for part in parts for product in _products(part)]
        found += parts
    return found


def cells_in(unit: Unit) -> int:
    """Count the cells of a recurrent layer, 0 for anything else."""
    is_layer = unit.kind in _CELLS or unit.kind in _RUNNERS
    return len(_split(unit, _CELL)[0]) if is_layer else 0


def _is_cell(unit: Unit) -> bool:
    """Return whether a unit keeps what a cell keeps."""
    return any(_PRODUCT.fullmatch(entry.local) for entry in unit.entries)


def _kind_of_cell(unit: Unit) -> str | None:
    """Return the kind of cell that a unit is or is made of; None for anything else."""
    if unit.kind in _RUNNERS:
        weights = [entry for entry in unit.entries if entry.atoms[:1] and entry.shape[-1:] > (0,)]
        gates = [entry.shape[0] // entry.shape[-1] for entry in weights
                 if entry.atoms[0].endswith("weight_hh")]  # fmt: skip
        return _GATES.get(gates[0]) if gates else None
    return unit.kind if unit.kind in _CELLS.values() else _CELLS.get(unit.kind or "")


def _cells(unit: Unit, kind: str) -> Iterator[Unit]:
    groups, aliases = _split(unit, _CELL)
    layers = {name.partition(".")[0] for name in groups}
    for name, entries in groups.items():
        layer, _, direction = name.partition(".")
        words = _WORDS[direction] if len(groups) > len(layers) else frozenset()
        own = (*entries, *aliases) if name == "0.fw" else entries
        ranks = (*unit.own_ranks, int(layer)) if len(layers) > 1 else unit.own_ranks
        yield replace(_part(unit, name, own, kind, words), own_ranks=ranks)


def _products(unit: Unit) -> list[Unit]:
    """Return a Linear for the input and one for the state."""
    groups, rest = _split(unit, _PRODUCT)
    return [unit] if rest else [
        _part(unit, stem, entries, "linear", _WORDS[stem]) for stem, entries in groups.items()
    ]  # fmt: skip


def exploded(unit: Unit) -> list[Unit]:
    """Take a unit apart into one for each of its projections; cells and parts stay whole.

    A framework's attention against a user's own: ``in_proj_weight`` and ``in_proj_bias`` become
    a Linear ``in_proj``, ``out_proj.weight`` and ``out_proj.bias`` another.
    """
    is_whole = unit.is_part or unit.kind in _CELLS.values()
    if is_whole or (unit.kind is None and _is_cell(unit)):
        return [unit]
    groups: dict[str, list[Entry]] = {}
    for entry in unit.entries:
        whole = entry.atoms[0].partition(":")[0] if _is_made_of(entry) else entry.local
        stem = whole.removesuffix("weight").removesuffix("bias").rstrip("._")
        groups.setdefault(stem, []).append(entry)
    kind = "linear" if unit.kind == "attention" else unit.kind
    return [unit] if len(groups) == 1 else [
        _part(unit, stem, [_alone(entry, stem) for entry in entries], kind, words_of(stem))
        for stem, entries in groups.items()
    ]  # fmt: skip


def _is_made_of(entry: Entry) -> bool:
    """Return whether an entry is one of several that a reparametrised weight is made of."""
    is_moved = entry.local.startswith("parametrizations.")
    return len(entry.atoms) == 1 and (is_moved or ":" in entry.atoms[0])


def _alone(entry: Entry, stem: str) -> Entry:
    if _is_made_of(entry):
        return entry
    atom = entry.local.removeprefix(stem).strip("._") or entry.local
    return entry.holding(atom, rule=IDENTITY if len(entry.atoms) > 1 else None)


def freed(unit: Unit, surplus: Sequence[Entry]) -> list[Unit]:
    """Take single entries out of a unit, each a unit of its own; what is left comes first.

    A user's own class that holds matrices and multiplies by them: each may be a layer elsewhere.

    Args:
        unit: What holds them.
        surplus: Some of its entries, not all.
    """
    gone = {entry.record.id for entry in surplus}
    rest = tuple(entry for entry in unit.entries if entry.record.id not in gone)
    return [replace(unit, entries=rest)] + [
        _part(unit, entry.local, (entry,), unit.kind, words_of(entry.local)) for entry in surplus
    ]


def with_vectors_apart(reference: Inventory, candidate: Inventory) -> tuple[Inventory, Inventory]:
    """Take the vectors out of the layers of a side where the other has layers for them."""
    has = [any(unit.kind == _SPECTRAL for unit in side.units) for side in (reference, candidate)]
    if has[0] == has[1]:
        return reference, candidate
    whole = reference if has[1] else candidate
    apart = replace(whole, units=tuple(part for unit in whole.units for part in _normed(unit)))
    return (apart, candidate) if has[1] else (reference, apart)


def _normed(unit: Unit) -> list[Unit]:
    vectors, rest = _split(unit, _VECTOR)
    if not vectors or not rest:
        return [unit]
    own = [entry.holding(f"weight_{entry.atoms[0]}") for entry in vectors[""]]
    made = _part(unit, _SPECTRAL, own, _SPECTRAL, words_of(_SPECTRAL))
    plain = (
        entry.holding(*(atom.removesuffix(":direction") for atom in entry.atoms)) for entry in rest
    )
    return [replace(made, is_part=unit.is_part), replace(unit, entries=tuple(plain))]
