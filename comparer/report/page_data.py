"""What the script of the page works on: the report in flat tables, each string once."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

from padiff.comparer.result import Verdict
from padiff.dumpfile.strictjson import plain

from .fault_words import evidence_of, worded_call
from .wording import verdict_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.comparer.detail import Detail, Details, Spread
    from padiff.comparer.proving import Edit, FunctionComparison, Listed, Listing, UpdateComparison
    from padiff.comparer.result import (
        Comparison,
        Divergence,
        Endpoint,
        JudgedPair,
        NodeRow,
        StepComparison,
    )
    from padiff.dumpfile import JSON, SourceLine, Statistics

    Difference = Edit | FunctionComparison | UpdateComparison


_METRICS = (
    *("max_abs", "max_rel", "mean_abs", "relative_l2", "cosine", "mismatched", "size"),
    *("needed_atol", "needed_rtol", "nan_reference", "nan_candidate"),
    *("inf_reference", "inf_candidate", "nonfinite_mismatched"),
)
_STATISTICS = ("minimum", "maximum", "mean", "l2", "nan", "posinf", "neginf", "zeros")
_MANY = 50_000
"""Records from which on those that agree have no statistics on the page."""
_DIGITS = 9
_SHOWN_DIGITS = 5
"""Of what a picture shows."""
_SHADES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"
"""Of a map of errors, from none to the largest, a character each; a blank is not finite."""
_PICTURED = 50
"""Records with a map and with curves, origins first: the page of a block of a transformer stays
below 500 KiB."""
_DRAWN_DIGITS = 3
"""Of a curve, of which nobody reads a number."""


class _Strings:
    """A table that holds each string once."""

    def __init__(self) -> None:
        self.texts: list[JSON] = []
        self._places: dict[str, int] = {}

    def place(self, text: str | None) -> int:
        """Return the number of a string; None is the empty one."""
        found = self._places.setdefault(text or "", len(self.texts))
        if found == len(self.texts):
            self.texts.append(text or "")
        return found

    def maybe(self, text: str | None) -> int | None:
        """Return the number of a string, or None."""
        return None if text is None else self.place(text)


def page_data(comparison: Comparison, origins: Sequence[Divergence]) -> dict[str, JSON]:
    """Return the tables."""
    strings, steps, details = _Strings(), comparison.steps, comparison.details
    starts = list(accumulate((len(step.pairs) for step in steps), initial=0))
    is_brief = starts[-1] > _MANY
    pairing = dict.fromkeys(pair for step in steps for pair in step.pairing)
    return {
        "records": [
            _record(pair, number, strings, is_brief=is_brief)
            for number, step in enumerate(steps)
            for pair in step.pairs
        ],
        "steps": [_step(step, strings) for step in steps],
        "origins": _records_of(comparison, origins),
        "findings": [_finding(found) for found in origins],
        "pairing": [
            [
                strings.place(pair.reference),
                strings.place(pair.candidate),
                pair.confidence,
                list(map(strings.place, pair.alternatives)),
            ]
            for pair in pairing
        ],
        "slices": list(map(_slices, steps)),
        **_looked_up(details, starts, strings),
        "strings": strings.texts,
    }


def numbers_of(found: Statistics | None) -> dict[str, float]:
    """Return the statistics of what an operator made that a reader compares, by name."""
    numbers = (
        {} if found is None else {"mean": found.mean, "min": found.minimum, "max": found.maximum}
    )
    return {name: number for name, number in numbers.items() if number is not None}


def executed_differences(step: StepComparison) -> list[Difference]:
    """Return the proved edits of a step, the update's last; answers that are no without one."""
    function = None if step.executed is None else step.executed.function
    found: list[Difference] = []
    for answer in (function, None if function is None else function.update):
        if answer is not None:
            has_places = answer.reference is not None or answer.candidate is not None
            found += answer.edits or ([answer] if has_places else [])
    return found


