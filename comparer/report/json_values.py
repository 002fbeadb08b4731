"""The small values of a report as strict JSON."""

from __future__ import annotations

import math
from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from padiff.comparer.result import Metrics
from padiff.dumpfile import Statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.judging.basis import Basis
    from padiff.comparer.result import Tolerance
    from padiff.dumpfile import JSON, SourceLine

__all__ = [
    "basis_to_json",
    "metrics_to_json",
    "source_to_json",
    "statistics_to_json",
    "strict",
    "tolerance_to_json",
]

_METRICS = tuple(field.name for field in fields(Metrics) if field.name != "hull")
_STATISTICS = tuple(field.name for field in fields(Statistics))
_metrics = attrgetter(*_METRICS)
_statistics = attrgetter(*_STATISTICS)
_PLAIN = frozenset({type(None), bool, int, str})
"""What strict JSON takes as it is."""


def strict(value: JSON | tuple[int, ...]) -> JSON:
    """Replace nan and inf by their names.

    >>> strict([1.5, float("inf"), (2, 3)])
    [1.5, 'inf', [2, 3]]
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, tuple | list):
        return [strict(part) for part in value]
    if isinstance(value, dict):
        return {name: strict(part) for name, part in value.items()}
    return value


def metrics_to_json(metrics: Metrics | None) -> dict[str, JSON] | None:
    """Give all that was measured."""
    if metrics is None:
        return None
    found = _named(_METRICS, _metrics(metrics))
    found["mismatched_share"] = metrics.mismatched_share
    return found


def tolerance_to_json(tolerance: Tolerance | None) -> dict[str, JSON] | None:
    """Give both tolerances."""
    if tolerance is None:
        return None
    return {"atol": strict(tolerance.atol), "rtol": strict(tolerance.rtol)}


def basis_to_json(basis: Basis | None) -> dict[str, JSON] | None:
    """Give what a tolerance was chosen by; the dtypes are those of the two sides."""
    if basis is None:
        return None
    return {
        "model_dtypes": list(basis.model_dtypes),
        "largest_gradient": strict(basis.largest_gradient),
        "noise": strict(basis.noise),
    }


def statistics_to_json(statistics: Statistics | None) -> dict[str, JSON] | None:
    """Give the summary of one side's elements."""
    if statistics is None:
        return None
    return _named(_STATISTICS, _statistics(statistics))


def source_to_json(place: SourceLine | None) -> dict[str, JSON] | None:
    """Give a place in source code."""
    if place is None:
        return None
    return {"file": place.file, "line": place.line, "function": place.function}


def _named(names: Sequence[str], values: Sequence[JSON | tuple[int, ...]]) -> dict[str, JSON]:
    """Put names to values, nearly all of which stay as they are."""
    found = dict(zip(names, values, strict=True))
    odd = [
        name
        for name, value in found.items()
        if not (type(value) in _PLAIN or (type(value) is float and math.isfinite(value)))
    ]
    for name in odd:
        found[name] = strict(found[name])
    return cast("dict[str, JSON]", found)
