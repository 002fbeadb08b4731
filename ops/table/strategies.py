"""Strategies that many rows share: one or two tensors, an axis, a reduction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.ops.cases import Fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.ops.cases import Argument

    from .draw import Draw
    from .row import Arguments, Strategy

FINITE = (Fill.NORMAL, Fill.SMALL, Fill.WIDE)


def unary(  # noqa: PLR0913 -- one per property
    *,
    low: float | None = None,
    high: float | None = None,
    dtypes: Sequence[str] = ("float32", "float64"),
    fills: Sequence[Fill] = (),
    options: dict[str, Sequence[Argument]] | None = None,
    name: str = "input",
    least: int = 0,
    takes_gradient: bool = True,
) -> Strategy:
    """Draw one tensor of any shape.

    Args:
        low: No element is below.
        high: No element is above.
        dtypes: Its dtypes.
        fills: Those to choose from; () for all that fit.
        options: Further arguments that may be left out, with their values.
        name: Of the tensor's argument.
        least: Fewest axes.
        takes_gradient: Whether the gradient is asked for.
    """

    def drawn(draw: Draw) -> Arguments:
        dtype = draw.choice(dtypes)
        lowest, highest = _bounds(dtype, low, high)
        tensor = draw.tensor(
            draw.shape(least),
            dtype,
            low=lowest,
            high=highest,
            fills=fills,
            takes_gradient=takes_gradient,
        )
        found: dict[str, Argument] = {name: tensor}
        for key, values in (options or {}).items():
            draw.optional(found, key, values)
        return found

    return drawn


def _bounds(dtype: str, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Return bounds; whole numbers must have some."""
    if not dtype.startswith(("int", "uint")):
        return low, high
    least = 0 if dtype.startswith("uint") else -4
    return (least if low is None else max(low, least)), (5 if high is None else high)


def binary(  # noqa: PLR0913 -- one per property
    *,
    names: str = "input other",
    low: float | None = None,
    other_low: float | None = None,
    dtypes: Sequence[str] = ("float32", "float64", "int64", "int32"),
    fills: Sequence[Fill] = (),
    is_broadcast: bool = True,
    high: float | None = None,
    other_high: float | None = None,
    takes_gradient: bool = True,
) -> Strategy:
    """Draw two tensors whose shapes broadcast to each other.

    Args:
        names: Of both arguments.
        low: No element of the first is below.
        other_low: No element of the second is below.
        dtypes: Of both.
        fills: Those to choose from; () for all that fit.
        is_broadcast: Whether shapes may differ.
        high: No element of the first is above.
        other_high: No element of the second is above.
        takes_gradient: Whether gradients are asked for.
    """

    def drawn(draw: Draw) -> Arguments:
        dtype, shape = draw.choice(dtypes), draw.shape(0, 3)
        shapes = [shape, shape]
        if is_broadcast and draw.flag():
            shapes[draw.integer(0, 1)] = draw.broadcast(shape)
        bounds = _bounds(dtype, low, high), _bounds(dtype, other_low, other_high)
        return {
            name: draw.tensor(
                each, dtype, low=lowest, high=highest, fills=fills, takes_gradient=takes_gradient
            )
            for name, each, (lowest, highest) in zip(names.split(), shapes, bounds, strict=True)
        }

    return drawn


def reduction(  # noqa: PLR0913 -- one per property
    *,
    is_many: bool = True,
    needs_axis: bool = False,
    keeps: bool = True,
    least: int = 0,
    smallest: int = 0,
    dtypes: Sequence[str] = ("float32", "float64"),
    fills: Sequence[Fill] = (),
    low: float | None = None,
    high: float | None = None,
    options: dict[str, Sequence[Argument]] | None = None,
) -> Strategy:
    """Draw a tensor and the axes to reduce.

    Args:
        is_many: Whether there may be several axes.
        needs_axis: Whether there must be one.
        keeps: Whether there is an argument ``keepdim``.
        least: Fewest axes of the tensor.
        smallest: Fewest elements along each.
        dtypes: Of the tensor.
        fills: Those to choose from; () for all that fit.
        low: No element is below.
        high: No element is above.
        options: Further arguments that may be left out, with their values.
    """

    def drawn(draw: Draw) -> Arguments:
        dtype, shape = draw.choice(dtypes), draw.shape(least, 3, smallest=smallest)
        lowest, highest = _bounds(dtype, low, high)
        found: dict[str, Argument] = {
            "input": draw.tensor(shape, dtype, low=lowest, high=highest, fills=fills)
        }
        if needs_axis or draw.flag():
            found["dim"] = draw.axis(len(shape))
            if is_many and shape and draw.flag():
                found["dim"] = draw.axes(len(shape))
            if keeps:
                draw.optional(found, "keepdim", (True, False))
        for key, values in (options or {}).items():
            draw.optional(found, key, values)
        return found

    return drawn


def along_axis(
    *,
    least: int = 0,
    smallest: int = 1,
    dtypes: Sequence[str] = ("float32", "float64"),
    fills: Sequence[Fill] = (),
    options: dict[str, Sequence[Argument]] | None = None,
    low: float | None = None,
) -> Strategy:
    """Draw a tensor and one axis, named ``dim``."""
    return reduction(
        is_many=False,
        needs_axis=True,
        keeps=False,
        least=least,
        smallest=smallest,
        dtypes=dtypes,
        fills=fills,
        options=options,
        low=low,
    )


def fixed(arguments: Arguments) -> Strategy:
    """Return the same arguments each time."""
    return lambda _draw: arguments
