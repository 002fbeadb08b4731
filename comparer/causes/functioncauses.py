"""Whether either side is a well-known function of the same input, and which: the other's is wrong.

Both must be found: the reference's function among those that a model may have at that place, the
candidate's among the same. Recomputed in float64 from what went in.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import JSON

    from .contrast import Contrast

__all__ = ["FUNCTIONS", "combination", "function", "gated", "rounded"]

MOST_TERMS = 3
"""Terms of a sum that are looked for."""
MOST_INGREDIENTS = 6
"""Tensors that may be its terms, the last ones first."""
MOST_GATES = 4
"""Tensors that may be a gate or what it is multiplied with: the last ones, and the very first."""
EXACT = 1e-5
"""Share of a tensor that a sum of others may leave over, besides rounding, to be that tensor."""
ROUND = 1e-3
"""Relative distance within which a coefficient is the round number that it is near to."""


def _sigmoid(x: Array) -> Array:
    result: Array = 0.5 * (1 + np.tanh(0.5 * x))
    return result


def _erf(x: Array) -> Array:
    """Give the error function; the largest error is 1.2e-7.

    Source: W. J. Cody's form as in Numerical Recipes, 3rd ed., section 6.2.2 (``erfccheb``, low
    order).
    """
    t = 1 / (1 + 0.5 * np.abs(x))
    terms = (
        -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
        1.48851587, -0.82215223, 0.17087277,
    )  # fmt: skip
    series = sum(term * t**power for power, term in enumerate(terms))
    rest = t * np.exp(-x * x + series)
    result: Array = np.where(x >= 0, 1 - rest, rest - 1)
    return result


def _tanh_gelu(x: Array) -> Array:
    result: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return result


PLAIN = "its input unchanged"
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    PLAIN: lambda x: x,
    "minus its input": lambda x: -x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu by tanh": _tanh_gelu,
    "gelu by sigmoid (quick)": lambda x: x * _sigmoid(1.702 * x),
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky relu of 0.01": lambda x: np.where(x > 0, x, 0.01 * x),
    "leaky relu of 0.1": lambda x: np.where(x > 0, x, 0.1 * x),
    "leaky relu of 0.2": lambda x: np.where(x > 0, x, 0.2 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(x, 0),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "exp": lambda x: np.exp(np.minimum(x, 700)),
    "squared relu": lambda x: np.maximum(x, 0) ** 2,
}
"""Elementwise functions that a model may have between layers, by name; from and to float64."""


def _softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    result: Array = powers / powers.sum(axis=axis, keepdims=True)
    return result


def _log_softmax(x: Array, axis: int) -> Array:
    result: Array = np.log(np.maximum(_softmax(x, axis), 1e-300))
    return result


def _candidates(x: Array) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    yield from FUNCTIONS.items()
    for axis in range(x.ndim):
        yield f"softmax along axis {axis}", partial(_softmax, axis=axis)
        yield f"log_softmax along axis {axis}", partial(_log_softmax, axis=axis)


def function(sides: Contrast, sources: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether the sides are two different well-known functions of one input.

    Args:
        sides: What diverged.
        sources: What it may be a function of, by name; the likeliest last.
    """
    for name, source in reversed(sources):
        if source.shape != sides.reference.shape:
            continue
        right = _first(sides.is_reference, source)
        wrong = None if right is None else _first(sides.fits, source)
        if right is not None and wrong is not None and right != wrong:
            of = f" of {name}" if name else ""
            return Cause(
                name=CauseName.FUNCTION,
                text=f"the reference is {right}{of}, the candidate {wrong}",
                numbers={"reference": right, "candidate": wrong, "source": name},
            )
    return None


