"""The magnitudes of weight_norm: along which axis they run.

weight_norm along another axis is another function. torch keeps ``weight_g`` with axes of length 1,
Paddle flat; and Paddle's Linear lies transposed, so that torch's ``dim=0`` is Paddle's ``dim=1``.
On a square matrix the shapes do not tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.pairing.rule import IDENTITY, Rule

if TYPE_CHECKING:
    from .inventory import Entry, Unit

__all__ = ["is_magnitude", "norm_doubt"]

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
