"""Weights that norms take apart: along which axis, and in which module the vectors lie.

weight_norm along another axis is another function. torch keeps ``weight_g`` with axes of length 1,
Paddle flat; and Paddle's Linear lies transposed, so that torch's ``dim=0`` is Paddle's ``dim=1``.
On a square matrix the shapes do not tell.

``paddle.nn.SpectralNorm`` stands beside the convolution whose weight it is given, and owns the two
vectors of the power iteration; ``spectral_norm(conv)`` of both frameworks keeps them in the
convolution. The latter is taken apart, so that both sides have a unit for each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.pairing.names import words_of
from padiff.pairing.rule import IDENTITY, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .inventory import Entry, Inventory, Unit

__all__ = ["is_magnitude", "norm_doubt", "with_vectors_apart"]

AXIS_ATTRIBUTE = "weight_norm_dim"
"""What the dumper calls the axis that a hook of weight_norm keeps."""
_WHOLE = -1
_MAGNITUDE, _DIRECTION = ":g", ":direction"
_TRANSPOSE = Rule.parse("transpose")


def is_magnitude(entry: Entry) -> bool:
    """Tell whether an entry is the ``g`` of a weight_norm."""
    return len(entry.atoms) == 1 and entry.atoms[0].endswith(_MAGNITUDE)


def norm_doubt(
    reference: tuple[Unit, Entry], candidate: tuple[Unit, Entry], unsure: float
) -> float:
    """Say how far two magnitudes can be partners.

    Returns:
        1 if they run along the same axis, 0 if they do not, ``unsure`` if that is not known.
    """
    axes = [_neutral_axis(unit, entry) for unit, entry in (reference, candidate)]
    if None not in axes:
        return float(axes[0] == axes[1])
    rules = {
        getattr(_direction(unit, entry), "rule", None) for unit, entry in (reference, candidate)
    }
    return 1.0 if len(rules) == 1 else unsure


def _direction(unit: Unit, entry: Entry) -> Entry | None:
    wanted = entry.atoms[0].removesuffix(_MAGNITUDE) + _DIRECTION
    return next((other for other in unit.entries if other.atoms == (wanted,)), None)


def _neutral_axis(unit: Unit, entry: Entry) -> int | None:
    """Give the axis in the neutral layout, -1 for one norm of all, None if nothing tells."""
    direction = _direction(unit, entry)
    if direction is None:
        return None
    if not entry.shape:
        return _WHOLE
    axis = _own_axis(unit, entry, direction)
    if axis is None or axis == _WHOLE or direction.rule == IDENTITY:
        return axis
    return 1 - axis if direction.rule == _TRANSPOSE and axis >= 0 else None


def _own_axis(unit: Unit, entry: Entry, direction: Entry) -> int | None:
    stated = unit.module.attributes.get(AXIS_ATTRIBUTE)
    if isinstance(stated, int) and not isinstance(stated, bool):
        return stated
    if len(entry.shape) == len(direction.shape):
        fitting = [axis for axis, length in enumerate(entry.shape) if length != 1]
    else:
        fitting = [axis for axis, length in enumerate(direction.shape) if (length,) == entry.shape]
    return fitting[0] if len(fitting) == 1 else None


_KIND = "spectral_norm"
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
