"""What the script of the page works on: the report in flat tables, each string once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .page_faults import executed_differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import JSON

    from .fields import Fields
    from .reading import Finding, Line, Place, Report

__all__ = ["MANY", "page_data"]

_METRICS = (
    *("max_abs", "max_rel", "mean_abs", "relative_l2", "cosine", "mismatched", "size"),
    *("needed_atol", "needed_rtol", "nan_reference", "nan_candidate"),
    *("inf_reference", "inf_candidate", "nonfinite_mismatched"),
)
_STATISTICS = ("minimum", "maximum", "mean", "l2", "nan", "posinf", "neginf", "zeros")
MANY = 50_000
"""Records from which on those that agree have no statistics on the page."""
_DIGITS = 9
_SHADES = 99
"""Of a map of errors: more than an eye tells apart, in two characters each."""


class _Strings:
    """A table that holds each string once."""

    def __init__(self) -> None:
        self.texts: list[JSON] = []
        self._places: dict[str | None, int] = {}

    def place(self, text: str | None) -> int:
        """Give the number of a string; None is the empty one."""
        found = self._places.get(text)
        if found is None:
            if text is None:
                return self.place("")
            found = self._places[text] = len(self.texts)
            self.texts.append(text)
        return found


def page_data(
    report: Report, top: Fields, steps: Sequence[Fields], origins: list[Finding]
) -> dict[str, JSON]:
    """Give the tables.

    Args:
        report: The report, read with the statistics that the page wants.
        top: The same as JSON; details are taken from it.
        steps: Its steps; their trees are taken from them.
        origins: The divergences that the page shows, which the tables refer to.
    """
    strings = _Strings()
    numbers = {
        (step.integer("step"), step.integer("rank")): place for place, step in enumerate(steps)
    }
    records = [_record(line, numbers, strings) for line in report.lines]
    details = top.maybe("details")
    return {
        "records": list(records),
        "steps": [_step(step, strings) for step in steps],
        "details": {} if details is None else _details(details),
        "attributes": {} if details is None else _attributes(details),
        "origins": _places_of(report, origins),
        "findings": [_finding(found) for found in _raw_findings(top)[: len(origins)]],
        "floors": [] if details is None or "floors" not in details.names else details.raw("floors"),
        "pairing": _pairing(top, strings),
        "programs": _programs(details, strings),
        "slices": _slices(steps),
        "strings": strings.texts,
    }


def _record(line: Line, numbers: dict[tuple[int, int], int], strings: _Strings) -> list[JSON]:
    ends: list[JSON] = [
        None if place is None else _end(place, strings)
        for place in (line.reference, line.candidate)
    ]
    texts = ("covered" if line.covered else line.verdict, line.kind, line.reason)
    metrics: list[JSON] = [
        # A cosine is shown by its distance from 1.
        _short(line.metrics.get(name), digits=17 if name == "cosine" else _DIGITS)
        for name in _METRICS
    ]
    tolerance: list[JSON] = [_short(line.tolerance.get(name)) for name in ("atol", "rtol")]
    return [
        numbers.get((line.place.step, line.place.rank), 0),
        strings.place(line.place.phase),
        *ends,
        *map(strings.place, texts),
        metrics if line.metrics else None,
        tolerance if line.tolerance else None,
        strings.place(line.paired_by),
        strings.place(line.layout),
        strings.place(line.rests_on),
        line.sampled_of,
    ]


def _end(place: Place, strings: _Strings) -> list[JSON]:
    found: JSON = None
    if place.statistics:
        found = [_short(place.statistics.get(name)) for name in _STATISTICS]
    return [
        strings.place(place.module),
        strings.place(place.class_name),
        place.call,
        strings.place(place.role),
        strings.place(place.slot),
        place.order,
        strings.place(place.dtype),
        list(place.shape),
        found,
    ]


def _step(step: Fields, strings: _Strings) -> dict[str, JSON]:
    return {
        "step": step.integer("step"),
        "rank": step.integer("rank"),
        "rows": [_row(row, strings) for row in step.inners("tree")],
    }


def _row(row: Fields, strings: _Strings) -> JSON:
    worst = row.inner("worst")
    paths = [row.maybe_text(name) for name in ("reference", "candidate")]
    return [
        row.maybe_integer("parent"),
        *(None if path is None else strings.place(path) for path in paths),
        strings.place(row.maybe_text("reference_class")),
        strings.place(row.maybe_text("candidate_class")),
        strings.place(row.maybe_text("paired_by")),
        [[strings.place(phase), strings.place(worst.text(phase))] for phase in worst.names],
        int(row.flag("origin")) + 2 * int(row.flag("inherited")),
        list(_sources(row.inner("source"), strings)),
    ]


def _sources(source: Fields, strings: _Strings) -> list[int | None]:
    found: list[int | None] = []
    for side in ("reference", "candidate"):
        both = source.maybe(side)
        for what in ("module", "call"):
            place = None if both is None else both.maybe(what)
            text = None if place is None else f"{place.text('file')}:{place.integer('line')}"
            found.append(None if text is None else strings.place(text))
    return found


def _details(details: Fields) -> dict[str, JSON]:
    return {
        str(found.integer("pair")): {
            **{
                name: found.raw(name)
                for name in ("stride", "sampled", "histogram", "profiles", "mismatches")
                if name in found.names
            },
            "heat": _shaded(found.inner("heat")),
        }
        for found in details.inners("records")
    }


def _shaded(heat: Fields) -> JSON:
    """Give a map of errors as shades: whole numbers up to 99, None where no number is finite."""
    raw = heat.raw("rows")
    rows = [row for row in raw if isinstance(row, list)] if isinstance(raw, list) else []
    top = max((one for row in rows for one in row if isinstance(one, int | float)), default=0)
    return {
        "shape": list(heat.integers("shape")),
        "top": top,
        "rows": [[_shade(one, top) for one in row] for row in rows],
    }


def _shade(error: JSON, top: float) -> int | None:
    if not isinstance(error, int | float):
        return None
    return round(_SHADES * math.sqrt(error / top)) if top else 0


def _attributes(details: Fields) -> dict[str, JSON]:
    return {
        f"{found.integer('step')}:{found.integer('row')}": [
            found.raw("reference"),
            found.raw("candidate"),
        ]
        for found in details.inners("attributes")
    }


def _programs(details: Fields | None, strings: _Strings) -> list[JSON]:
    """Give what both sides ran, a row for each operator."""
    if details is None or "programs" not in details.names:
        return []
    return [
        [
            one.integer("step"),
            *(_listing(one.inner(side), strings) for side in ("reference", "candidate")),
        ]
        for one in details.inners("programs")
    ]


def _listing(listing: Fields, strings: _Strings) -> JSON:
    rows: list[JSON] = []
    for one in listing.inners("operators"):
        module, site = one.maybe_text("module"), one.maybe_text("site")
        rows.append(
            [
                one.integer("operator"),
                strings.place(one.text("text")),
                None if module is None else strings.place(module),
                one.integer("call"),
                None if site is None else strings.place(site),
                [
                    [
                        strings.place(each.text("dtype")),
                        list(each.integers("shape")),
                        list(each.inner("numbers").numbers(without="_index").values()),
                    ]
                    for each in one.inners("outputs")
                ],
            ]
        )
    return [rows, listing.integer("left_out")]


def _slices(steps: Sequence[Fields]) -> list[JSON]:
    """Give the operators of both sides where the programs differ, for each step."""
    found: list[JSON] = []
    for differences in map(executed_differences, steps):
        sides: list[JSON] = []
        for side in ("reference", "candidate"):
            places = (one.maybe(side) for one in differences)
            ids = {id_ for place in places if place for id_ in place.integers("slice")}
            sides.append([*sorted(ids)])
        found.append(sides)
    return found


def _raw_findings(top: Fields) -> tuple[Fields, ...]:
    first = top.maybe("first_divergence")
    return top.inners("origins") or (() if first is None else (first,))


def _finding(found: Fields) -> dict[str, JSON]:
    """Give what is known of an origin besides its record."""
    return {
        "evidence": list(found.texts("evidence")),
        "suspects": list(found.texts("suspects")),
        "inputs_agree": found.maybe_flag("inputs_agree"),
        "amplification": found.raw("amplification") if "amplification" in found.names else None,
        "owner": _owner(found) if "judged_at" in found.names else None,
    }


def _owner(found: Fields) -> str | None:
    """Give the reference's module of an origin that is not that of the record shown for it."""
    end = found.maybe("reference")
    return None if end is None else end.text("module")


def _pairing(top: Fields, strings: _Strings) -> list[JSON]:
    """Give confidence and alternatives of the module pairs that others could have been."""
    return [
        [
            strings.place(pair.text("reference")),
            strings.place(pair.text("candidate")),
            pair.number("confidence"),
            [strings.place(other) for other in pair.texts("alternatives")],
        ]
        for pair in (top.inners("pairing") if "pairing" in top.names else ())
    ]


def _places_of(report: Report, origins: list[Finding]) -> list[JSON]:
    """Find the record of each divergence."""
    wanted = {found.judged_ends for found in origins}
    places: dict[tuple[Place | None, Place | None], int] = {}
    for place, line in enumerate(report.lines if wanted else ()):
        if (ends := (line.reference, line.candidate)) in wanted:
            places[ends] = place
    return [places.get(found.judged_ends) for found in origins]


def _short(value: float | None, *, digits: int = _DIGITS) -> JSON:
    if value is None or type(value) is int or value == 0:
        return value
    if not math.isfinite(value):
        return str(value)
    return float(f"{value:.{digits}g}")
