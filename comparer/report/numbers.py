"""Numbers as a reader needs them: short, and never rounded into a lie."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.comparer.result import Tolerance


def at_least(value: float) -> str:
    """Return four significant digits, rounded up: what is typed so is no less than the value.

    >>> at_least(0.100000001), at_least(0.25), at_least(1.23401e-5)
    ('0.1001', '0.25', '1.235e-05')
    """
    if not math.isfinite(value):
        return str(value)
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(value)):.4g}"


def number(value: float | None) -> str:
    """Return four significant digits, in scientific notation where needed; ``-`` for None.

    >>> number(0.0000123456), number(0.25), number(None), number(float("nan"))
    ('1.235e-05', '0.25', '-', 'nan')
    """
    if value is None:
        return "-"
    if math.isfinite(value) and float(value).is_integer() and abs(value) < 10**6:
        return str(int(value))
    return f"{value:.4g}"


def factor(value: float) -> str:
    """Return a factor, with how far it is from 1 where it is near.

    >>> factor(2.0), factor(0.3535534), factor(1.0000012), factor(0.9999)
    ('2', '0.353553', '(1 + 1.2e-06)', '(1 - 0.0001)')
    """
    off = value - 1
    if not off or abs(off) > _NEAR_ONE:
        return f"{value:.6g}"
    return f"(1 {'+' if off > 0 else '-'} {abs(off):.2g})"


_NEAR_ONE = 1e-3


def count(value: int) -> str:
    """Group digits by thousands."""
    return f"{value:,}"


def share(part: int, whole: int) -> str:
    """Return a percentage that is 0 only for none and 100 only for all.

    >>> share(1, 2001), share(1999999, 2000000), share(0, 5), share(5, 5)
    ('0.05 %', '>99.9 %', '0 %', '100 %')
    """
    if whole <= 0 or part == whole:
        return "100 %"
    text = f"{100 * part / whole:.3g}"
    return ">99.9 %" if text == "100" else f"{text} %"


def plural(value: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "origin"), plural(2, "origin")
    ('1 origin', '2 origins')
    """
    return f"{count(value)} {noun}" + ("" if value == 1 else "s")


def allowed(tolerance: Tolerance | None, *, short: bool = False) -> str:
    """Describe how far a candidate may be from its reference.

    >>> from padiff.comparer import Tolerance
    >>> allowed(Tolerance(atol=1e-4, rtol=1e-5)), allowed(Tolerance(atol=0.0, rtol=0.0))
    ('0.0001 + 1e-05 * |ref|', 'exact')
    """
    if tolerance is None:
        return "-"
    if tolerance.atol == 0 and tolerance.rtol == 0:
        return "exact"
    if short:
        return f"{tolerance.atol:.3g}+{tolerance.rtol:.3g}|r|"
    return f"{number(tolerance.atol)} + {number(tolerance.rtol)} * |ref|"


def index(position: tuple[int, ...] | None) -> str:
    """Describe where an element is; empty for no or a 0-dimensional position."""
    return f"at [{', '.join(map(str, position))}]" if position else ""
