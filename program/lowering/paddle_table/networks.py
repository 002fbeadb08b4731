"""Products, layers, convolution, pooling, resampling, recurrence and attention of Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.lowering.composites import norms
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.matrices import matmul
from padiff.program.lowering.rules import Arguments, Row, row

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term

__all__ = ["ROWS"]


def _matmul(b: Builder, a: Arguments) -> Term:
    x = s.swap(b, a.x, -1, -2) if a.transpose_x and a.x.ndim > 1 else a.x
    y = s.swap(b, a.y, -1, -2) if a.transpose_y and a.y.ndim > 1 else a.y
    return matmul(b, x, y)


def _linear(b: Builder, a: Arguments) -> Term:
    weight = s.swap(b, a.weight, 0, 1) if a.transpose_weight else a.weight
    result = matmul(b, a.input, weight)
    return result if a.bias is None else result + a.bias


def _dot(b: Builder, a: Arguments) -> Term:
    return b("sum", a.x * a.y, axes=(a.x.ndim - 1,), keepdims=False)


def _added_product(_b: Builder, a: Arguments) -> Term:
    return a.input * float(a.beta) + (a.x @ a.y) * float(a.alpha)


def _layer_norm(b: Builder, a: Arguments) -> Term:
    count = a.x.ndim - a.begin_norm_axis
    shape = a.x.shape[a.begin_norm_axis :]
    weight, bias = (
        None if each is None else s.reshape(b, each, shape) for each in (a.scale, a.bias)
    )
    return norms.layer_norm(b, a.x, count, (weight, bias), a.epsilon)


def _channels_first(b: Builder, x: Term, data_format: str) -> Term:
    """Return (batch, channel, *spatial)."""
    return x if data_format.startswith("NC") or x.ndim < 3 else s.move_axis(b, x, [-1], [1])  # noqa: PLR2004


def _as_before(b: Builder, x: Term, data_format: str) -> Term:
    return x if data_format.startswith("NC") or x.ndim < 3 else s.move_axis(b, x, [1], [-1])  # noqa: PLR2004


def _group_norm(b: Builder, a: Arguments) -> Term:
    x = _channels_first(b, a.x, a.data_format)
    result = norms.group_norm(b, x, a.groups, (a.scale, a.bias), a.epsilon)
    return _as_before(b, result, a.data_format)


def _instance_norm(b: Builder, a: Arguments) -> Term:
    return norms.group_norm(b, a.x, a.x.shape[1], (a.scale, a.bias), a.epsilon)


ROWS: tuple[Row, ...] = (
    row("matmul", "x, y, transpose_x=False, transpose_y=False", _matmul),
    row("linear", "input, weight, bias=None, transpose_weight=False", _linear),
    row("bmm", "x, y", lambda b, a: b("matmul", a.x, a.y)),
    row("mv", "x, vec", lambda b, a: matmul(b, a.x, a.vec)),
    row("dot", "x, y", _dot),
    row("addmm addmm_ baddbmm baddbmm_", "input, x, y, beta=1.0, alpha=1.0", _added_product),
    row("layer_norm", "x, scale=None, bias=None, epsilon=1e-5, begin_norm_axis=1", _layer_norm),
    row("group_norm",
        "x, scale=None, bias=None, epsilon=1e-5, groups=-1, data_format='NCHW'", _group_norm),
    row("instance_norm", "x, scale=None, bias=None, epsilon=1e-5", _instance_norm),
)  # fmt: skip
