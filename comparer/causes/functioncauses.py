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
SOFTMAX = 4
"""Times that the elements are gone through for one."""
ROWS = 1 << 15
"""Elements of each tensor that are looked at together where sums are looked for."""
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
    series = 0.0 * t
    for term in reversed(terms):
        series = series * t + term
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


def _along_axes(x: Array) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    for axis in range(x.ndim):
        yield f"softmax along axis {axis}", partial(_softmax, axis=axis)
        yield f"log_softmax along axis {axis}", partial(_log_softmax, axis=axis)


def function(sides: Contrast, sources: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether the sides are two different well-known functions of one input.

    Args:
        sides: What diverged.
        sources: What it may be a function of, by name; the likeliest last.
    """
    like = [one for one in sources if one[1].shape == sides.reference.shape]
    is_softmax = bool(like) and _may_be_softmax(sides, sides.reference)
    for name, source in reversed(like):
        right, wrong = _first(sides, sides.reference, source), None
        if right is None and is_softmax:
            right = _softmax_along(sides, sides.reference, source)
        if right is not None:
            wrong = _first(sides, sides.candidate, source)
            wrong = wrong or _softmax_along(sides, sides.candidate, source)
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
    same = [
        one for one in sources
        if one[1].shape == sides.reference.shape and np.ptp(one[1])
    ]  # fmt: skip
    near = same[:1] + same[1:][-MOST_GATES:]
    for place, (name, gate) in enumerate(near):
        for other, (factor_name, factor) in enumerate(near):
            if other == place:
                continue
            right = _first(sides, sides.reference, gate, factor)
            if right is None:
                continue
            is_plain = right == PLAIN
            of = name if is_plain else f"{right} of {name}"
            text = f"the reference is {factor_name} times {of}, the candidate "
            wrong, swapped = _first(sides, sides.candidate, gate, factor), None
            alone = None
            if wrong is None:
                swapped = _first(sides, sides.candidate, factor, gate)
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
    if not sides.budget.grants(2 * sides.size):
        return None
    if sides.fits(factor[1]):
        return factor[0]
    name = gate[0] if function == PLAIN else f"{function} of {gate[0]}"
    return name if sides.fits(FUNCTIONS[function](gate[1])) else None


def _first(sides: Contrast, side: Array, source: Array, factor: Array | None = None) -> str | None:
    """Name the first function of a tensor that is one of the sides.

    Args:
        sides: What diverged.
        side: ``reference`` or ``candidate``.
        source: The tensor.
        factor: What it is multiplied with, then elementwise functions alone are tried.
    """
    few = sides.some(source)
    times = None if factor is None else sides.some(factor)
    for name, apply in sides.budget.tries(FUNCTIONS.items(), few.size):
        made = apply(few) if times is None else apply(few) * times
        if not sides.may_be(made, side):
            continue
        if not sides.budget.grants(sides.size):
            return None
        whole = apply(source) if factor is None else apply(source) * factor
        if sides.is_side(whole, side):
            return name
    return None


def _softmax_along(sides: Contrast, side: Array, source: Array) -> str | None:
    """Name the first softmax of a tensor, or the logarithm of one, that is one of the sides."""
    ways = sides.tries(_along_axes(source), SOFTMAX)
    return next((name for name, apply in ways if sides.is_side(apply(source), side)), None)


def _may_be_softmax(sides: Contrast, side: Array) -> bool:
    """Tell whether a side is no farther from all shares, or all logarithms of them, than may be."""
    if not sides.budget.grants(sides.size):
        return False
    above = float(np.linalg.norm(np.maximum(side, 0).ravel()))
    beyond = float(np.linalg.norm((side - np.clip(side, 0, 1)).ravel()))
    return min(above, beyond) <= sides.limit


def combination(sides: Contrast, ingredients: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether each side is a sum of what was at hand, and not the same one.

    Args:
        sides: What diverged.
        ingredients: What it may be a sum of, by name, in execution order.
    """
    terms = [one for one in ingredients if one[1].shape == sides.reference.shape]
    if not terms or not sides.budget.grants(sides.size * (2 + MOST_INGREDIENTS)):
        return None
    terms = _distinct(terms)[-MOST_INGREDIENTS:]
    exact = EXACT + 2 * sides.unit
    if sides.size <= MOST_INGREDIENTS:
        return None
    *table, reference, candidate = _reduced(
        [*(array for _, array in terms), sides.reference, sides.candidate]
    )
    right, wrong = (_sum_of(side, table, sides.size, exact) for side in (reference, candidate))
    if right is None or wrong is None or wrong == right:
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
        if array.any() and not any(_is_same(array, other) for _, other in found):
            found.append((name, array))
    return found


def _is_same(one: Array, other: Array) -> bool:
    """Tell whether two tensors of one shape are equal; most differ in the first element."""
    return bool(one.flat[0] == other.flat[0]) and np.array_equal(one, other)


def _reduced(columns: Sequence[Array]) -> list[Array]:
    """Give a few short vectors with the lengths of some tensors and the angles between them.

    Whatever sum of the ones is nearest to another, the same sum of the others is, and as near:
    the tensors are rotated (Golub, Van Loan, Matrix Computations, 4th ed., section 5.2), rows at a
    time, so that no copy of all is made.
    """
    flat = [column.reshape(-1) for column in columns]
    parts = [
        np.linalg.qr(np.stack([column[at : at + ROWS] for column in flat], axis=1), mode="r")
        for at in range(0, flat[0].size, ROWS)
    ]
    return list(np.transpose(np.linalg.qr(np.concatenate(parts), mode="r")))


def _sum_of(
    target: Array, terms: Sequence[Array], elements: int, exact: float
) -> dict[int, float] | None:
    """Find the fewest terms of which a tensor is a sum with round or any coefficients.

    Args:
        target: The tensor, reduced.
        terms: What it may be a sum of, reduced.
        elements: Of each before.
        exact: Share of it that may be left over.
    """
    size = float(np.linalg.norm(target))
    if not size:
        return None
    for places in _subsets(len(terms)):
        matrix = np.stack([terms[place] for place in places], axis=1)
        least = np.finfo(np.float64).eps * elements
        numbers = np.linalg.lstsq(matrix, target, rcond=least)[0]
        if float(np.linalg.norm(matrix @ numbers - target)) <= exact * size:
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
    if not math.isfinite(number):
        return number
    near = round(number * 64) / 64
    return near if near and abs(number - near) <= max(ROUND, exact) * abs(near) else number


def _written(numbers: Mapping[int, float], terms: Sequence[tuple[str, Array]]) -> str:
    parts: list[str] = []
    for place, number in numbers.items():
        size = "" if abs(number) == 1 else f"{abs(number):.4g} * "
        sign = "-" if number < 0 else "+" if parts else ""
        parts.append(f"{sign} {size}{terms[place][0]}".strip())
    return " ".join(parts)
