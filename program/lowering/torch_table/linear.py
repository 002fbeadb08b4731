"""Linear algebra and Fourier transforms of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import fourier, norms
from padiff.program.lowering.composites import matrices as mat
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.composites.einsum import einsum, tensordot
from padiff.program.lowering.composites.matrices import matmul
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind


def _scaled(x: Term, factor: Any) -> Term:
    return x if factor == 1 else x * factor


def _added(first: str, second: str) -> Rule:
    """Compute beta · input + alpha · product (summed over the batch for addbmm)."""

    def rule(b: Builder, a: Arguments) -> Term:
        product = matmul(b, getattr(a, first), getattr(a, second))
        if first == "batch1" and product.ndim > b.expected[0].ndim:
            product = b("sum", product, axes=(0,), keepdims=False)
        product = _scaled(product, a.alpha)
        return product if a.beta == 0 else _scaled(a.input, a.beta) + product

    return rule


def _grouped(b: Builder, a: Arguments) -> Term:
    """Compute products of groups; what stands behind the last group is undefined."""
    if a.bias is not None:
        raise NotLoweredError("a bias for each group")
    along = {(2, 3): (a.mat_a, 0), (3, 2): (a.mat_b, 1)}.get((a.mat_a.ndim, a.mat_b.ndim))
    if along is not None and a.offs is not None:
        matrix, axis = along
        if int(np.max(b.static(a.offs), initial=0)) != matrix.shape[axis]:
            raise NotLoweredError("elements behind the last group")
    return mat.grouped_matmul(b, a.mat_a, a.mat_b, a.offs)


def _reflections(b: Builder, a: Arguments) -> Term:
    if a.input.kind is Kind.COMPLEX:
        raise NotLoweredError("reflections of complex numbers")
    return mat.reflections(b, a.input, a.tau)


def _outer(b: Builder, x: Term, y: Term) -> Term:
    return s.reshape(b, x, (-1, 1)) * s.reshape(b, y, (1, -1))


def _addr(b: Builder, a: Arguments) -> Term:
    return _scaled(a.input, a.beta) + _scaled(_outer(b, a.vec1, a.vec2), a.alpha)


def _einsum(b: Builder, a: Arguments) -> Term:
    operands = a.operands
    if len(operands) == 1 and isinstance(operands[0], tuple | list):
        operands = operands[0]
    if not isinstance(a.equation, str):
        raise NotLoweredError("an equation by lists of numbers")
    return einsum(b, a.equation, operands)


def _tensordot(b: Builder, a: Arguments) -> Term:
    if isinstance(a.dims, int):
        x_axes = range(a.a.ndim - a.dims, a.a.ndim)
        return tensordot(b, a.a, a.b, list(x_axes), list(range(a.dims)))
    return tensordot(b, a.a, a.b, s.integers(b, a.dims[0]), s.integers(b, a.dims[1]))


def _bilinear(b: Builder, a: Arguments) -> Term:
    """Return x1 W y for each matrix W of the weight."""
    first = s.unsqueeze(b, s.unsqueeze(b, a.input1, -2), -3)
    inner = first @ a.weight
    product = s.reshape(
        b, inner @ s.unsqueeze(b, s.unsqueeze(b, a.input2, -1), -3), b.expected[0].shape
    )
    return product if a.bias is None else product + a.bias


def _trace(b: Builder, a: Arguments) -> Term:
    return b("sum", b("diagonal", a.input, offset=0), axes=(0,), keepdims=False)


def _cross(b: Builder, a: Arguments) -> Term:
    ndim = max(a.input.ndim, a.other.ndim)
    axis = s.axis_of(b, -1 if a.dim is None else a.dim, ndim)
    return mat.cross(b, a.input, a.other, axis)


def _solve(b: Builder, a: Arguments) -> Term:
    if not a.left:
        raise NotLoweredError("a matrix on the right")
    return mat.solve(b, a.A, a.B)


def _triangular(b: Builder, a: Arguments) -> Term:
    if not a.left:
        raise NotLoweredError("a matrix on the right")
    upper, unit = bool(a.upper), bool(a.unitriangular)
    return mat.solve_triangular(b, a.A, a.B, upper=upper, unit=unit)


_MOST_ROWS = 25
"""Of more rows on either side distances are made of a product of matrices (torch.cdist)."""


def _distances(b: Builder, a: Arguments) -> Term:
    is_many = max(a.x1.shape[-2], a.x2.shape[-2]) > _MOST_ROWS
    by_product = {"use_mm_for_euclid_dist", *["use_mm_for_euclid_dist_if_necessary"] * is_many}
    if float(a.p) == 2 and (a.compute_mode or "use_mm_for_euclid_dist_if_necessary") in by_product:  # noqa: PLR2004
        axes = (a.x1.ndim - 1,)
        squares = [b("sum", x * x, axes=axes, keepdims=True) for x in (a.x1, a.x2)]
        product = (a.x1 * -2.0) @ s.swap(b, a.x2, -1, -2)
        total = product + squares[0] + s.swap(b, squares[1], -1, -2)
        return b("sqrt", b("maximum", total, 0.0))
    apart = s.unsqueeze(b, a.x1, a.x1.ndim - 1) - s.unsqueeze(b, a.x2, a.x2.ndim - 2)
    return norms.vector_norm(b, apart, a.p, (apart.ndim - 1,), keepdims=False)


_COMPUTED = {
    number: {"compute_mode": name}
    for number, name in (
        (None, None),
        (0, "use_mm_for_euclid_dist_if_necessary"),
        (1, "use_mm_for_euclid_dist"),
        (2, "donot_use_mm_for_euclid_dist"),
    )
}
"""By the numbers that ATen has for them."""


def _pair_distances(b: Builder, a: Arguments) -> Term:
    rows, columns = np.triu_indices(a.input.shape[0], 1)
    apart = b("take", a.input, b.literal(rows), axis=0)
    apart = apart - b("take", a.input, b.literal(columns), axis=0)
    return norms.vector_norm(b, apart, a.p, (1,), keepdims=False)


def _checked(of: Callable[[Builder, Arguments], Term]) -> Rule:
    """Return what a rule returns, and a zero for each matrix: it could be decomposed."""

    def rule(b: Builder, a: Arguments) -> Result:
        result = of(b, a)
        return result, s.filled(b, b.expected[1].shape, 0, Kind.INT)

    return rule


def _cholesky(b: Builder, a: Arguments) -> Term:
    return mat.cholesky(b, a.input, upper=bool(a.upper))


def _inverse(b: Builder, a: Arguments) -> Term:
    return b("inverse", a.input)


def _symmetric_values(b: Builder, a: Arguments) -> Term:
    """Return eigenvalues; of the matrix one triangle is read, and the primitive reads the lower."""
    return b("symmetric_values", s.swap(b, a.input, -1, -2) if a.UPLO == "U" else a.input)


def _vecdot(b: Builder, a: Arguments) -> Term:
    x = b("conj", a.x) if a.x.kind is Kind.COMPLEX else a.x
    product = x * a.y
    return b("sum", product, axes=(s.axis_of(b, a.dim, product.ndim),), keepdims=False)


def _transform(*, inverse: bool) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        return fourier.transform(b, a.input, [(a.dim, a.n)], a.norm, inverse=inverse)

    return rule


_FORWARD, _BACK = (None, "ortho", "forward"), ("forward", "ortho", None)
"""By the numbers that ATen has for them: nothing, the root, or the count is divided by."""


def _numbered_transform(b: Builder, a: Arguments) -> Term:
    axes, norms_ = [(axis, None) for axis in a.dim], _FORWARD if a.forward else _BACK
    norm = norms_[a.normalization]
    return fourier.transform(b, a.input, axes, norm, inverse=not a.forward)


def _numbered_real(b: Builder, a: Arguments) -> Term:
    axes, norm = [(axis, None) for axis in a.dim], _FORWARD[a.normalization]
    if not a.onesided:
        return fourier.transform(b, a.input, axes, norm, inverse=False)
    return fourier.real(b, a.input, axes, norm)


def _numbered_real_inverse(b: Builder, a: Arguments) -> Term:
    axes: list[tuple[int, int | None]] = [(axis, None) for axis in a.dim]
    axes[-1] = (axes[-1][0], a.last_dim_size)
    return fourier.real_inverse(b, a.input, axes, _BACK[a.normalization])


def _axes(b: Builder, a: Arguments) -> list[tuple[int, int | None]]:
    x = a.input
    sizes: list[int | None] = [] if a.s is None else list(s.integers(b, a.s))
    if a.dim is None:
        axes = list(range(x.ndim))[-len(sizes) :] if sizes else list(range(x.ndim))
    else:
        axes = [s.axis_of(b, axis, x.ndim) for axis in s.integers(b, a.dim)]
    return list(zip(axes, sizes or [None] * len(axes), strict=True))


def _transforms(*, inverse: bool) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        return fourier.transform(b, a.input, _axes(b, a), a.norm, inverse=inverse)

    return rule


_TURNED = {None: "forward", "backward": "forward", "forward": None, "ortho": "ortho"}
"""What divides on the way there divides on the way back of the conjugate."""


def _of_hermitian(b: Builder, a: Arguments, axes: fourier.Axes) -> Term:
    """Transform half of what mirrors itself to real numbers."""
    x = b("conj", s.as_kind(b, a.input, Kind.COMPLEX))
    return fourier.real_inverse(b, x, axes, _TURNED[a.norm])


def _to_hermitian(b: Builder, a: Arguments, axes: fourier.Axes) -> Term:
    return b("conj", fourier.real(b, a.input, axes, _TURNED[a.norm]))


def _shifted(*, inverse: bool) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        x = a.input
        for axis in s.axes_of(b, a.dim, x.ndim):
            half = x.shape[axis] // 2
            x = b("roll", x, axis=axis, shift=-half if inverse else half)
        return x

    return rule


def _frequencies(b: Builder, a: Arguments) -> Term:
    places = (np.arange(a.n) + a.n // 2) % a.n - a.n // 2
    return s.as_kind(b, b.literal(places), Kind.FLOAT) / (a.n * float(a.d))


def _half_frequencies(b: Builder, a: Arguments) -> Term:
    return s.as_kind(b, b("iota", size=a.n // 2 + 1), Kind.FLOAT) / (a.n * float(a.d))


def _stft(b: Builder, a: Arguments) -> Term:
    if not a.return_complex:
        raise NotLoweredError("pairs of real numbers")
    how = fourier.Frames(
        size=a.n_fft,
        step=a.n_fft // 4 if a.hop_length is None else a.hop_length,
        centre=a.center,
        pad_mode=a.pad_mode,
        onesided=a.input.kind is not Kind.COMPLEX if a.onesided is None else a.onesided,
        normalized=bool(a.normalized),
    )
    is_whole = a.window is None and a.win_length in (None, a.n_fft)
    return fourier.short_time(b, a.input, None if is_whole else _window(b, a), how)


def _istft(b: Builder, a: Arguments) -> Term:
    if a.return_complex:
        raise NotLoweredError("signals of complex numbers")
    how = fourier.Frames(
        size=a.n_fft,
        step=a.n_fft // 4 if a.hop_length is None else a.hop_length,
        centre=a.center,
        pad_mode="",
        onesided=True,
        normalized=bool(a.normalized),
    )
    return fourier.short_time_inverse(b, a.input, _window(b, a), how, a.length)


def _window(b: Builder, a: Arguments) -> Term:
    """Return the window that was given, or ones."""
    width = a.n_fft if a.win_length is None else a.win_length
    return s.filled(b, (width,), 1.0, Kind.FLOAT) if a.window is None else a.window


def _chain(b: Builder, a: Arguments) -> Term:
    matrices = a.tensors[0] if isinstance(a.tensors[0], tuple | list) else a.tensors
    result = matrices[0]
    for each in matrices[1:]:
        result = matmul(b, result, each)
    return result


def _block_diagonal(b: Builder, a: Arguments) -> Term:
    tensors = a.tensors[0] if isinstance(a.tensors[0], tuple) else a.tensors
    parts = [s.reshape(b, x, (1,) * (2 - x.ndim) + x.shape) for x in tensors]
    columns, start, result = sum(x.shape[1] for x in parts), 0, []
    for x in parts:
        widths = ((0, 0), (start, columns - start - x.shape[1]))
        result.append(b("pad", x, widths=widths, mode="constant", value=0))
        start += x.shape[1]
    return b("concat", *result, axis=0)


def _sign_and_log(b: Builder, a: Arguments) -> Result:
    return b.many("sign_determinant", a.input)


_FFT = "input, n=None, dim=-1, norm=None"
_FFT2 = "input, s=None, dim=(-2, -1), norm=None"
_FFTN = "input, s=None, dim=None, norm=None"

ROWS: tuple[Row, ...] = (
    row(
        "matmul .matmul .__matmul__ mm spmm .mm bmm .bmm mv .mv dot .dot linalg.matmul",
        "input, other",
        lambda b, a: matmul(b, a.input, a.other),
    ),
    row(".__rmatmul__", "input, other", lambda b, a: matmul(b, a.other, a.input)),
    row(
        "inner .inner",
        "input, other",
        lambda b, a: (
            a.input * a.other
            if not a.input.ndim or not a.other.ndim
            else tensordot(b, a.input, a.other, [-1], [-1])
        ),
    ),
    row("vdot .vdot", "input, other", lambda b, a: matmul(b, b("conj", a.input), a.other)),
    row("addmm .addmm .addmm_", "input, mat1, mat2, *, beta=1, alpha=1", _added("mat1", "mat2")),
    row("addmv .addmv .addmv_", "input, mat, vec, *, beta=1, alpha=1", _added("mat", "vec")),
    row(
        "baddbmm .baddbmm .baddbmm_ addbmm .addbmm .addbmm_",
        "input, batch1, batch2, *, beta=1, alpha=1",
        _added("batch1", "batch2"),
    ),
    row(
        "_grouped_mm F.grouped_mm",
        "mat_a, mat_b, offs=None, bias=None, out_dtype=None",
        _grouped,
        tolerance=1e-6,  # float32 and coarser alone
    ),
    row("outer .outer ger .ger", "input, vec2", lambda b, a: _outer(b, a.input, a.vec2)),
    row("addr .addr .addr_", "input, vec1, vec2, *, beta=1, alpha=1", _addr),
    row("einsum aten.einsum", "equation, *operands, path=None", _einsum),
    row("tensordot", "a, b, dims=2", _tensordot),
    row(
        "aten.tensordot",
        "input, other, dims_self, dims_other",
        lambda b, a: tensordot(
            b, a.input, a.other, s.integers(b, a.dims_self), s.integers(b, a.dims_other)
        ),
    ),
    row("F.bilinear", "input1, input2, weight, bias=None", _bilinear),
    row("kron .kron", "input, other", lambda b, a: mat.kronecker(b, a.input, a.other)),
    row("cross .cross linalg.cross", "input, other, dim=None", _cross),
    row("trace .trace", "input", _trace),
    row("chain_matmul aten.chain_matmul linalg.multi_dot", "*tensors", _chain),
    row("block_diag aten.block_diag", "*tensors", _block_diagonal),
    row(
        "matrix_power .matrix_power linalg.matrix_power",
        "input, n",
        lambda b, a: mat.power(b, a.input, s.integer(b, a.n)),
    ),
    row(
        "matrix_exp .matrix_exp linalg.matrix_exp",
        "input",
        lambda b, a: mat.exponential(b, a.input),
    ),
    row("linalg.householder_product orgqr .orgqr", "input, tau", _reflections),
    row("inverse .inverse linalg.inv", "input", _inverse),
    row("linalg.inv_ex", "input, *, check_errors=False", _checked(_inverse)),
    row("det .det linalg.det", "input", lambda b, a: b("determinant", a.input)),
    row("slogdet .slogdet linalg.slogdet", "input", _sign_and_log),
    row("_linalg_slogdet", "A", lambda b, a: [*b.many("sign_determinant", a.A), None, None]),
    row("_linalg_det", "A", lambda b, a: [b("determinant", a.A), None, None]),
    row("logdet .logdet", "input", lambda b, a: b.many("sign_determinant", a.input)[1]),
    row("linalg.solve", "A, B, *, left=True", _solve),
    row("linalg.solve_triangular", "A, B, *, upper, left=True, unitriangular=False", _triangular),
    row(
        "cholesky_solve .cholesky_solve",
        "input, input2, upper=False",
        lambda b, a: mat.cholesky_solve(b, a.input, a.input2, upper=bool(a.upper)),
    ),
    row(
        "linalg.cholesky cholesky .cholesky",
        "input, upper=False",
        _cholesky,
    ),
    row("linalg.cholesky_ex", "input, *, upper=False, check_errors=False", _checked(_cholesky)),
    row("linalg.eigvalsh", "input, UPLO='L'", _symmetric_values),
    row("linalg.svdvals", "input, driver=None", lambda b, a: b("singular_values", a.input)),
    row("linalg.vecdot", "x, y, dim=-1", _vecdot),
    row(
        "aten._cdist_forward",
        "x1, x2, p, number",
        lambda b, a: _distances(
            b, Arguments({**_COMPUTED[a.number], "x1": a.x1, "x2": a.x2, "p": a.p})
        ),
    ),
    row("cdist", "x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'", _distances),
    row("pdist F.pdist aten._pdist_forward", "input, p=2.0", _pair_distances),
    row("_fft_c2c", "input, dim, normalization, forward", _numbered_transform),
    row("_fft_r2c", "input, dim, normalization, onesided", _numbered_real),
    row("_fft_c2r", "input, dim, normalization, last_dim_size", _numbered_real_inverse),
    row("fft.fft", _FFT, _transform(inverse=False)),
    row("fft.ifft", _FFT, _transform(inverse=True)),
    row("fft.fft2", _FFT2, _transforms(inverse=False)),
    row("fft.ifft2", _FFT2, _transforms(inverse=True)),
    row("fft.fftn", _FFTN, _transforms(inverse=False)),
    row("fft.ifftn", _FFTN, _transforms(inverse=True)),
    row("fft.rfft", _FFT, lambda b, a: fourier.real(b, a.input, [(a.dim, a.n)], a.norm)),
    row("fft.irfft", _FFT, lambda b, a: fourier.real_inverse(b, a.input, [(a.dim, a.n)], a.norm)),
    row("fft.rfft2", _FFT2, lambda b, a: fourier.real(b, a.input, _axes(b, a), a.norm)),
    row("fft.irfft2", _FFT2, lambda b, a: fourier.real_inverse(b, a.input, _axes(b, a), a.norm)),
    row("fft.rfftn", _FFTN, lambda b, a: fourier.real(b, a.input, _axes(b, a), a.norm)),
    row("fft.irfftn", _FFTN, lambda b, a: fourier.real_inverse(b, a.input, _axes(b, a), a.norm)),
    row("fft.hfft", _FFT, lambda b, a: _of_hermitian(b, a, [(a.dim, a.n)])),
    row("fft.ihfft", _FFT, lambda b, a: _to_hermitian(b, a, [(a.dim, a.n)])),
    row("fft.hfft2", _FFT2, lambda b, a: _of_hermitian(b, a, _axes(b, a))),
    row("fft.ihfft2", _FFT2, lambda b, a: _to_hermitian(b, a, _axes(b, a))),
    row("fft.hfftn", _FFTN, lambda b, a: _of_hermitian(b, a, _axes(b, a))),
    row("fft.ihfftn", _FFTN, lambda b, a: _to_hermitian(b, a, _axes(b, a))),
    row("fft.fftshift", "input, dim=None", _shifted(inverse=False)),
    row("fft.ifftshift", "input, dim=None", _shifted(inverse=True)),
    row(
        "fft.fftfreq",
        "n, d=1.0, *, dtype=None, layout=None, device=None, requires_grad=False",
        _frequencies,
    ),
    row(
        "fft.rfftfreq",
        "n, d=1.0, *, dtype=None, layout=None, device=None, requires_grad=False",
        _half_frequencies,
    ),
    row(
        "stft .stft",
        "input, n_fft, hop_length=None, win_length=None, window=None, center=True, "
        "pad_mode='reflect', normalized=False, onesided=None, return_complex=None, "
        "align_to_window=None",
        _stft,
    ),
    row(
        "istft .istft",
        "input, n_fft, hop_length=None, win_length=None, window=None, center=True, "
        "normalized=False, onesided=None, length=None, return_complex=False",
        _istft,
    ),
)
