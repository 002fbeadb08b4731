"""Quantised operators of ONNX: 8 bits, a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import activations as act
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.matrices import matmul
from padiff.program.lowering.rules import Arguments, Row, row
from padiff.program.primitives import Kind

_LARGEST = 255.0
"""Of uint8."""


def _along(b: Builder, x: Term, ndim: int, axis: int) -> Term:
    """Return what holds for each index of an axis, in the shape of the whole; one number stays."""
    if x.spec.count == 1:
        return s.reshape(b, x, ())
    return s.reshape(b, x, tuple(-1 if each == axis else 1 for each in range(ndim)))


def _float(b: Builder, x: Term) -> Term:
    return s.as_kind(b, x, Kind.FLOAT)


def _dynamic(b: Builder, a: Arguments) -> Sequence[Term]:
    axes = tuple(range(a.x.ndim))
    largest = b("maximum", b("amax", a.x, axes=axes, keepdims=False), 0.0)
    smallest = b("minimum", b("amin", a.x, axes=axes, keepdims=False), 0.0)
    scale = (largest - smallest) / _LARGEST
    point = act.clamp(b, b("round", 0.0 - smallest / scale), 0.0, _LARGEST)
    whole = act.clamp(b, b("round", a.x / scale) + point, 0.0, _LARGEST)
    return s.as_kind(b, whole, Kind.INT), scale, s.as_kind(b, point, Kind.INT)


def _dequantized(b: Builder, a: Arguments) -> Term:
    if a.block_size:
        raise NotLoweredError("blocks along an axis")
    axis = s.axis_of(b, a.axis, a.x.ndim) if a.x.ndim else 0
    return _centred(b, a.x, a.zero_point, axis) * _along(b, a.scale, a.x.ndim, axis)


def _centred(b: Builder, x: Term, zero_point: Term | None, axis: int) -> Term:
    whole = _float(b, x)
    if zero_point is None:
        return whole
    return whole - _float(b, _along(b, zero_point, x.ndim, axis))


def _product(b: Builder, a: Arguments) -> Any:
    x = _centred(b, a.x, a.x_zero_point, a.x.ndim - 2)
    y = _centred(b, a.y, a.y_zero_point, a.y.ndim - 1)
    return s.as_kind(b, matmul(b, x, y), Kind.INT)


ROWS: tuple[Row, ...] = (
    row("DynamicQuantizeLinear", "x", _dynamic),
    row(
        "DequantizeLinear",
        "x, scale, zero_point=None, *, axis=1, block_size=0, output_dtype=None",
        _dequantized,
    ),
    row("MatMulInteger", "x, y, x_zero_point=None, y_zero_point=None", _product),
)
