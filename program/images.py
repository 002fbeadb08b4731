"""Tables of one side that are made of a table of the other by a formula, or are a part of one.

Schedules of diffusion models keep roots of what others keep, and one half of a rotary table is the
other half again. Each formula and each way to lie along an axis is a row here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from .rounding import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .primitives import Array

DERIVED_ROUNDINGS = 4
"""Of the size of what was computed: frameworks compute sines, powers and logarithms to a unit or
two."""
_MOST_ELEMENTS = 1 << 24
"""Of all tables that are computed to be compared with one: a fraction of a second."""
_PROBES = 8
"""Elements that are looked at first: nearly every formula fails there."""
_SIZES = 4.0
"""An image may be larger than what it is to hold by what rounding moves; it is never so much."""

_FORMULAS: dict[str, Callable[[Array], Array]] = {
    "x": lambda x: x,
    "sqrt(x)": np.sqrt,
    "sqrt(1 - x)": lambda x: np.sqrt(1 - x),
    "1 / sqrt(x)": lambda x: 1 / np.sqrt(x),
    "sqrt(1 / x - 1)": lambda x: np.sqrt(1 / x - 1),
    "1 - x": lambda x: 1 - x,
    "1 / x": lambda x: 1 / x,
    "-x": lambda x: -x,
    "log(x)": np.log,
    "log(1 - x)": lambda x: np.log(1 - x),
    "x²": np.square,
    "1 - x²": lambda x: 1 - np.square(x),
    "1 / x²": lambda x: 1 / np.square(x),
    "1 / (1 + x²)": lambda x: 1 / (1 + np.square(x)),
    "exp(x)": np.exp,
    "1 - exp(x)": lambda x: 1 - np.exp(x),
}
_LAID: dict[str, Callable[[Array, int, int], Array]] = {
    "first": lambda x, axis, size: np.take(x, range(size), axis),
    "last": lambda x, axis, size: np.take(x, range(x.shape[axis] - size, x.shape[axis]), axis),
    "each": lambda x, axis, size: np.take(x, range(0, x.shape[axis], x.shape[axis] // size), axis),
    "again": lambda x, axis, size: np.concatenate([x] * (size // x.shape[axis]), axis),
    "repeated": lambda x, axis, size: np.repeat(x, size // x.shape[axis], axis),
}
"""How a table lies along an axis on which it has another size."""


@dataclass(frozen=True, slots=True)
class Image:
    """A value of the reference, and how something of the candidate is made of it."""

    value: int
    formula: str = "x"
    laid: tuple[tuple[int, str], ...] | None = ()
    """Axes on which it has another size, and how it lies there; None for a mask."""

    def of(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return what is made of the elements of the reference's value."""
        with np.errstate(all="ignore"):
            made = _FORMULAS[self.formula](array)
        if self.laid is None:
            return fitted(made, shape)
        for axis, way in self.laid:
            made = _LAID[way](made, axis, shape[axis])
        return made


def made_of(
    wanted: tuple[Array, float], tables: Iterable[tuple[int, Array, float]]
) -> Iterator[Image]:
    """Yield the images that hold what is wanted, but for rounding.

    Args:
        wanted: Elements, and the unit roundoff of their dtype.
        tables: By a number, with theirs.
    """
    elements, unit = wanted
    places = np.linspace(0, elements.size - 1, min(elements.size, _PROBES)).astype(np.int64)
    probes, size = elements.flat[places], _SIZES * _root_mean_square(elements)
    left = _MOST_ELEMENTS
    for number, array, own in tables:
        for laid in _ways(array.shape, elements.shape):
            moved = Image(number, laid=laid).of(array, elements.shape).flat[places]
            for formula in _FORMULAS:
                image = Image(number, formula, laid)
                left -= max(array.size, elements.size)
                if left < 0:
                    return
                if _holds(Image(number, formula), (probes, unit), (moved, own), size) and _holds(
                    image, wanted, (array, own)
                ):
                    yield image


@np.errstate(all="ignore")
def _holds(
    image: Image, wanted: tuple[Array, float], table: tuple[Array, float], size: float | None = None
) -> bool:
    """Return whether elements are the image of a table, but for their rounding and the table's.

    Args:
        image: Of which formula, and how it lies.
        wanted: The elements, and the unit roundoff of their dtype.
        table: The same of the table.
        size: Of the whole image, if this is a part of it.
    """
    (elements, unit), (array, own) = wanted, table
    made = image.of(array, elements.shape)
    if not np.isfinite(made).all():
        return False
    moved = np.abs(image.of(array * (1 + own), elements.shape) - made)
    return is_near_table(elements, made, unit, moved, size)


def _ways(shape: tuple[int, ...], wanted: tuple[int, ...]) -> Iterator[tuple[tuple[int, str], ...]]:
    """Yield how a table of one shape may lie in one of another."""
    if len(shape) != len(wanted):
        return
    axes = [axis for axis, size in enumerate(wanted) if size != shape[axis]]
    choices = []
    for axis in axes:
        sizes = sorted((shape[axis], wanted[axis]))
        is_whole = sizes[0] > 0 and sizes[1] % sizes[0] == 0
        if shape[axis] > wanted[axis]:
            choices.append(["first", "last", "each"] if is_whole else ["first", "last"])
        else:
            choices.append(["again", "repeated"] if is_whole else [])
    for ways in product(*choices):
        yield tuple(zip(axes, ways, strict=True))


@np.errstate(all="ignore")
def is_near_table(
    elements: Array,
    array: Array,
    unit: float,
    moved: Array | float = 0.0,
    size: float | None = None,
) -> bool:
    """Return whether elements are what was computed, but for rounding.

    Each may be rounded to its dtype once. What it was computed from was float32 at the least, or
    the dtype's own precision: of a coarser one, other numbers would pass for rounding.

    Args:
        elements: Of a dtype.
        array: As computed.
        unit: Roundoff of the dtype.
        moved: What else each may be off.
        size: The root of the mean square of all that was computed, if this is a part of it.
    """
    known = array.astype(np.float64)
    found = elements.astype(np.float64)
    computing = DERIVED_ROUNDINGS * min(unit, UNIT_ROUNDOFF["float32"])
    same = (known == found) | (np.isnan(known) & np.isnan(found))
    size = _root_mean_square(known) if size is None else size
    off = np.where(same, 0.0, np.abs(known - found))
    return bool(np.all(off <= unit * np.abs(known) + computing * size + moved))


def _root_mean_square(array: Array) -> float:
    """Return that of the elements that are finite."""
    return float(np.sqrt(np.mean(np.square(array[np.isfinite(array)], dtype=np.float64))))


def fitted(array: Array, shape: tuple[int, ...]) -> Array:
    """Return a mask with other sizes: repeated along axes, or the first of what is repeated.

    Raises:
        ValueError: The shapes have other axes.
    """
    if array.ndim != len(shape):
        raise ValueError(f"expected {len(shape)} axes, found {array.ndim}")
    firsts = tuple(slice(0, 1) if size == 1 else slice(None) for size in shape)
    return np.broadcast_to(array[firsts], shape)
