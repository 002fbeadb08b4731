"""The paired module trees of all steps as strict JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.facts.callerrors import call_errors
from padiff.comparer.result import Verdict

from .json_executed import execution_to_json
from .json_values import source_to_json, strict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.comparer.facts.callerrors import CallError
    from padiff.comparer.result import Comparison, Endpoint, NodeRow, StepComparison
    from padiff.dumpfile import JSON

__all__ = ["steps_to_json"]

_Places = dict[str, "Endpoint"]
"""The earliest record of each module path of one side."""


def steps_to_json(comparison: Comparison) -> Iterator[JSON]:
    """Yield one entry for each compared step and rank."""
    return (_step(step) for step in comparison.steps)


def _step(step: StepComparison) -> dict[str, JSON]:
    places = _places(step)
    executed = {} if step.executed is None else {"executed": execution_to_json(step.executed)}
    return {
        "step": step.step,
        "rank": step.rank,
        "divergences": len(step.divergences),
        "same_structure": step.same_structure,
        "tree": [_row(row, places) for row in step.tree],
        "errors": [_error(error) for error in call_errors(step)],
        **executed,
    }


def _error(error: CallError) -> dict[str, JSON]:
    """Give the error around a call."""
    return {
        "module": error.module,
        "call": error.call,
        "phase": str(error.phase),
        "entering": strict(error.entering),
        "leaving": strict(error.leaving),
        "amplification": strict(error.amplification),
    }


def _places(step: StepComparison) -> tuple[_Places, _Places]:
    """Find for each module a record that says where it is in the source, one of a call first."""
    places: tuple[_Places, _Places] = ({}, {})
    for pair in step.pairs:
        for known, end in zip(places, (pair.reference, pair.candidate), strict=True):
            if end is None:
                continue
            held = known.get(end.address.module)
            if held is None or (held.call_site is None and end.call_site is not None):
                known[end.address.module] = end
    return places


def _row(row: NodeRow, places: tuple[_Places, _Places]) -> dict[str, JSON]:
    return {
        "id": row.id,
        "parent": row.parent,
        "reference": row.reference,
        "candidate": row.candidate,
        "reference_class": row.reference_class,
        "candidate_class": row.candidate_class,
        "paired_by": None if row.paired_by is None else str(row.paired_by),
        "worst": {
            str(phase): "covered"
            if verdict is Verdict.SKIPPED and phase in row.covered
            else str(verdict)
            for phase, verdict in row.worst.items()
        },
        "origin": row.origin,
        "inherited": row.inherited,
        "source": {
            "reference": _source(row.reference, places[0]),
            "candidate": _source(row.candidate, places[1]),
        },
    }


def _source(path: str | None, places: Mapping[str, Endpoint]) -> dict[str, JSON] | None:
    end = None if path is None else places.get(path)
    if end is None:
        return None
    return {
        "module": source_to_json(end.module_source),
        "call": source_to_json(end.call_site),
    }
