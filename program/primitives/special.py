"""Special functions in float64, vectorised: numpy has none of them.

Each is within a few units of the last place of its largest nearby value; the tests compare with
``math`` and with the frameworks.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_Floats: TypeAlias = npt.NDArray[Any]

LARGEST_ORDER = 64
"""Highest derivative of digamma: factorials beyond leave float64 soon."""

# W. J. Cody, Rational Chebyshev approximations for the error function, Math. Comp. 23 (1969):
# numerators and denominators from the highest power down; relative error below 2e-16 each.
_ERFC_MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0,
     6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
     1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
     1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
     3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
_ERFC_LARGE = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1,
     1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242e0, 1.87295284992346725e0, 5.27905102951428412e-1,
     6.05183413124413191e-2, 2.33520497626869185e-3),
)  # fmt: skip
_SMALL, _MIDDLE, _HUGE = 0.46875, 4.0, 27.0
"""Borders of Cody's intervals; erfc is 0 in float64 beyond the last."""

_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330,
)  # fmt: skip
"""B_2, B_4 … of the asymptotic series (Abramowitz and Stegun, 6.1.40, 6.3.18 and 6.4.11)."""
_ASYMPTOTIC = 12
"""From here on ten terms of those series are exact to 1e-17."""


def _polynomial(coefficients: tuple[float, ...], x: _Floats) -> _Floats:
    result = x * coefficients[0]
    result += coefficients[1]
    for coefficient in coefficients[2:]:
        result *= x
        result += coefficient
    return result


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: _Floats) -> _Floats:
    return _polynomial(coefficients[0], x) / _polynomial(coefficients[1], x)


def _gaussian(y: _Floats) -> _Floats:
    """Compute exp(-y²) without the rounding of y² (Cody: split y at a sixteenth)."""
    head = np.trunc(y * 16) / 16
    return np.exp(-head * head) * np.exp(-(y - head) * (y + head))


def _erfc_positive(y: _Floats) -> _Floats:
    """Compute erfc above the interval where it is one minus erf."""
    result = np.zeros_like(y)
    middle = y <= _MIDDLE
    part = y[middle]
    result[middle] = _gaussian(part) * _ratio(_ERFC_MIDDLE, part)
    large = (y > _MIDDLE) & (y < _HUGE)
    part = y[large]
    inverse = 1 / (part * part)
    tail = (1 / math.sqrt(math.pi) - inverse * _ratio(_ERFC_LARGE, inverse)) / part
    result[large] = _gaussian(part) * tail
    return result


