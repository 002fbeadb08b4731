"""The whole result as strict JSON, schema ``padiff-report/1``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from padiff.comparer.overview import remarkable_pairs, sayings
from padiff.comparer.result import Verdict
from padiff.dumpfile.bulk import collector_paused

from .fault_words import evidence_of
from .json_details import details_to_json
from .json_scope import scope_to_json
from .json_steps import steps_to_json
from .json_values import basis_to_json, metrics_to_json, source_to_json, statistics_to_json, strict
from .json_values import tolerance_to_json as _tolerance

if TYPE_CHECKING:
    from collections import Counter

    from padiff.comparer.detail import Details
    from padiff.comparer.overview import Saying
    from padiff.comparer.result import (
        CallPlace,
        Comparison,
        Coverage,
        Divergence,
        Endpoint,
        JudgedPair,
    )
    from padiff.dumpfile import JSON, Manifest

    ReportParts = dict[str, JSON | Iterator[JSON]]

__all__ = ["SCHEMA", "report_parts", "to_json"]

SCHEMA = "padiff-report/1"


@collector_paused()
def to_json(comparison: Comparison, details: Details | None = None) -> dict[str, JSON]:
    """Give the result as values that ``json.dumps(..., allow_nan=False)`` takes.

    nan and inf become the strings ``"nan"``, ``"inf"`` and ``"-inf"``.

    Args:
        comparison: What was found.
        details: What was looked up besides, for a page that shows it.
    """
    parts = report_parts(comparison, details)
    return {
        name: list(part) if isinstance(part, Iterator) else part for name, part in parts.items()
    }


def report_parts(comparison: Comparison, details: Details | None = None) -> ReportParts:
    """Give what ``to_json`` gives, in which the long lists are iterators.

    An entry of these is made when it is asked for: who leaves them alone makes no object of a pair
    that simply agrees, and who writes them never has all of them.
    """
    said = sayings(comparison.steps)
    alone = [pair for pair in remarkable_pairs(comparison.steps) if _is_alone(pair)]
    first = comparison.first_divergence
    return {
        "schema": SCHEMA,
        "verdict": str(comparison.verdict),
        "reasons": list(comparison.reasons),
        "scope": scope_to_json(comparison.scope),
        "reference": _manifest(comparison.reference),
        "candidate": _manifest(comparison.candidate),
        "settings": {name: strict(value) for name, value in comparison.settings.items()},
        "coverage": _coverages(comparison),
        "counts": _counts(said),
        "inherited": len(comparison.divergences) - len(comparison.origins),
        "first_divergence": None if first is None else _divergence(first),
        "origins": [_divergence(origin) for origin in comparison.origins],
        "pairing": _pairing(comparison),
        "call_pairing": _call_pairing(comparison),
        "pairs": (
            _pair(pair) for step in comparison.steps for pair in step.pairs if not _is_alone(pair)
        ),
        "unmatched": {
            "reference": [_alone(pair, pair.reference) for pair in alone if pair.candidate is None],
            "candidate": [_alone(pair, pair.candidate) for pair in alone if pair.reference is None],
        },
        "notes": [
            *comparison.notes,
            *(note for step in comparison.steps for note in step.notes),
        ],
        "steps": steps_to_json(comparison),
        "details": None if details is None else details_to_json(comparison, details),
    }


def _is_alone(pair: JudgedPair) -> bool:
    return pair.reference is None or pair.candidate is None


def _counts(said: Counter[Saying]) -> dict[str, JSON]:
    """Count the records by verdict, those apart whose value is judged at another address."""
    counts: dict[str, JSON] = {}
    for verdict in Verdict:
        if verdict is Verdict.INCONCLUSIVE:  # of the whole, never of a record
            continue
        counts[str(verdict)] = sum(
            number
            for saying, number in said.items()
            if saying.verdict is verdict and not saying.is_covered
        )
    covered = sum(number for saying, number in said.items() if saying.is_covered)
    return {**counts, "covered": covered}


def _manifest(manifest: Manifest) -> dict[str, JSON]:
    return {
        "name": manifest.name,
        "model": manifest.model,
        "model_class": manifest.model_class,
        "framework": manifest.framework,
        "framework_version": manifest.framework_version,
        "padiff_version": manifest.padiff_version,
        "format_version": manifest.format_version,
        "created": manifest.created,
        "device": manifest.device,
        "dtype": manifest.dtype,
        "seed": manifest.seed,
        "training": manifest.training,
        "phase": str(manifest.phase),
        "notes": list(manifest.notes),
    }


def _coverages(comparison: Comparison) -> dict[str, JSON]:
    """Give the side that is covered less, and both."""
    sides = {
        "reference": [step.coverage_reference for step in comparison.steps],
        "candidate": [step.coverage_candidate for step in comparison.steps],
    }
    sums = {name: _sum(found) for name, found in sides.items()}
    worse = min(sums.values(), key=_fraction)
    return {**worse, **sums}


def _sum(coverages: list[Coverage]) -> dict[str, JSON]:
    judged = sum(coverage.judged for coverage in coverages)
    total = sum(coverage.total for coverage in coverages)
    return {"judged": judged, "total": total, "fraction": judged / total if total else 1.0}


def _fraction(coverage: dict[str, JSON]) -> float:
    fraction = coverage["fraction"]
    return fraction if isinstance(fraction, float) else 1.0


def _divergence(found: Divergence) -> dict[str, JSON]:
    pair = found.pair
    return {
        "reference": _address(pair.reference),
        "candidate": _address(pair.candidate),
        "phase": str(found.phase),
        "kind": str(found.kind),
        "verdict": str(pair.verdict),
        "reason": pair.reason,
        "inputs_agree": found.inputs_agree,
        "entering": None if found.entering is None else str(found.entering),
        "metrics": metrics_to_json(pair.metrics),
        "tolerance": _tolerance(pair.tolerance),
        "source": {
            "reference": _source(pair.reference),
            "candidate": _source(pair.candidate),
        },
        "evidence": list(evidence_of(found)),
        "suspects": list(found.suspects),
        "amplification": strict(found.amplification),
        **({} if found.judged_at is None else {"judged_at": _ends(found.judged_at)}),
    }


def _ends(pair: JudgedPair) -> dict[str, JSON]:
    return {"reference": _address(pair.reference), "candidate": _address(pair.candidate)}


def _pair(pair: JudgedPair) -> dict[str, JSON]:
    return {
        "reference": _address(pair.reference),
        "candidate": _address(pair.candidate),
        "verdict": str(pair.verdict),
        "kind": None if pair.kind is None else str(pair.kind),
        "metrics": metrics_to_json(pair.metrics),
        "hull": [] if pair.metrics is None else [list(point) for point in pair.metrics.hull],
        "tolerance": _tolerance(pair.tolerance),
        "basis": basis_to_json(pair.basis),
        "errors": None
        if pair.errors is None
        else {
            "reference": strict(pair.errors.reference),
            "candidate": strict(pair.errors.candidate),
        },
        "paired_by": None if pair.paired_by is None else str(pair.paired_by),
        "layout": pair.layout,
        **({"candidate_layout": pair.candidate_layout} if pair.candidate_layout else {}),
        "equal_digest": pair.equal_digest,
        "rests_on": str(pair.rests_on),
        "sampled_of": pair.sampled_of,
        **({"by_execution": True} if pair.by_execution else {}),
        "fatal": pair.fatal,
        "reason": pair.reason,
    }


def _pairing(comparison: Comparison) -> Iterator[JSON]:
    """Yield the pairs of modules, those of further steps only where they differ."""
    for pair in dict.fromkeys(pair for step in comparison.steps for pair in step.pairing):
        yield {
            "reference": pair.reference,
            "candidate": pair.candidate,
            "paired_by": str(pair.paired_by),
            "confidence": round(pair.confidence, 4),
            "alternatives": list(pair.alternatives),
        }


def _call_pairing(comparison: Comparison) -> Iterator[JSON]:
    """Yield the pairs of calls, those of further steps only where they differ."""
    for pair in dict.fromkeys(pair for step in comparison.steps for pair in step.calls):
        yield {
            "reference": _call(pair.reference),
            "candidate": _call(pair.candidate),
            "paired_by": str(pair.paired_by),
            "confidence": round(pair.confidence, 4),
            "alternatives": [_call(other) for other in pair.alternatives],
        }


def _call(place: CallPlace) -> dict[str, JSON]:
    return {"module": place.module, "call": place.call}


def _alone(pair: JudgedPair, endpoint: Endpoint | None) -> dict[str, JSON]:
    address = _address(endpoint) or {}
    return {
        **address,
        "verdict": str(pair.verdict),
        "kind": None if pair.kind is None else str(pair.kind),
        "fatal": pair.fatal,
        "covered": pair.covered,
        "reason": pair.reason,
    }


def _address(endpoint: Endpoint | None) -> dict[str, JSON] | None:
    if endpoint is None:
        return None
    address = endpoint.address
    return {
        "step": address.step,
        "rank": address.rank,
        "module": address.module,
        "class": address.class_name,
        "call": address.call,
        "phase": str(address.phase),
        "role": str(address.role),
        "slot": address.slot,
        "order": endpoint.order,
        "dtype": endpoint.dtype,
        "shape": list(endpoint.shape),
        "statistics": statistics_to_json(endpoint.statistics),
    }


def _source(endpoint: Endpoint | None) -> dict[str, JSON] | None:
    """Give where the module's class and the line that called it are."""
    if endpoint is None:
        return None
    return {
        "module": source_to_json(endpoint.module_source),
        "call": source_to_json(endpoint.call_site),
    }
