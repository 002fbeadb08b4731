"""Operators that move elements: shapes, axes, joins and cuts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.ops.cases import Argument, Fill, Tensor

from .row import Row, row
from .strategies import along_axis, unary

if TYPE_CHECKING:
    from .draw import Draw
    from .row import Arguments, Strategy

_X = "input:x"
_XD = "input:x dim:axis"
_MOVED = (Fill.NORMAL, Fill.SMALL)


def _tensor(draw: Draw, low: int = 0, high: int = 4, smallest: int = 0) -> Tensor:
    dtype = draw.choice(("float32", "float64"))
    return draw.tensor(draw.shape(low, high, smallest=smallest), dtype, fills=_MOVED)


def _reshape(draw: Draw) -> Arguments:
    tensor = _tensor(draw, smallest=1)
    shape = list(tensor.shape)
    if len(shape) > 1 and draw.flag():
        place = draw.integer(0, len(shape) - 2)
        shape[place : place + 2] = [shape[place] * shape[place + 1]]
    elif draw.flag():
        shape.insert(draw.integer(0, len(shape)), 1)
    if shape and draw.flag():
        shape[draw.integer(0, len(shape) - 1)] = -1
    return {"input": tensor, "shape": tuple(shape)}


def _flatten(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 1)
    ndim = len(tensor.shape)
    start = draw.integer(0, ndim - 1)
    stop = draw.integer(start, ndim - 1)
    return {"input": tensor, "start_dim": start, "end_dim": stop - ndim if draw.flag() else stop}


def _permuted(draw: Draw, ndim: int) -> tuple[int, ...]:
    left, found = list(range(ndim)), []
    while left:
        found.append(left.pop(draw.integer(0, len(left) - 1)))
    return tuple(found)


def _permute(draw: Draw) -> Arguments:
    tensor = _tensor(draw)
    return {"input": tensor, "dims": _permuted(draw, len(tensor.shape))}


def _two_axes(first: str, second: str, least: int = 1) -> Strategy:
    def drawn(draw: Draw) -> Arguments:
        tensor = _tensor(draw, least)
        ndim = len(tensor.shape)
        return {"input": tensor, first: draw.axis(ndim), second: draw.axis(ndim)}

    return drawn


def _transposed(arguments: dict[str, Argument]) -> dict[str, Argument]:
    """Return the order of all axes for the two that are exchanged."""
    tensor, one, other = arguments["input"], arguments["dim0"], arguments["dim1"]
    assert isinstance(tensor, Tensor)
    assert isinstance(one, int)
    assert isinstance(other, int)
    order = list(range(len(tensor.shape)))
    order[one], order[other] = order[other], order[one]
    return {"input": tensor, "dims": tuple(order)}


def _joined(*, is_stacked: bool) -> Strategy:
    def drawn(draw: Draw) -> Arguments:
        shape, dtype = draw.shape(1, 3, smallest=1), draw.float_dtype()
        axis = draw.axis(len(shape) + is_stacked)
        parts = []
        for _ in range(draw.integer(1, 3)):
            own = list(shape)
            if not is_stacked:
                own[axis] = draw.size(1)
            parts.append(draw.tensor(tuple(own), dtype, fills=_MOVED))
        found: dict[str, Argument] = {"tensors": tuple(parts)}
        if draw.flag() or (not is_stacked and axis % len(shape)):
            found["dim"] = axis
        return found

    return drawn


def _side_by_side(draw: Draw) -> Arguments:
    shape, dtype = draw.shape(1, 3, smallest=1), draw.float_dtype()
    count = draw.integer(1, 3)
    return {"tensors": tuple(draw.tensor(shape, dtype, fills=_MOVED) for _ in range(count))}


def _split(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 1, 3, 1)
    axis = draw.axis(len(tensor.shape))
    size = tensor.shape[axis]
    first = draw.integer(1, size)
    sections = (first, size - first) if size > first else (first,)
    return {"tensor": tensor, "split_size_or_sections": sections, "dim": axis}


def _chunk(draw: Draw) -> Arguments:
    shape = list(draw.shape(1, 3, smallest=1))
    axis, chunks = draw.axis(len(shape)), draw.integer(1, 3)
    shape[axis] *= chunks
    tensor = draw.tensor(tuple(shape), draw.float_dtype(), fills=_MOVED)
    return {"input": tensor, "chunks": chunks, "dim": axis}


def _tile(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 0, 3, 1)
    dims = tuple(draw.integer(1, 3) for _ in range(draw.integer(1, 4)))
    return {"input": tensor, "dims": dims}


def _broadcast_to(draw: Draw) -> Arguments:
    shape = draw.shape(0, 3, smallest=1)
    return {"input": draw.tensor(draw.broadcast(shape), fills=_MOVED), "size": shape}


def _roll(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 1, 3)
    if draw.flag():
        return {"input": tensor, "shifts": draw.integer(-3, 3)}
    dims = draw.axes(len(tensor.shape))
    return {"input": tensor, "shifts": tuple(draw.integer(-3, 3) for _ in dims), "dims": dims}


def _flip(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 1, 3)
    return {"input": tensor, "dims": draw.axes(len(tensor.shape))}


def _rot90(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 2, 3)
    return {"input": tensor, "k": draw.integer(-1, 4), "dims": draw.choice(((0, 1), (1, 0)))}


def _pad(draw: Draw) -> Arguments:
    shape = (draw.size(1), draw.size(1), *draw.shape(1, 3, smallest=2))
    inner = len(shape) - 2
    mode = draw.choice(("constant", "replicate", "reflect", "circular"))
    pad = tuple(draw.integer(0, 1) for _ in range(2 * inner))
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, draw.float_dtype(), fills=_MOVED),
        "pad": pad,
        "mode": mode,
    }
    if mode == "constant":
        draw.optional(found, "value", (2.5,))
    elif mode == "reflect" and inner > 2:  # noqa: PLR2004 -- Paddle has none for three axes
        found["mode"] = "replicate"
    return found


def _offset(name: str, low: int, high: int) -> Strategy:
    def drawn(draw: Draw) -> Arguments:
        found: dict[str, Argument] = {"input": _tensor(draw, low, high, 1)}
        draw.optional(found, name, (0, 1, -1, 2))
        return found

    return drawn


def _diagonal(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 2, 3, 1)
    one, other = _permuted(draw, len(tensor.shape))[:2]
    return {"input": tensor, "offset": draw.integer(-1, 1), "dim1": one, "dim2": other}


def _repeated(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 1, 3, 1)
    found: dict[str, Argument] = {"input": tensor, "repeats": draw.integer(1, 3)}
    if draw.flag():
        found["dim"] = draw.axis(len(tensor.shape))
    return found


def _unsqueeze(draw: Draw) -> Arguments:
    tensor = _tensor(draw, 0, 3)
    return {"input": tensor, "dim": draw.axis(len(tensor.shape) + 1)}


def _unflatten(draw: Draw) -> Arguments:
    parts, shape = (draw.integer(1, 3), draw.integer(1, 3)), list(draw.shape(1, 3, smallest=1))
    axis = draw.axis(len(shape))
    shape[axis] = math.prod(parts)
    return {"input": draw.tensor(tuple(shape), fills=_MOVED), "dim": axis, "sizes": parts}


def _meshgrid(draw: Draw) -> Arguments:
    count = draw.integer(1, 3)
    return {"tensors": tuple(draw.tensor((draw.size(1),), fills=_MOVED) for _ in range(count))}


def _shuffled(name: str, *, is_up: bool) -> Strategy:
    def drawn(draw: Draw) -> Arguments:
        factor = draw.integer(1, 3)
        batch, channels, high, wide = (draw.integer(1, 2) for _ in range(4))
        if is_up:
            channels *= factor * factor
        else:
            high, wide = high * factor, wide * factor
        tensor = draw.tensor((batch, channels, high, wide), draw.float_dtype(), fills=_MOVED)
        return {"input": tensor, name: factor}

    return drawn


ROWS: tuple[Row, ...] = (
    row("reshape", "", _X, _reshape),
    row("flatten", "", "input:x start_dim:start_axis end_dim:stop_axis", _flatten),
    row("permute", "transpose", "input:x dims:perm", _permute),
    row(
        "transpose",
        "transpose",
        "input:x dims:perm",
        _two_axes("dim0", "dim1"),
        changes=_transposed,
        note="torch.transpose exchanges two axes, paddle.transpose takes the order of all",
    ),
    row("squeeze", "", _XD, along_axis(least=1, fills=_MOVED)),
    row("unsqueeze", "", _XD, _unsqueeze),
    row("cat", "concat", "tensors:x dim:axis", _joined(is_stacked=False)),
    row("stack", "", "tensors:x dim:axis", _joined(is_stacked=True)),
    *(row(name, "", "tensors:x", _side_by_side) for name in "hstack vstack dstack".split()),
    row("column_stack", "", "tensors:x", _side_by_side),
    row(
        "split",
        "",
        "tensor:x split_size_or_sections:num_or_sections dim:axis",
        _split,
        note="one number is a size in torch and a count in Paddle",
    ),
    row("chunk", "", _XD, _chunk, note="Paddle refuses what does not divide"),
    row("unbind", "", "dim:axis", along_axis(least=1, fills=_MOVED)),
    row("tile", "", "input:x dims:repeat_times", _tile),
    row("repeat_interleave", "", _XD, _repeated),
    row("broadcast_to", "", "input:x size:shape", _broadcast_to),
    row("roll", "", "input:x dims:axis", _roll),
    row("flip", "", "input:x dims:axis", _flip),
    row("rot90", "", "input:x dims:axes", _rot90),
    row("movedim", "moveaxis", _X, _two_axes("source", "destination")),
    row("unflatten", "", "input:x dim:axis sizes:shape", _unflatten),
    row("atleast_1d", "", "", unary(fills=_MOVED), positional="input"),
    row("atleast_2d", "", "", unary(fills=_MOVED), positional="input"),
    row("atleast_3d", "", "", unary(fills=_MOVED), positional="input"),
    row("F.pad", "", _X, _pad, always={"pad_from_left_axis": False}),
    row("tril", "", _X, _offset("diagonal", 2, 4)),
    row("triu", "", _X, _offset("diagonal", 2, 4)),
    row("diag", "", "input:x diagonal:offset", _offset("diagonal", 1, 2)),
    row("diag_embed", "", "", _offset("offset", 1, 2)),
    row("diagonal", "", "input:x dim1:axis1 dim2:axis2", _diagonal),
    row("diff", "", _XD, along_axis(least=1, smallest=2, fills=_MOVED)),
    row("meshgrid", "", "", _meshgrid, positional="*tensors", note="torch: indexing='ij'"),
    row("clone", "", _X, unary(fills=_MOVED)),
    row("zeros_like", "", _X, unary(fills=_MOVED, takes_gradient=False)),
    row("ones_like", "", _X, unary(fills=_MOVED, takes_gradient=False)),
    row("F.pixel_shuffle", "", _X, _shuffled("upscale_factor", is_up=True)),
    row("F.pixel_unshuffle", "", _X, _shuffled("downscale_factor", is_up=False)),
)
