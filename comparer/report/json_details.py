"""What was looked up of diverged records and of modules, as strict JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .edit_words import worded_call
from .json_values import strict

if TYPE_CHECKING:
    from padiff.comparer.detail import Detail, Details
    from padiff.comparer.proving import Listing, Output
    from padiff.comparer.result import Comparison
    from padiff.dumpfile import JSON

__all__ = ["details_to_json"]

_DIGITS = 5


def details_to_json(comparison: Comparison, details: Details) -> dict[str, JSON]:
    """Give details; a record is named by its position among ``pairs`` of the report."""
    position: dict[tuple[int, int], int] = {}
    for step, compared in enumerate(comparison.steps):
        for place, pair in enumerate(compared.pairs):
            if pair.reference is not None and pair.candidate is not None:
                position[step, place] = len(position)
    return {
        "records": [_detail(found, position[found.step, found.pair]) for found in details.records],
        "attributes": [
            {
                "step": found.step,
                "row": found.row,
                "reference": strict(dict(found.reference)),
                "candidate": strict(dict(found.candidate)),
            }
            for found in details.attributes
        ],
        "left_out": details.left_out,
        "floors": [
            [position[found.step, found.pair], _short(found.max_abs)] for found in details.floors
        ],
        "programs": [
            {
                "step": found.step,
                "reference": _listing(found.reference),
                "candidate": _listing(found.candidate),
            }
            for found in details.programs
        ],
    }


def _listing(found: Listing) -> dict[str, JSON]:
    return {
        "operators": [
            {
                "operator": one.operator,
                "text": worded_call(one),
                "module": one.module,
                "call": one.call,
                "site": None if one.site is None else f"{one.site.file}:{one.site.line}",
                "outputs": [_output(each) for each in one.outputs],
            }
            for one in found.operators
        ],
        "left_out": found.left_out,
    }


def _output(found: Output) -> dict[str, JSON]:
    """Give what an operator made, with the numbers that a reader compares."""
    one = found.statistics
    numbers = {} if one is None else {"mean": one.mean, "min": one.minimum, "max": one.maximum}
    return {
        "dtype": found.dtype,
        "shape": list(found.shape),
        "numbers": {name: _short(number) for name, number in numbers.items() if number is not None},
    }


def _detail(detail: Detail, pair: int) -> dict[str, JSON]:
    return {
        "pair": pair,
        "stride": detail.stride,
        "sampled": detail.sampled,
        "histogram": None
        if detail.histogram is None
        else {
            "low": _short(detail.histogram.low),
            "high": _short(detail.histogram.high),
            "reference": list(detail.histogram.reference),
            "candidate": list(detail.histogram.candidate),
        },
        "heat": {"shape": list(detail.heat_shape), "rows": [_shorts(row) for row in detail.heat]},
        "profiles": [
            {"axis": profile.axis, "size": profile.size, "largest": _shorts(profile.largest)}
            for profile in detail.profiles
        ],
        "mismatches": [
            {
                "index": list(found.index),
                "reference": found.reference,
                "candidate": found.candidate,
            }
            for found in detail.mismatches
        ],
    }


def _shorts(values: tuple[float, ...]) -> list[JSON]:
    return [_short(value) for value in values]


def _short(value: float) -> JSON:
    """Round to what a picture can show."""
    return strict(float(f"{value:.{_DIGITS}g}"))
