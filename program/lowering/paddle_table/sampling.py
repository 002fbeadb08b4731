"""Interpolation and sampling of Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import resampling
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Row, Rule, row

from .layout import as_before, channels_first

if TYPE_CHECKING:
    from collections.abc import Sequence

_SINGLE = 1e-6
"""Of operators that compute the way from one place to the next in float32."""


def _factors(b: Builder, a: Arguments, count: int) -> Sequence[float | None]:
    """Return the scales that sizes were computed from; None where sizes were given."""
    if a.out_size is not None or a.size_tensor:
        return [None] * count
    scales = a.scale
    if a.scale_tensor is not None:
        scales = tuple(b.static(a.scale_tensor).reshape(-1).tolist())
    if not scales:
        return [None] * count
    return list(scales) * (count if len(scales) == 1 else 1)


def _interpolated(count: int, mode: str) -> Rule:
    """Interpolate along all spatial axes, one after the other."""

    def rule(b: Builder, a: Arguments) -> Term:
        if a.data_format not in {"NCHW", "NHWC"}:  # whatever the number of axes
            raise NotLoweredError(f"layout {a.data_format!r}")
        x = channels_first(b, a.x, a.data_format)
        first = 2 if a.data_format.startswith("NC") else 1
        sizes = b.expected[0].shape[first : first + count]
        if x.ndim != count + 2:
            raise NotLoweredError(f"{x.ndim} axes")
        for axis, (size, factor) in enumerate(zip(sizes, _factors(b, a, count), strict=True)):
            how = resampling.Resampling(
                axis=2 + axis,
                size=size,
                mode="nearest-up" if mode == "nearest" and a.align_corners else mode,
                align_corners=bool(a.align_corners),
                step=1 / factor if factor else None,
                half_pixel=mode == "cubic" or a.align_mode == 0,
            )
            x = resampling.resample(b, x, how)
        return as_before(b, x, a.data_format)

    return rule


def _nearest(b: Builder, a: Arguments) -> Term:
    return _interpolated(a.x.ndim - 2, "nearest")(b, a)  # type: ignore[return-value]


def _grid_sample(b: Builder, a: Arguments) -> Term:
    return resampling.grid_sample(
        b, a.x, a.grid, mode=a.mode, padding=a.padding_mode, align_corners=bool(a.align_corners)
    )


def _affine_grid(b: Builder, a: Arguments) -> Term:
    sizes = s.integers(b, a.output_shape)
    return resampling.affine_grid(b, a.input, sizes, align_corners=bool(a.align_corners))


_SIGNATURE = (
    "x, out_size=None, size_tensor=None, scale_tensor=None, data_format='NCHW', out_d=0, out_h=0, "
    "out_w=0, scale=(), interp_method='bilinear', align_corners=True, align_mode=1"
)

ROWS: tuple[Row, ...] = (
    row("linear_interp", _SIGNATURE, _interpolated(1, "linear"), tolerance=_SINGLE),
    row("bilinear_interp", _SIGNATURE, _interpolated(2, "linear"), tolerance=_SINGLE),
    row("trilinear_interp", _SIGNATURE, _interpolated(3, "linear"), tolerance=_SINGLE),
    row("bicubic_interp", _SIGNATURE, _interpolated(2, "cubic"), tolerance=_SINGLE),
    row("nearest_interp", _SIGNATURE, _nearest),
    row("grid_sample",
        "x, grid, mode='bilinear', padding_mode='zeros', align_corners=True", _grid_sample),
    row("affine_grid", "input, output_shape=(), align_corners=True", _affine_grid),
)  # fmt: skip
