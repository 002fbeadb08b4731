"""Fourier transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.ops.cases import Argument, Fill

from .row import Row, row

if TYPE_CHECKING:
    from .draw import Draw
    from .row import Arguments, Strategy

_NORMS = ("ortho", "forward", "backward")


def _transform(*, is_complex: bool, axes: int = 1) -> Strategy:
    def drawn(draw: Draw) -> Arguments:
        shape = draw.shape(axes, 3, smallest=2)
        dtype = draw.choice(("complex64", "complex128") if is_complex else ("float32", "float64"))
        tensor = draw.tensor(shape, dtype, fills=(Fill.NORMAL, Fill.SMALL), takes_gradient=False)
        found: dict[str, Argument] = {"input": tensor}
        if axes == 1 and draw.flag():
            found["dim"] = draw.axis(len(shape))
        draw.optional(found, "norm", _NORMS)
        return found

    return drawn


ROWS: tuple[Row, ...] = (
    row("fft.fft", "", "input:x dim:axis", _transform(is_complex=True), least=1),
    row("fft.ifft", "", "input:x dim:axis", _transform(is_complex=True), least=1),
    row("fft.rfft", "", "input:x dim:axis", _transform(is_complex=False), least=1),
    row("fft.irfft", "", "input:x dim:axis", _transform(is_complex=True), least=1),
    row("fft.fft2", "", "input:x dim:axes", _transform(is_complex=True, axes=2), least=1),
    row("fft.fftn", "", "input:x dim:axes", _transform(is_complex=True, axes=2), least=1),
)
