"""Operators that pick, put and order elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.ops.cases import Argument, Fill, Tensor

from .row import Row, row
from .strategies import along_axis, reduction, unary

if TYPE_CHECKING:
    from .draw import Draw
    from .row import Arguments, Strategy

_XD = "input:x dim:axis"
_DISTINCT = (Fill.NORMAL,)


def _gathered(*, has_source: bool, is_distinct: bool) -> Strategy:
    """Draw a tensor, an axis, an index of as many axes, and what is put there."""

    def drawn(draw: Draw) -> Arguments:
        shape, dtype = draw.shape(1, 3, smallest=1), draw.float_dtype()
        axis = draw.axis(len(shape))
        index = _distinct(draw, shape, axis) if is_distinct else draw.index(shape, shape[axis])
        found: dict[str, Argument] = {
            "input": draw.tensor(shape, dtype, fills=_DISTINCT),
            "dim": axis,
            "index": index,
        }
        if has_source:
            found["src"] = draw.tensor(shape, dtype, fills=_DISTINCT)
        return found

    return drawn


def _distinct(draw: Draw, shape: tuple[int, ...], axis: int) -> Tensor:
    """Draw an index that names no place twice: places along the axis, turned by some."""
    turn, size = draw.integer(0, 3), shape[axis]
    inner = math.prod(shape[axis % len(shape) + 1 :])
    elements = [(place // inner + turn) % size for place in range(math.prod(shape))]
    return Tensor(shape=shape, dtype="int64", elements=tuple(elements), takes_gradient=False)


def _index_select(draw: Draw) -> Arguments:
    shape = draw.shape(1, 3, smallest=1)
    axis = draw.axis(len(shape))
    return {
        "input": draw.tensor(shape, draw.float_dtype(), fills=_DISTINCT),
        "dim": axis,
        "index": draw.index((draw.size(1),), shape[axis], draw.choice(("int64", "int32"))),
    }


def _index_add(draw: Draw) -> Arguments:
    found = dict(_index_select(draw))
    tensor, axis, index = found["input"], found["dim"], found["index"]
    assert isinstance(tensor, Tensor)
    assert isinstance(index, Tensor)
    assert isinstance(axis, int)
    shape = list(tensor.shape)
    shape[axis] = index.shape[0]
    return {**found, "source": draw.tensor(tuple(shape), tensor.dtype, fills=_DISTINCT)}


def _masked(draw: Draw) -> Arguments:
    shape = draw.shape(0, 3)
    return {
        "input": draw.tensor(shape, draw.float_dtype()),
        "mask": draw.tensor(shape, "bool"),
    }


def _masked_fill(draw: Draw) -> Arguments:
    found = dict(_masked(draw))
    tensor = found["input"]
    assert isinstance(tensor, Tensor)
    value = draw.tensor((), tensor.dtype, fills=_DISTINCT) if draw.flag() else 0.5
    return {**found, "value": value}


def _topk(draw: Draw) -> Arguments:
    shape = draw.shape(1, 3, smallest=1)
    axis = draw.axis(len(shape))
    found: dict[str, Argument] = {
        "input": draw.tensor(shape, draw.float_dtype(), fills=_DISTINCT),
        "k": draw.integer(1, shape[axis]),
        "dim": axis,
    }
    draw.optional(found, "largest", (True, False))
    return found


def _kthvalue(draw: Draw) -> Arguments:
    shape = draw.shape(0, 3, smallest=1)
    axis = draw.axis(len(shape))
    tensor = draw.tensor(shape, draw.float_dtype(), fills=_DISTINCT)
    return {"input": tensor, "k": draw.integer(1, shape[axis] if shape else 1), "dim": axis}


def _searchsorted(draw: Draw) -> Arguments:
    count = draw.size(1)
    ordered = tuple(float(place) for place in range(count))
    sequence = Tensor(shape=(count,), elements=ordered, takes_gradient=False)
    wanted = draw.tensor(draw.shape(0, 2), fills=(Fill.SMALL, Fill.NORMAL), takes_gradient=False)
    found: dict[str, Argument] = {"sorted_sequence": sequence, "input": wanted}
    draw.optional(found, "right", (True, False))
    return found


def _one_hot(draw: Draw) -> Arguments:
    count = draw.integer(1, 5)
    return {"input": draw.index(draw.shape(0, 2), count), "num_classes": count}


def _embedding(draw: Draw) -> Arguments:
    rows = draw.size(1)
    return {
        "input": draw.index(draw.shape(0, 2), rows, draw.choice(("int64", "int32"))),
        "weight": draw.tensor((rows, draw.size(1)), draw.float_dtype(), fills=_DISTINCT),
    }


def _bincount(draw: Draw) -> Arguments:
    found: dict[str, Argument] = {"input": draw.index((draw.size(1),), 5)}
    draw.optional(found, "minlength", (3, 7))
    return found


ROWS: tuple[Row, ...] = (
    row(
        "gather",
        "take_along_axis",
        "input:arr index:indices dim:axis",
        _gathered(has_source=False, is_distinct=False),
        always={"broadcast": False},
        note="paddle.gather is torch.index_select",
    ),
    row(
        "take_along_dim",
        "take_along_axis",
        "input:arr dim:axis",
        _gathered(has_source=False, is_distinct=False),
        positional="input index",
    ),
    row(
        "scatter",
        "put_along_axis",
        "input:arr index:indices src:values dim:axis",
        _gathered(has_source=True, is_distinct=True),
        always={"broadcast": False},
        note="paddle.scatter puts whole rows",
    ),
    row(
        "scatter_add",
        "put_along_axis",
        "input:arr index:indices src:values dim:axis",
        _gathered(has_source=True, is_distinct=False),
        always={"broadcast": False, "reduce": "add"},
    ),
    row("index_select", "", _XD, _index_select),
    row("index_add", "", "input:x dim:axis source:value", _index_add),
    row("masked_fill", "", "input:x", _masked_fill),
    row("masked_select", "", "input:x", _masked),
    row("nonzero", "", "input:x", unary(least=1, takes_gradient=False)),
    row(
        "sort",
        "",
        _XD,
        along_axis(fills=_DISTINCT, options={"descending": (True, False)}),
        torch_slots=(0,),
        note="torch returns values and indices, Paddle values",
    ),
    row("argsort", "", _XD, along_axis(fills=_DISTINCT, options={"descending": (True, False)})),
    row("topk", "", _XD, _topk),
    row("kthvalue", "", _XD, _kthvalue),
    row("mode", "", _XD, along_axis(fills=_DISTINCT, options={"keepdim": (True, False)})),
    row(
        "median",
        "",
        _XD,
        reduction(is_many=False, needs_axis=True, smallest=1, fills=_DISTINCT),
        always={"mode": "min"},
        note="of an even count torch takes the lower middle one, Paddle by default the mean",
    ),
    row(
        "max.dim",
        "max",
        _XD,
        reduction(is_many=False, needs_axis=True, smallest=1),
        torch="max",
        torch_slots=(0,),
        note="torch returns values and indices, Paddle values",
    ),
    row(
        "min.dim",
        "min",
        _XD,
        reduction(is_many=False, needs_axis=True, smallest=1),
        torch="min",
        torch_slots=(0,),
        note="as max.dim",
    ),
    row("searchsorted", "", "input:values", _searchsorted),
    row(
        "F.one_hot",
        "",
        "input:x",
        _one_hot,
        paddle_taken="out.astype('int64')",
        note="int64 in torch, float32 in Paddle",
    ),
    row("bincount", "", "input:x", _bincount),
    row(
        "F.embedding",
        "",
        "input:x",
        _embedding,
        note="padding_idx: torch cuts the gradient only, Paddle returns zeros, too; not drawn",
    ),
)
