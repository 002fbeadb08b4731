"""The whole result as strict JSON, schema ``padiff-report/1``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.comparer.result import Verdict
from padiff.dumpfile.bulk import collector_paused

from .cause_json import cause_to_json, profile_to_json
from .json_details import details_to_json
from .json_steps import steps_to_json
from .json_values import basis_to_json, metrics_to_json, source_to_json, statistics_to_json, strict
from .json_values import tolerance_to_json as _tolerance

if TYPE_CHECKING:
    from padiff.comparer.detail import Details
    from padiff.comparer.result import (
        CallPlace,
        Comparison,
        Coverage,
        Divergence,
        Endpoint,
        JudgedPair,
    )
    from padiff.dumpfile import JSON, Manifest

__all__ = ["SCHEMA", "to_json"]

SCHEMA = "padiff-report/1"


@collector_paused()
def to_json(comparison: Comparison, details: Details | None = None) -> dict[str, JSON]:
    """Give the result as values that ``json.dumps(..., allow_nan=False)`` takes.

    nan and inf become the strings ``"nan"``, ``"inf"`` and ``"-inf"``.

    Args:
        comparison: What was found.
        details: What was looked up besides, for a page that shows it.
    """
    pairs = [pair for step in comparison.steps for pair in step.pairs]
    both = [pair for pair in pairs if pair.reference is not None and pair.candidate is not None]
    first = comparison.first_divergence
    counts = Counter(pair.verdict for pair in pairs if not pair.covered)
    covered = sum(pair.covered for pair in pairs)
    return {
        "schema": SCHEMA,
        "verdict": str(comparison.verdict),
        "reasons": list(comparison.reasons),
        "reference": _manifest(comparison.reference),
        "candidate": _manifest(comparison.candidate),
        "settings": {name: strict(value) for name, value in comparison.settings.items()},
        "coverage": _coverages(comparison),
        "counts": {**{str(verdict): counts[verdict] for verdict in Verdict}, "covered": covered},
        "inherited": len(comparison.divergences) - len(comparison.origins),
        "first_divergence": None if first is None else _divergence(first),
        "origins": [_divergence(origin) for origin in comparison.origins],
        "pairing": _pairing(comparison),
        "call_pairing": _call_pairing(comparison),
        "pairs": [_pair(pair) for pair in both],
        "unmatched": {
            "reference": [_alone(pair, pair.reference) for pair in pairs if pair.candidate is None],
            "candidate": [_alone(pair, pair.candidate) for pair in pairs if pair.reference is None],
        },
        "notes": [
            *comparison.notes,
            *(note for step in comparison.steps for note in step.notes),
        ],
        "steps": steps_to_json(comparison),
        "details": None if details is None else details_to_json(comparison, details),
    }


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
        "metrics": metrics_to_json(pair.metrics),
        "tolerance": _tolerance(pair.tolerance),
        "source": {
            "reference": _source(pair.reference),
            "candidate": _source(pair.candidate),
        },
        "evidence": list(found.evidence),
        "suspects": list(found.suspects),
        "causes": [cause_to_json(cause) for cause in found.causes],
        "profile": [profile_to_json(axis) for axis in found.profile],
        "amplification": strict(found.amplification),
    }


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
        "fatal": pair.fatal,
        "reason": pair.reason,
    }


def _pairing(comparison: Comparison) -> list[JSON]:
    """Give the pairs of modules, those of further steps only where they differ."""
    found = dict.fromkeys(pair for step in comparison.steps for pair in step.pairing)
    return [
        {
            "reference": pair.reference,
            "candidate": pair.candidate,
            "paired_by": str(pair.paired_by),
            "confidence": round(pair.confidence, 4),
            "alternatives": list(pair.alternatives),
        }
        for pair in found
    ]


def _call_pairing(comparison: Comparison) -> list[JSON]:
    """Give the pairs of calls, those of further steps only where they differ."""
    found = dict.fromkeys(pair for step in comparison.steps for pair in step.calls)
    return [
        {
            "reference": _call(pair.reference),
            "candidate": _call(pair.candidate),
            "paired_by": str(pair.paired_by),
            "confidence": round(pair.confidence, 4),
            "alternatives": [_call(other) for other in pair.alternatives],
        }
        for pair in found
    ]


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
