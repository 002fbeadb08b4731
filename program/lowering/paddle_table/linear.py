"""Linear algebra and Fourier transforms of Paddle."""

from __future__ import annotations

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import fourier
from padiff.program.lowering.composites import matrices as mat
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.einsum import einsum
from padiff.program.lowering.rules import Arguments, Result, Row, row


def _einsum(b: Builder, a: Arguments) -> Result:
    """Contract; what Paddle keeps of the operands for the way back is no result of its own."""
    return [einsum(b, a.equation, a.x), *[None] * (len(b.expected) - 1)]


_ANY_AXIS = 9
"""Paddle's word for the first axis of three."""


def _cross(b: Builder, a: Arguments) -> Term:
    axis = a.x.shape.index(3) if a.axis == _ANY_AXIS else s.axis_of(b, a.axis, a.x.ndim)
    return mat.cross(b, a.x, a.y, axis)


def _triangular(b: Builder, a: Arguments) -> Term:
    x = s.swap(b, a.x, -1, -2) if a.transpose else a.x
    upper = bool(a.upper) is not bool(a.transpose)
    return mat.solve_triangular(b, x, a.y, upper=upper, unit=bool(a.unitriangular))


def _sign_and_log(b: Builder, a: Arguments) -> Result:
    return b.many("sign_determinant", a.x)


def _sign_with_log(b: Builder, a: Arguments) -> Term:
    return s.stack(b, b.many("sign_determinant", a.x), 0)


def _symmetric_values(b: Builder, a: Arguments) -> Result:
    x = s.swap(b, a.x, -1, -2) if a.uplo == "U" else a.x
    return [b("symmetric_values", x), *[None] * (len(b.expected) - 1)]


def _chain(b: Builder, a: Arguments) -> Term:
    result, *rest = a.x
    for each in rest:
        result = mat.matmul(b, result, each)
    return result


def _bilinear(b: Builder, a: Arguments) -> Term:
    result = einsum(b, "ni,kij,nj->nk", [a.x, a.weight, a.y])
    return result if a.bias is None else result + a.bias


def _transform(b: Builder, a: Arguments) -> Term:
    axes = [(axis, None) for axis in a.axes]
    return fourier.transform(b, a.x, axes, a.normalization, inverse=not a.forward)


def _real(b: Builder, a: Arguments) -> Term:
    result = _transform(b, a)
    if not a.onesided:
        return result
    axis = s.axis_of(b, a.axes[-1], a.x.ndim)
    return s.narrow(b, result, axis, 0, a.x.shape[axis] // 2 + 1)


def _real_inverse(b: Builder, a: Arguments) -> Term:
    """Transform half a spectrum to real numbers; forward is backward of the conjugate."""
    x, norm = a.x, a.normalization
    if a.forward:
        x = b("conj", x)
        norm = {"backward": "forward", "forward": "backward"}.get(norm, norm)
    axes = [(axis, None) for axis in a.axes]
    return fourier.real_inverse(b, x, [*axes[:-1], (a.axes[-1], a.last_dim_size or None)], norm)


def _short_time(b: Builder, a: Arguments) -> Term:
    if a.window.shape != (a.n_fft,):
        raise NotLoweredError("a window of another size")
    how = fourier.Frames(
        size=a.n_fft,
        step=a.hop_length,
        centre=False,
        pad_mode="constant",
        onesided=bool(a.onesided),
        normalized=bool(a.normalized),
    )
    return fourier.short_time(b, a.x, a.window, how)


ROWS: tuple[Row, ...] = (
    row("einsum", "x, equation", _einsum),
    row("kron", "x, y", lambda b, a: mat.kronecker(b, a.x, a.y)),
    row("cross", "x, y, axis=9", _cross),
    row("multi_dot", "x", _chain),
    row("bilinear", "x, y, weight, bias=None", _bilinear),
    row("det", "x", lambda b, a: b("determinant", a.x)),
    row("inverse", "x", lambda b, a: b("inverse", a.x)),
    row("matrix_power", "x, n", lambda b, a: mat.power(b, a.x, a.n)),
    row("solve", "x, y", lambda b, a: mat.solve(b, a.x, a.y)),
    row("triangular_solve", "x, y, upper=True, transpose=False, unitriangular=False", _triangular),
    row("cholesky", "x, upper=False", lambda b, a: mat.cholesky(b, a.x, upper=bool(a.upper))),
    row("cholesky_solve", "x, y, upper=False",
        lambda b, a: mat.cholesky_solve(b, a.x, a.y, upper=bool(a.upper))),
    row("slogdet", "x", _sign_with_log),
    row("slogdet_v2", "x", _sign_and_log),
    row("eigvalsh", "x, uplo='L', is_test=False", _symmetric_values),
    row("svdvals", "x", lambda b, a: b("singular_values", a.x)),
    row("fft_c2c", "x, axes, normalization, forward", _transform),
    row("fft_r2c", "x, axes, normalization, forward, onesided", _real),
    row("fft_c2r", "x, axes, normalization, forward, last_dim_size=0", _real_inverse),
    row("stft", "x, window, n_fft, hop_length, normalized, onesided", _short_time),
)  # fmt: skip