def erf(x: _Floats) -> _Floats:
    """Compute the error function: what a table holds for the nearest point, and the rest to there.

    The rest is the integral of 2/sqrt(pi) exp(-t²) over less than a two-thousandth. With the middle
    m of it and its length d that is 2/sqrt(pi) d exp(-m²) (1 + (2 m² - 1) d² / 12), by Taylor's
    series around m; the next term is below 1e-18.

    >>> bool(abs(erf(np.array([0.5]))[0] - math.erf(0.5)) < 1e-15)
    True
    """
    result = np.empty(x.shape, x.dtype)
    flat, made = np.ascontiguousarray(x).reshape(-1), result.reshape(-1)
    rooms = np.empty((4, min(x.size, _BLOCK)))
    with np.errstate(invalid="ignore", under="ignore"):  # nan has no nearest point
        for start in range(0, x.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            _erf_into(made[start : start + _BLOCK], part, *rooms[:, : part.size])
    return result


_BLOCK = 1 << 14
"""Elements at a time: what is made on the way stays in the processor's cache."""


def _erf_into(
    result: _Floats, x: _Floats, middle: _Floats, point: _Floats, length: _Floats, rest: _Floats
) -> None:
    """Write the error function of some elements; the others are arrays to write to."""
    np.abs(x, out=middle)
    np.minimum(middle, _FARTHEST[: x.size], out=middle)
    np.multiply(middle, _POINTS, out=point)
    np.rint(point, out=point)
    places = point.astype(np.intp)
    point *= 1 / _POINTS
    np.subtract(middle, point, out=length)
    middle += point
    middle *= 0.5
    middle *= middle
    np.multiply(length, length, out=point)
    point *= _SLOPE / 12
    np.multiply(middle, 2, out=rest)
    rest -= 1
    rest *= point
    rest += _SLOPE
    rest *= length
    np.negative(middle, out=middle)
    np.exp(middle, out=middle)
    rest *= middle
    np.take(_ERF, places, out=point, mode="clip")
    point += rest
    np.copysign(point, x, out=result)


_SLOPE = 2 / math.sqrt(math.pi)
_POINTS = 1024
"""Of the table, to one."""
_LARGEST = 6
"""Erf is 1 in float64 from here on."""
_FARTHEST = np.full(_BLOCK, float(_LARGEST))
_ERF = np.array([math.erf(place / _POINTS) for place in range(_LARGEST * _POINTS + 1)])


def erfc(x: _Floats) -> _Floats:
    """Compute one minus the error function, exact where that is tiny."""
    magnitude = np.abs(x)
    small = magnitude <= _SMALL
    result = np.empty_like(x)
    result[small] = 1 - erf(x[small])
    large = ~small
    tail = _erfc_positive(magnitude[large])
    result[large] = np.where(x[large] < 0, 2 - tail, tail)
    result[np.isnan(x)] = np.nan
    return result


def erfinv(x: _Floats) -> _Floats:
    """Compute the inverse of erf: Giles' estimate, then Halley's rule on erfc.

    Source:
        M. Giles, Approximating the erfinv function, GPU Computing Gems (2011).
    """
    result = np.full_like(x, np.nan)
    result[x == 1], result[x == -1] = np.inf, -np.inf
    inside = np.abs(x) < 1
    part = np.abs(x[inside])
    guess = _erfinv_guess(part)
    for _ in range(3):
        error = np.where(part < _SMALL, erf(guess) - part, (1 - part) - erfc(guess))
        step = error / (2 / math.sqrt(math.pi) * np.exp(-guess * guess))
        guess = guess - step / (1 + guess * step)
    result[inside] = np.copysign(guess, x[inside])
    return result


def _erfinv_guess(x: _Floats) -> _Floats:
    """Estimate erfinv of 0 … 1 to about 2e-3 (S. Winitzki, 2008)."""
    logarithm = np.log1p(-x * x)
    half = 2 / (math.pi * 0.147) + logarithm / 2
    return np.sqrt(np.sqrt(half * half - logarithm / 0.147) - half)


def _shifted(x: _Floats) -> _Floats:
    """Return how many steps of one bring a positive number into the asymptotic range."""
    return np.maximum(0, np.ceil(_ASYMPTOTIC - x))


def lgamma(x: _Floats) -> _Floats:
    """Compute log |Γ(x)| by Stirling's series, shifted up, and reflected below one half."""
    reflected = x < 0.5  # noqa: PLR2004 - where reflection is defined
    y = np.where(reflected, 1 - x, x)
    steps = _shifted(y)
    product = np.ones_like(y)
    for index in range(_ASYMPTOTIC):
        product = np.where(index < steps, product * (y + index), product)
    z = y + steps
    inverse = 1 / z
    square = inverse * inverse
    series = np.zeros_like(y)
    for index in range(len(_BERNOULLI) - 1, -1, -1):
        order = 2 * (index + 1)
        series = series * square + _BERNOULLI[index] / (order * (order - 1))
    stirling = (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + series * inverse
    result = np.where(np.isinf(y), np.inf, stirling - np.log(product))
    turned = np.log(math.pi / np.abs(np.sin(math.pi * (x - np.round(x))))) - result
    result = np.where(reflected, turned, result)
    return np.where((x <= 0) & (x == np.floor(x)), np.inf, result)


def digamma(x: _Floats) -> _Floats:
    """Compute the derivative of log Γ: asymptotic series, shifted up, reflected below zero."""
    reflected = x < 0
    y = np.where(reflected, 1 - x, x)
    steps = _shifted(y)
    result = np.zeros_like(y)
    for index in range(_ASYMPTOTIC):
        result = np.where(index < steps, result - 1 / (y + index), result)
    z = y + steps
    square = 1 / (z * z)
    series = np.zeros_like(y)
    for index in range(len(_BERNOULLI) - 1, -1, -1):
        series = (series + _BERNOULLI[index] / (2 * (index + 1))) * square
    result = result + (np.log(z) - 0.5 / z - series)
    turned = result - math.pi / np.tan(math.pi * (x - np.floor(x)))
    result = np.where(reflected, turned, result)
    result = np.where(reflected & (x == np.floor(x)), np.nan, result)
    return np.where(x == 0, np.copysign(np.inf, -x), result)


def polygamma(order: int, x: _Floats) -> _Floats:
    """Compute the derivative of digamma of an order from 1 on, for x above zero.

    Through Hurwitz' zeta function by Euler and Maclaurin (Abramowitz and Stegun, 6.4.10 and
    23.1.30); nan for x up to zero, where frameworks differ.
    """
    exponent = order + 1
    total = np.zeros_like(x)
    shift = _ASYMPTOTIC + order
    for index in range(shift):
        total = total + (x + index) ** -float(exponent)
    z = x + shift
    total = total + z ** -float(order) / order + 0.5 * z ** -float(exponent)
    factor = float(exponent)
    for index, bernoulli in enumerate(_BERNOULLI):
        power = exponent + 2 * index + 1
        total = total + bernoulli * factor / math.factorial(2 * index + 2) * z ** -float(power)
        factor *= float(power) * (power + 1)
    sign = 1 if order % 2 else -1
    return np.where(x > 0, sign * math.factorial(order) * total, np.nan)


_NODES = 256
"""Points of the trapezoid rule: exact to rounding as long as √x is well below their number."""
_FAR = 3000.0


def _bessel_scaled(order: int, x: _Floats) -> _Floats:
    """Compute exp(-|x|) I_n(x) from its integral (Abramowitz and Stegun, 9.6.19, 9.7.1)."""
    magnitude = np.abs(x)
    near = np.minimum(magnitude, _FAR)
    total = np.zeros_like(near)
    for theta in (np.arange(_NODES) + 0.5) * (math.pi / (_NODES)):
        total += np.exp(near * (math.cos(theta) - 1)) * math.cos(order * theta)
    total /= _NODES
    mu, inverse = 4.0 * order * order, 1 / (8 * np.maximum(magnitude, 1))
    term, series = np.ones_like(near), np.ones_like(near)
    for index in range(1, 8):
        term = -term * (mu - (2 * index - 1) ** 2) / index * inverse
        series += term
    far = series / np.sqrt(2 * math.pi * np.maximum(magnitude, 1))
    result = np.where(magnitude > _FAR, far, total)
    return np.where(x < 0, -result, result) if order % 2 else result


def bessel_i0e(x: _Floats) -> _Floats:
    """Compute exp(-|x|) I_0(x)."""
    return _bessel_scaled(0, x)


def bessel_i1e(x: _Floats) -> _Floats:
    """Compute exp(-|x|) I_1(x)."""
    return _bessel_scaled(1, x)