def _record(pair: JudgedPair, step: int, strings: _Strings, *, is_brief: bool) -> list[JSON]:
    has_statistics = not (is_brief and pair.verdict is Verdict.MATCH)
    ends: list[JSON] = [
        None if end is None else _end(end, strings, has_statistics=has_statistics)
        for end in (pair.reference, pair.candidate)
    ]
    metrics = tolerance = None
    if pair.metrics is not None:
        metrics = [
            # A cosine is shown by its distance from 1.
            _short(getattr(pair.metrics, name), digits=17 if name == "cosine" else _DIGITS)
            for name in _METRICS
        ]
    if pair.tolerance is not None:
        tolerance = [_short(pair.tolerance.atol), _short(pair.tolerance.rtol)]
    return [
        step,
        strings.place(pair.end.address.phase),
        *ends,
        *map(strings.place, (verdict_of(pair), pair.kind, pair.reason)),
        metrics,
        tolerance,
        strings.place(pair.paired_by),
        strings.place(pair.layout),
        strings.place(pair.rests_on),
        pair.sampled_of,
    ]


def _end(end: Endpoint, strings: _Strings, *, has_statistics: bool) -> list[JSON]:
    at, found = end.address, end.statistics if has_statistics else None
    return [
        strings.place(at.module),
        strings.place(at.class_name),
        at.call,
        strings.place(at.role),
        strings.place(at.slot),
        end.order,
        strings.place(end.dtype),
        list(end.shape),
        None if found is None else [_short(getattr(found, name)) for name in _STATISTICS],
    ]


def _step(step: StepComparison, strings: _Strings) -> dict[str, JSON]:
    sources = _sources(step)
    return {
        "step": step.step,
        "rank": step.rank,
        "rows": [_row(row, sources, strings) for row in step.tree],
    }


_Sources = tuple[dict[str, "Endpoint"], dict[str, "Endpoint"]]
"""For each side, a record of each module path that says where it is in the source."""


def _sources(step: StepComparison) -> _Sources:
    """Find the first record of each module, one of a call before others."""
    sources: _Sources = ({}, {})
    for pair in step.pairs:
        for known, end in zip(sources, (pair.reference, pair.candidate), strict=True):
            if end is None:
                continue
            held = known.get(end.address.module)
            if held is None or (held.call_site is None and end.call_site is not None):
                known[end.address.module] = end
    return sources


def _row(row: NodeRow, sources: _Sources, strings: _Strings) -> JSON:
    paths = row.reference, row.candidate
    ends = [
        None if path is None else known.get(path)
        for known, path in zip(sources, paths, strict=True)
    ]
    lines: list[SourceLine | None] = []
    for end in ends:
        lines += (None, None) if end is None else (end.module_source, end.call_site)
    worst = {
        phase: "covered" if verdict is Verdict.SKIPPED and phase in row.covered else verdict
        for phase, verdict in row.worst.items()
    }
    return [
        row.parent,
        *map(strings.maybe, paths),
        strings.place(row.reference_class),
        strings.place(row.candidate_class),
        strings.place(row.paired_by),
        [[strings.place(phase), strings.place(verdict)] for phase, verdict in worst.items()],
        int(row.origin) + 2 * int(row.inherited),
        [strings.maybe(None if line is None else str(line)) for line in lines],
    ]


def _looked_up(
    details: Details | None, starts: Sequence[int], strings: _Strings
) -> dict[str, JSON]:
    """Return what was looked up besides the verdicts, by the numbers of records and rows."""
    if details is None:
        return {"details": {}, "attributes": {}, "floors": [], "programs": []}
    return {
        "details": {
            str(starts[found.step] + found.pair): _detail(found, is_pictured=at < _PICTURED)
            for at, found in enumerate(details.records)
        },
        "attributes": {
            f"{found.step}:{found.row}": [plain(found.reference), plain(found.candidate)]
            for found in details.attributes
        },
        "floors": [
            [starts[found.step] + found.pair, _short(found.max_abs, digits=_SHOWN_DIGITS)]
            for found in details.floors
        ],
        "programs": [
            [found.step, _listing(found.reference, strings), _listing(found.candidate, strings)]
            for found in details.programs
        ],
    }


