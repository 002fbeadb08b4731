"""Operators that reduce axes, or accumulate along one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.ops.cases import Dtype, Fill

from .row import Row, row
from .strategies import FINITE, along_axis, reduction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.ops.cases import Argument

    from .draw import Draw
    from .row import Arguments

_XD = "input:x dim:axis"
_WHOLE_TOO = ("float32", "float64", "int64")
_DTYPES = (Dtype(name="float64"), Dtype(name="int64"))


def _cumsum(draw: Draw) -> Arguments:
    """Draw a dtype only with what whole numbers can hold."""
    options: dict[str, Sequence[Argument]] = {"dtype": _DTYPES}
    finite = along_axis(smallest=0, fills=FINITE, options=options)
    return (finite if draw.flag() else along_axis(smallest=0))(draw)


ROWS: tuple[Row, ...] = (
    row("sum", "", _XD, reduction(dtypes=_WHOLE_TOO)),
    row("mean", "", _XD, reduction(smallest=1)),
    row("prod", "", _XD, reduction(is_many=False, fills=FINITE)),
    row("amax", "", _XD, reduction(smallest=1)),
    row("amin", "", _XD, reduction(smallest=1)),
    row("logsumexp", "", _XD, reduction(needs_axis=True, smallest=1, fills=FINITE)),
    row("std", "", _XD, reduction(smallest=2, fills=FINITE, options={"unbiased": (False, True)})),
    row("var", "", _XD, reduction(smallest=2, fills=FINITE, options={"unbiased": (False, True)})),
    row("argmax", "", _XD, reduction(is_many=False, smallest=1, fills=(Fill.NORMAL,))),
    row("argmin", "", _XD, reduction(is_many=False, smallest=1, fills=(Fill.NORMAL,))),
    row("all", "", _XD, reduction(dtypes=("bool",))),
    row("any", "", _XD, reduction(dtypes=("bool",))),
    row("nansum", "", _XD, reduction()),
    row("nanmean", "", _XD, reduction(smallest=1)),
    row("count_nonzero", "", _XD, reduction(keeps=False, dtypes=_WHOLE_TOO)),
    row("cumsum", "", _XD, _cumsum),
    row("cumprod", "", "input:x", along_axis(fills=FINITE)),
    row("logcumsumexp", "", _XD, along_axis(fills=FINITE)),
    row("cummax", "", _XD, along_axis(fills=(Fill.NORMAL,))),
    row("cummin", "", _XD, along_axis(fills=(Fill.NORMAL,))),
)
