"""Numbers are short and never rounded into a lie."""

from __future__ import annotations

import math

import pytest

from padiff.comparer.report.escape import printable
from padiff.comparer.report.numbers import allowed, index, number, share
from padiff.comparer.result import Tolerance


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (-3.0, "-3"),
        (4.0e3, "4000"),
        (1.2345678e-12, "1.235e-12"),
        (123456.789, "1.235e+05"),
        (1e300, "1e+300"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_number_keeps_its_significant_digits(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0 %"),
        (1, 2001, "0.05 %"),
        (1, 10**9, "1e-07 %"),
        (10**9 - 1, 10**9, ">99.9 %"),
        (10, 10, "100 %"),
        (0, 0, "100 %"),
    ],
)
def test_share_is_0_only_for_none_and_100_only_for_all(part: int, whole: int, text: str) -> None:
    assert share(part, whole) == text


def test_tolerance_is_told_as_the_rule_it_is() -> None:
    assert allowed(Tolerance(atol=1e-4, rtol=1e-5)) == "0.0001 + 1e-05 * |ref|"
    assert allowed(Tolerance(atol=0.0, rtol=0.0)) == "exact"
    assert allowed(None) == "-"


def test_index_of_a_scalar_is_empty() -> None:
    assert index(()) == ""
    assert index(None) == ""
    assert index((3, 0)) == "at [3, 0]"


@pytest.mark.parametrize("code", [*range(32), *range(127, 160), 0x202E, 0x2028, 0xD800, 0xFEFF])
def test_no_control_character_survives(code: int) -> None:
    for ascii_only in (True, False):
        text = printable(f"a{chr(code)}b", ascii_only=ascii_only)
        assert text.isprintable()
        assert text.startswith("a\\")
