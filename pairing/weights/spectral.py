"""Spectral norm as a layer of its own on one side, as a part of its weight's layer on the other.

``paddle.nn.SpectralNorm`` stands beside the convolution whose weight it is given, and owns the two
vectors of the power iteration; ``spectral_norm(conv)`` of both frameworks keeps them in the
convolution. The latter is taken apart, so that both sides have a unit for each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.pairing.names import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .inventory import Entry, Inventory, Unit

__all__ = ["with_vectors_apart"]

_KIND = "spectral_norm"
_DIRECTION = ":direction"
_VECTORS = {"u": "weight_u", "v": "weight_v"}


def with_vectors_apart(reference: Inventory, candidate: Inventory) -> tuple[Inventory, Inventory]:
    """Take the vectors out of the layers of a side where the other has layers for them."""
    has = [any(unit.kind == _KIND for unit in side.units) for side in (reference, candidate)]
    if has[0] == has[1]:
        return reference, candidate
    return (
        _apart(reference) if has[1] else reference,
        _apart(candidate) if has[0] else candidate,
    )


def _apart(side: Inventory) -> Inventory:
    units = tuple(part for unit in side.units for part in _parts(unit))
    return replace(side, units=tuple(replace(unit, id=n) for n, unit in enumerate(units)))


def _parts(unit: Unit) -> Iterator[Unit]:
    vectors = tuple(entry for entry in unit.entries if _part(entry) in _VECTORS)
    if not vectors or len(vectors) == len(unit.entries):
        yield unit
        return
    yield replace(
        unit,
        path=f"{unit.path}.{_KIND}",
        kind=_KIND,
        entries=tuple(entry.holding(_VECTORS[_part(entry)]) for entry in vectors),
        own_words=unit.own_words | words_of(_KIND),
    )
    yield replace(
        unit, entries=tuple(_plain(entry) for entry in unit.entries if entry not in vectors)
    )


def _part(entry: Entry) -> str:
    return entry.atoms[0].rpartition(":")[2] if len(entry.atoms) == 1 else ""


def _plain(entry: Entry) -> Entry:
    return entry.holding(*(atom.removesuffix(_DIRECTION) for atom in entry.atoms))
