"""Settings of an optimizer: as numbers in operators, and as tensors of few bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Phase, Role, ValueRef
from padiff.program import TABLES, UNIT_ROUNDOFF

from .result import ArgumentDifference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.program import Node, Operator

    from .side import Side

__all__ = ["differing_arguments", "exact_settings"]

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
        if record.role is Role.LR and record.value is not None:
            yield float(side.file.value_array(index.values[record.value]).reshape(()))


def _exact(
    side: Side, value: int, name: str, named: dict[str, object], rates: list[float]
) -> float | None:
    if value not in side.lowered.leaves.values() or not side.recorded.has_elements(value):
        return None
    elements = side.recorded_leaf(value)()
    if elements.size != 1:
        return None
    rounded = float(elements.reshape(()).astype(np.float64))
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


def differing_arguments(
    sides: tuple[Side, Side], wanted: tuple[int, int]
) -> Iterator[ArgumentDifference]:
    """Yield the numbers in which two updates differ, where both run the same operators.

    Args:
        sides: The reference and the candidate.
        wanted: What the updates left.
    """
    known, found = (_numbers(side, value) for side, value in zip(sides, wanted, strict=True))
    if [name for name, _ in known] != [name for name, _ in found]:
        return
    for (name, one), (_, two) in zip(known, found, strict=True):
        if len(one) == len(two):
            for number, other in zip(one, two, strict=True):
                if number != other:
                    yield ArgumentDifference(operator=name, reference=number, candidate=other)


def _numbers(side: Side, value: int) -> list[tuple[str, list[float]]]:
    """Return the primitives of an update's operators that make a value, each with its numbers."""
    nodes, producers = side.lowered.nodes, side.lowered.producers
    rest, places = [side.lowered.terms[value]], set[int]()
    while rest:
        place = producers.get(rest.pop())
        if place is not None and place not in places:
            places.add(place)
            rest += nodes[place].operands
    operators = side.program.operators
    return [
        (_plain(operators[node.operator].name), _constants(side, node))
        for node in (nodes[place] for place in sorted(places))
        if operators[node.operator].phase is Phase.UPDATE and node.primitive != "full"
    ]


def _constants(side: Side, node: Node) -> list[float]:
    made = [side.lowered.producers.get(term) for term in node.operands]
    nodes = [side.lowered.nodes[place] for place in made if place is not None]
    attributes = [dict(one.attributes) for one in nodes if one.primitive == "full"]
    return [float(one["value"]) for one in attributes if not one["shape"]]


def _plain(name: str) -> str:
    """Return what the forms of an operator over one tensor and over a list have in common."""
    short = name.rpartition(".")[2].removeprefix("_foreach_")
    return short if short.endswith("__") else short.removesuffix("_")
