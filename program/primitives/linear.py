"""Primitives of linear algebra, and Fourier transforms."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from padiff.dumpfile import ProgramError

from .spec import Array, Kind, Primitive, Spec, axis_of, broadcast, check, float_kind, promote


def _matmul_spec(x: Spec, y: Spec) -> Spec:
    """Matrices in the last two axes; the others broadcast."""
    check(x.ndim > 1 and y.ndim > 1, "two axes each", x.shape, y.shape)
    check(x.shape[-1] == y.shape[-2], "inner sizes that agree", x.shape, y.shape)
    outer = broadcast(x.shape[:-2], y.shape[:-2])
    kind = promote(x, y)
    check(kind is not Kind.BOOL, "numbers", kind)
    return Spec(kind, (*outer, x.shape[-2], y.shape[-1]))


def _matmul(x: Array, y: Array) -> Array:
    """Multiply; many rows with one matrix are one product, which BLAS is good at."""
    if y.ndim == 2 and x.ndim > 2:  # noqa: PLR2004
        flat = x.reshape(-1, x.shape[-1]) if x.size else x.reshape(0, x.shape[-1])
        return (flat @ y).reshape(*x.shape[:-1], y.shape[-1])
    return np.asarray(np.matmul(x, y))


def _matmul_work(x: Spec, y: Spec) -> int:
    return _matmul_spec(x, y).count * x.shape[-1]


def _matmul_bytes(x: Spec, y: Spec) -> int:
    return x.size_bytes + y.size_bytes + _matmul_spec(x, y).size_bytes


def _grouped_matmul_spec(x: Spec, y: Spec, ends: Spec) -> Spec:
    """Each group of rows times its own matrix; ``ends`` are the rows at which groups end."""
    check(x.ndim == 2 and y.ndim == 3, "rows and matrices", x.shape, y.shape)  # noqa: PLR2004
    check(x.shape[1] == y.shape[1], "inner sizes that agree", x.shape, y.shape)
    check(ends.kind is Kind.INT and ends.shape == y.shape[:1], "an end for each", ends.shape)
    kind = promote(x, y)
    check(kind is not Kind.BOOL, "numbers", kind)
    return Spec(kind, (x.shape[0], y.shape[2]))


def _grouped_matmul(x: Array, y: Array, ends: Array) -> Array:
    """Multiply; rows behind the last group are zero."""
    borders = [0, *map(int, ends)]
    if any(after < before for before, after in pairwise(borders)) or borders[-1] > len(x):
        raise ProgramError(f"cannot execute: expected ends of groups of {len(x)} rows")
    result = np.zeros((len(x), y.shape[2]), np.result_type(x, y))
    for matrix, (start, stop) in zip(y, pairwise(borders), strict=True):
        result[start:stop] = x[start:stop] @ matrix
    return result


def _grouped_matmul_work(x: Spec, y: Spec, ends: Spec) -> int:
    return _grouped_matmul_spec(x, y, ends).count * x.shape[1]


def _grouped_matmul_bytes(x: Spec, y: Spec, ends: Spec) -> int:
    return x.size_bytes + _grouped_matmul_spec(x, y, ends).size_bytes


def _square(x: Spec) -> int:
    check(x.ndim > 1 and x.shape[-1] == x.shape[-2], "square matrices", x.shape)
    return x.shape[-1]


def _inverse_spec(x: Spec) -> Spec:
    _square(x)
    return Spec(float_kind(x.kind), x.shape)


def _determinant_spec(x: Spec) -> Spec:
    _square(x)
    return Spec(float_kind(x.kind), x.shape[:-2])


def _sign_determinant_spec(x: Spec) -> tuple[Spec, ...]:
    spec = _determinant_spec(x)
    return spec, Spec(Kind.FLOAT, spec.shape)


def _solve_spec(x: Spec, y: Spec) -> Spec:
    size = _square(x)
    check(y.ndim > 1 and y.shape[-2] == size, "a right side of matching rows", x.shape, y.shape)
    outer = broadcast(x.shape[:-2], y.shape[:-2])
    return Spec(float_kind(promote(x, y)), (*outer, size, y.shape[-1]))


def _symmetric_values_spec(x: Spec) -> Spec:
    _square(x)
    return Spec(Kind.FLOAT, x.shape[:-1])


def _singular_values_spec(x: Spec) -> Spec:
    check(x.ndim > 1, "matrices", x.shape)
    return Spec(Kind.FLOAT, (*x.shape[:-2], min(x.shape[-2:])))


def _float(x: Array) -> Array:
    return x if x.dtype.kind in "fc" else x.astype(np.float64)


def _solved(name: str) -> Any:
    function = getattr(np.linalg, name)

    def run(*operands: Array) -> Any:
        try:
            return function(*map(_float, operands))
        except np.linalg.LinAlgError as error:
            raise ProgramError(f"cannot execute {name}: {error}") from error

    return run


def _singular_values(x: Array) -> Array:
    return np.asarray(_solved("svdvals")(x))


def _cube_work(x: Spec, *rest: Spec) -> int:
    return 4 * x.count * max((x.shape[-1], *(spec.shape[-1] for spec in rest)))


def _transform_spec(x: Spec, *, axis: object, inverse: object) -> Spec:
    """The discrete Fourier transform; the inverse divides by the size."""
    check(x.ndim > 0 and type(inverse) is bool, "an axis and a direction", x.shape, inverse)
    check(x.shape[axis_of(axis, x.ndim)] > 0, "elements along the axis", x.shape)
    return Spec(Kind.COMPLEX, x.shape)


def _transform(x: Array, *, axis: int, inverse: bool) -> Array:
    return np.asarray((np.fft.ifft if inverse else np.fft.fft)(x, axis=axis))


def _real_inverse_spec(x: Spec, *, axis: object, size: object) -> Spec:
    """The inverse transform of half a spectrum, to that many real numbers."""
    axis = axis_of(axis, x.ndim)
    check(x.ndim > 0 and type(size) is int and size >= 1, "an axis and a size", x.shape, size)
    assert isinstance(size, int)
    check(x.shape[axis] == size // 2 + 1, "half a spectrum", x.shape, size)
    return Spec(Kind.FLOAT, (*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _real_inverse(x: Array, *, axis: int, size: int) -> Array:
    return np.asarray(np.fft.irfft(x, size, axis=axis))


def _transform_work(x: Spec, **_: object) -> int:
    return 8 * x.count * max(1, math.ceil(math.log2(x.count + 1)))


def _copies(*specs: Spec, **_: object) -> int:
    return 4 * max(spec.count for spec in specs) * 16


def _row(name: str, arity: int, infer: Any, run: Any, work: Any = _cube_work) -> Primitive:
    return Primitive(
        name=name, arity=(arity, arity), infer=infer, run=run, work=work, workspace=_copies
    )


PRIMITIVES: tuple[Primitive, ...] = (
    Primitive(
        name="matmul",
        arity=(2, 2),
        infer=_matmul_spec,
        run=_matmul,
        work=_matmul_work,
        workspace=_matmul_bytes,
    ),
    Primitive(
        name="grouped_matmul",
        arity=(3, 3),
        infer=_grouped_matmul_spec,
        run=_grouped_matmul,
        work=_grouped_matmul_work,
        workspace=_grouped_matmul_bytes,
    ),
    _row("inverse", 1, _inverse_spec, _solved("inv")),
    _row("determinant", 1, _determinant_spec, _solved("det")),
    _row("sign_determinant", 1, _sign_determinant_spec, _solved("slogdet")),
    _row("cholesky", 1, _inverse_spec, _solved("cholesky")),
    _row("solve", 2, _solve_spec, _solved("solve")),
    _row("symmetric_values", 1, _symmetric_values_spec, _solved("eigvalsh")),
    _row("singular_values", 1, _singular_values_spec, _singular_values),
    _row("fourier", 1, _transform_spec, _transform, _transform_work),
    _row("fourier_real_inverse", 1, _real_inverse_spec, _real_inverse, _transform_work),
)