def gated(sides: Contrast, sources: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether the sides are products of one tensor and two different functions of another.

    Args:
        sides: What diverged.
        sources: What was at hand, by name, the likeliest last.
    """
    same = [one for one in sources if one[1].shape == sides.reference.shape]
    near = same[:1] + same[1:][-MOST_GATES:]
    for place, (name, gate) in enumerate(near):
        for other, (factor_name, factor) in enumerate(near):
            if other == place:
                continue
            right = _first_gate(sides.is_reference, gate, factor)
            if right is None:
                continue
            is_plain = right == PLAIN
            of = name if is_plain else f"{right} of {name}"
            text = f"the reference is {factor_name} times {of}, the candidate "
            wrong, swapped = _first_gate(sides.fits, gate, factor), None
            alone = None
            if wrong is None:
                swapped = _first_gate(sides.fits, factor, gate)
                alone = _alone(sides, (factor_name, factor), (name, gate), right)
            if wrong is not None and wrong != right:
                text += f"times {wrong} of it"
            elif swapped is not None:
                text += f"{name} times {swapped} of {factor_name}: the two are swapped"
            elif alone is not None:
                text += f"{alone} alone"
            else:
                continue
            numbers: dict[str, JSON] = {"reference": right, "source": name}
            numbers |= {"candidate": wrong or swapped or alone, "is_swapped": bool(swapped)}
            return Cause(name=CauseName.FUNCTION, text=text, numbers=numbers)
    return None


def _alone(
    sides: Contrast, factor: tuple[str, Array], gate: tuple[str, Array], function: str
) -> str | None:
    """Name the one factor of a product that the candidate is without the other."""
    if sides.fits(factor[1]):
        return factor[0]
    name = gate[0] if function == PLAIN else f"{function} of {gate[0]}"
    return name if sides.fits(FUNCTIONS[function](gate[1])) else None


def _first_gate(is_it: Callable[[Array], bool], gate: Array, factor: Array) -> str | None:
    return next((name for name, apply in FUNCTIONS.items() if is_it(apply(gate) * factor)), None)


def _first(is_it: Callable[[Array], bool], source: Array) -> str | None:
    return next((name for name, apply in _candidates(source) if is_it(apply(source))), None)


def combination(sides: Contrast, ingredients: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether each side is a sum of what was at hand, and not the same one.

    Args:
        sides: What diverged.
        ingredients: What it may be a sum of, by name, in execution order.
    """
    terms = [one for one in ingredients if one[1].shape == sides.reference.shape]
    terms = _distinct(terms)[-MOST_INGREDIENTS:]
    exact = EXACT + 2 * sides.unit
    right = _sum_of(sides.reference, terms, exact)
    if right is None:
        return None
    wrong = _sum_of(sides.candidate, terms, exact)
    if wrong is None or wrong == right:
        return None
    text = f"the reference is {_written(right, terms)}, the candidate {_written(wrong, terms)}"
    return Cause(
        name=CauseName.COMBINATION,
        text=text,
        numbers={
            "reference": {terms[place][0]: number for place, number in right.items()},
            "candidate": {terms[place][0]: number for place, number in wrong.items()},
        },
    )


def _distinct(terms: Sequence[tuple[str, Array]]) -> list[tuple[str, Array]]:
    found: list[tuple[str, Array]] = []
    for name, array in terms:
        if array.any() and not any(np.array_equal(array, other) for _, other in found):
            found.append((name, array))
    return found


def _sum_of(
    target: Array, terms: Sequence[tuple[str, Array]], exact: float
) -> dict[int, float] | None:
    """Find the fewest terms of which a tensor is a sum with round or any coefficients."""
    size = float(np.linalg.norm(target.ravel()))
    if not size or target.size <= MOST_INGREDIENTS:
        return None
    for places in _subsets(len(terms)):
        matrix = np.stack([terms[place][1].ravel() for place in places], axis=1)
        numbers = np.linalg.lstsq(matrix, target.ravel(), rcond=None)[0]
        if float(np.linalg.norm(matrix @ numbers - target.ravel())) <= exact * size:
            return {
                place: rounded(float(number), exact)
                for place, number in zip(places, numbers, strict=True)
            }
    return None


def _subsets(count: int) -> Iterable[tuple[int, ...]]:
    for first in range(count):
        yield (first,)
    for first in range(count):
        yield from ((first, second) for second in range(first + 1, count))
    for first in range(count):
        for second in range(first + 1, count):
            yield from ((first, second, third) for third in range(second + 1, count))


def rounded(number: float, exact: float) -> float:
    """Give the round number that a coefficient is near to, if any.

    Args:
        number: The coefficient.
        exact: Relative error of its measure.
    """
    near = round(number * 64) / 64
    return near if near and abs(number - near) <= max(ROUND, exact) * abs(near) else number


def _written(numbers: Mapping[int, float], terms: Sequence[tuple[str, Array]]) -> str:
    parts: list[str] = []
    for place, number in numbers.items():
        size = "" if abs(number) == 1 else f"{abs(number):.4g} * "
        sign = "-" if number < 0 else "+" if parts else ""
        parts.append(f"{sign} {size}{terms[place][0]}".strip())
    return " ".join(parts)
