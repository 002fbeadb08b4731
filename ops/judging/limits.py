"""The constants that decide whether a framework is right about a case."""

from __future__ import annotations

from padiff.comparer.auditing import UNDERFLOW as LEAST

LARGEST_ERROR = 64.0
"""Of right elements and gradients: the audit's error, in units of rounding (half a unit in the
last place). Right kernels have a median of 1 and stay below 8 in 99 of 100 cases, those that
approximate special functions below 30; defects begin at 1e6 (``docs/operators.md``)."""
LARGEST_APART = 64.0
"""Without a float64 program: how far two results may be apart, in units of what rounds the
largest element."""
SATURATED = 8.0
"""Of a gradient: the defect that is allowed, in units of roundoff of the sum of all gradients
that arrive. A backward pass may use the output, as 1 - y * y of a tanh, which has no digits left
where the output is near 1; the exact derivative is next to nothing there."""
DIFFERENCE = 1e-10
"""Of a gradient: what the float64 difference quotient may be off, relative to all gradients that
arrive times the largest output: float64's unit roundoff over the audit's step is 4e-12."""
UNDERFLOW = {dtype: least * 2.0**10 for dtype, least in LEAST.items()}
"""Absolute errors that are allowed: what the audit allows, times 2**10 for the factors behind."""