def _detail(found: Detail, *, is_pictured: bool) -> JSON:
    spread = found.spread
    histogram = spread.histogram
    return {
        "stride": found.stride,
        "sampled": found.sampled,
        "histogram": None
        if histogram is None
        else {
            "low": _short(histogram.low, digits=_SHOWN_DIGITS),
            "high": _short(histogram.high, digits=_SHOWN_DIGITS),
            "reference": list(histogram.reference),
            "candidate": list(histogram.candidate),
        },
        "profiles": [
            {
                "axis": profile.axis,
                "size": profile.size,
                "largest": [_short(one, digits=_DRAWN_DIGITS) for one in profile.largest],
            }
            for profile in (spread.profiles if is_pictured else ())
        ],
        "mismatches": [
            [list(one.index), one.reference, one.candidate] for one in spread.mismatches
        ],
        "heat": _shaded(spread) if is_pictured else None,
    }


def _shaded(found: Spread) -> JSON:
    """Return a map of errors as shades, a string for each row."""
    finite = [one for row in found.heat for one in row if math.isfinite(one)]
    top = max(finite, default=0.0)
    return {
        "shape": list(found.heat_shape),
        "top": _short(top, digits=_SHOWN_DIGITS),
        "rows": ["".join(_shade(one, top) for one in row) for row in found.heat],
    }


def _shade(error: float, top: float) -> str:
    if not math.isfinite(error):
        return " "
    return _SHADES[round((len(_SHADES) - 1) * math.sqrt(abs(error) / top)) if top > 0 else 0]


def _listing(listing: Listing, strings: _Strings) -> JSON:
    """Return what a side ran, a row for each operator."""
    return [[_operator(one, strings) for one in listing.operators], listing.left_out]


def _operator(one: Listed, strings: _Strings) -> JSON:
    return [
        one.operator,
        strings.place(worded_call(one)),
        strings.maybe(one.module),
        one.call,
        strings.maybe(None if one.site is None else f"{one.site.file}:{one.site.line}"),
        [
            [
                strings.place(made.dtype),
                list(made.shape),
                [
                    _short(number, digits=_SHOWN_DIGITS)
                    for number in numbers_of(made.statistics).values()
                ],
            ]
            for made in one.outputs
        ],
    ]


def _slices(step: StepComparison) -> JSON:
    """Return the operators of both sides where the programs differ."""
    differences = executed_differences(step)
    sides = (
        [one.reference for one in differences],
        [one.candidate for one in differences],
    )
    return [
        [*sorted({id_ for place in places if place is not None for id_ in place.slice})]
        for places in sides
    ]


def _finding(found: Divergence) -> dict[str, JSON]:
    """Return what is known of an origin besides its record."""
    end = found.pair.reference
    return {
        "evidence": list(evidence_of(found)),
        "suspects": list(found.suspects),
        "inputs_agree": found.inputs_agree,
        "amplification": None if found.amplification is None else _short(found.amplification),
        # Where the record shown for it is another's, its own module.
        "owner": None if found.judged_at is None or end is None else end.address.module,
    }


def _records_of(comparison: Comparison, origins: Sequence[Divergence]) -> list[JSON]:
    """Find the number of the record of each divergence."""
    shown = [found.judged_at or found.pair for found in origins]
    wanted = [tuple(end and end.address for end in (one.reference, one.candidate)) for one in shown]
    numbers: Mapping[object, int] = {}
    if wanted:
        numbers = {
            tuple(end and end.address for end in (pair.reference, pair.candidate)): number
            for number, pair in enumerate(comparison.pairs)
        }
    return [numbers.get(ends) for ends in wanted]


def _short(value: float | None, *, digits: int = _DIGITS) -> JSON:
    if value is None or type(value) is int or value == 0:
        return value
    if not math.isfinite(value):
        return str(value)
    return float(f"{value:.{digits}g}")
