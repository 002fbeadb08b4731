"""Settings that an optimizer holds as tensors of few bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Content, Phase, Role, ValueRef
from padiff.program import TABLES, UNIT_ROUNDOFF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.program import Operator

    from .side import Side

__all__ = ["exact_settings"]

_POWERS = {"beta1_pow": "beta1", "beta2_pow": "beta2"}
"""Arguments that hold the power of another one, which counts the updates."""
_RATE = "learning_rate"
_ROUNDINGS = 4
"""Of a power, for each update: it was multiplied once and rounded once."""


def exact_settings(side: Side) -> dict[int, float]:
    """Return the settings that operators of an update take as tensors, before they were rounded.

    Paddle's optimizers hold the learning rate and the powers of their betas in float32. The rate is
    recorded in float64 as well; a power is that of a number which the operator takes beside it.

    Returns:
        By the value's id, of those that are the rounding of the number.
    """
    rates = list(_rates(side))
    found: dict[int, float] = {}
    for operator in side.program.operators:
        if operator.phase is Phase.UPDATE:
            named = _named(side, operator)
            for name, argument in named.items():
                if isinstance(argument, ValueRef) and (name == _RATE or name in _POWERS):
                    exact = _exact(side, argument.id, name, named, rates)
                    if exact is not None:
                        found[argument.id] = exact
    return found


def _named(side: Side, operator: Operator) -> dict[str, object]:
    """Return an operator's arguments by the names of its row; without one, only keywords."""
    table = TABLES[side.program.framework]
    row = table.names.get(operator.name)
    names = (
        [] if row is None else [one.partition("=")[0].strip() for one in row.signature.split(",")]
    )
    return {**dict(zip(names, operator.positional, strict=False)), **operator.keywords}


def _rates(side: Side) -> Iterator[float]:
    index = side.file.index
    for record in index.records:
        info = None if record.value is None else index.values[record.value]
        if record.role is Role.LR and info is not None and info.content is Content.FULL:
            yield float(side.file.value_array(info).reshape(()))


def _exact(
    side: Side, value: int, name: str, named: dict[str, object], rates: list[float]
) -> float | None:
    if value not in side.lowered.leaves.values() or not side.recorded.has_elements(value):
        return None
    elements = side.recorded_leaf(value)()
    if not elements.size or np.any(elements != elements.flat[0]):  # NAdam has one for each element
        return None
    rounded = float(elements.flat[0])
    unit = UNIT_ROUNDOFF.get(side.program.values[value].dtype, 0.0)
    if name == _RATE:
        near = [rate for rate in rates if abs(rate - rounded) <= 2 * unit * abs(rate)]
        return near[0] if near else None
    beta = named.get(_POWERS[name])
    if not isinstance(beta, float) or not 0 < beta < 1 or not 0 < rounded < 1:
        return None
    count = round(math.log(rounded) / math.log(beta))
    exact = beta**count
    return exact if abs(exact - rounded) <= _ROUNDINGS * max(count, 1) * unit * exact else None
