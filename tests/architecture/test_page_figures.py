"""What a page shows of an output is held against what was printed, closely enough to go stale."""

from __future__ import annotations

import pytest

from tests.support.printed import end_of

PRINTED = (
    "dump at d: 76 calls, 467 records, 95.6 MiB, 1.8 s torch 2.13.0+cpu recorded 2026-11-26 "
    "moves the result by 0.0002401 of its size rounding makes 2.682e-06 grows nowhere "
    "the relative error grows 859 times here: a step mismatched 6,862 of 8,192 elements"
)


@pytest.mark.parametrize(
    "shown",
    [
        "76 calls, 467 records, 95.6 MiB, 12.3 s",
        "recorded 2025-01-31\n    moves the result by 0.0002402 of its\nsize",
        "rounding makes 2.1e-06",
        "error grows 492 times here",
        "mismatched  6,854 of 8,192",
        "torch 2.13.0+cpu",
    ],
)
def test_times_dates_blanks_and_last_digits_may_be_others(shown: str) -> None:
    assert end_of(shown, PRINTED)[0] > 0


@pytest.mark.parametrize(
    "shown",
    [
        "77 calls",
        "95.6 MiB, some time",
        "moves the result by 0.0005866 of its size",
        "moves the result by 0.0002451 of its size",
        "rounding makes 2.9e-05",
        "error grows 8600 times here",
        "mismatched 6,700 of 8,192",
        "torch 2.12.0+cpu",
        "torch 2.13",
    ],
)
def test_what_is_stale_is_found(shown: str) -> None:
    end, why = end_of(shown, PRINTED)

    assert end == -1
    assert why


def test_a_later_place_with_the_right_figure_is_found() -> None:
    end, _ = end_of("error 0.5 here", "error 0.25 here, error 0.5 here, error 0.5 here")

    assert end == len("error 0.25 here, error 0.5 here")


def test_the_figures_that_differ_are_named() -> None:
    assert "0.5 where 0.25 was printed" in end_of("error 0.5 here", "error 0.25 here")[1]
