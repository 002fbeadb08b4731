"""Activations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .row import Row, row
from .strategies import FINITE, along_axis, unary

if TYPE_CHECKING:
    from .draw import Draw
    from .row import Arguments

_X = "input:x"


def _prelu(draw: Draw) -> Arguments:
    dtype = draw.float_dtype()
    shape = (draw.size(1), draw.size(1), *draw.shape(0, 2, smallest=1))
    return {
        "input": draw.tensor(shape, dtype),
        "weight": draw.tensor((draw.choice((1, shape[1])),), dtype, fills=FINITE),
    }


def _glu(draw: Draw) -> Arguments:
    shape = list(draw.shape(1, 3, smallest=1))
    axis = draw.axis(len(shape))
    shape[axis] *= 2
    return {"input": draw.tensor(tuple(shape), draw.float_dtype(), fills=FINITE), "dim": axis}


ROWS: tuple[Row, ...] = (
    *(
        row(f"F.{name}", "", _X, unary())
        for name in [
            "relu",
            "relu6",
            "silu",
            "mish",
            "softsign",
            "tanhshrink",
            "selu",
            "hardsigmoid",
            "hardswish",
        ]
    ),
    row("F.leaky_relu", "", _X, unary(options={"negative_slope": (0.3, 0.0)})),
    row("F.elu", "", _X, unary(options={"alpha": (0.5, 2.0)})),
    row("F.celu", "", _X, unary(options={"alpha": (0.5, 2.0)})),
    row("F.softplus", "", _X, unary(options={"beta": (0.5, 2.0), "threshold": (1.0, 20.0)})),
    row("F.logsigmoid", "F.log_sigmoid", _X, unary()),
    row(
        "F.hardtanh",
        "",
        "input:x min_val:min max_val:max",
        unary(options={"min_val": (-0.5,), "max_val": (0.5,)}),
    ),
    row("F.softshrink", "", "input:x lambd:threshold", unary(options={"lambd": (0.2, 1.0)})),
    row("F.hardshrink", "", "input:x lambd:threshold", unary(options={"lambd": (0.2, 1.0)})),
    row(
        "F.gelu",
        "",
        _X,
        unary(options={"approximate": ("tanh", "none")}),
        values={"approximate": lambda one: one == "tanh"},
    ),
    row("F.prelu", "", _X, _prelu),
    row("F.glu", "", "input:x dim:axis", _glu),
    row("F.softmax", "", "input:x dim:axis", along_axis(fills=FINITE)),
    row("F.log_softmax", "", "input:x dim:axis", along_axis(fills=FINITE)),
)
