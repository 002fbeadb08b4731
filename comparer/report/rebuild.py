"""The comparison that a JSON report was made of, as far as the terminal's report shows it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

from padiff.comparer.result import (
    CallPlace,
    Comparison,
    Coverage,
    Divergence,
    Endpoint,
    Entering,
    JudgedPair,
    Kind,
    Metrics,
    NodeRow,
    PairedCalls,
    PairedModules,
    StepComparison,
    Tolerance,
    Verdict,
)
from padiff.dumpfile import (
    Address,
    ConfigError,
    Manifest,
    Phase,
    Role,
    SourceLine,
    Statistics,
)
from padiff.dumpfile.bulk import collector_paused
from padiff.pairing import PairedBy

from .fields import Fields
from .json_scope import read_scope

if TYPE_CHECKING:
    from enum import StrEnum

    from padiff.dumpfile import JSON

__all__ = ["rebuild"]

_Word = TypeVar("_Word", bound="StrEnum")
_Place = tuple[int, int]
_INDEXES = frozenset({"max_abs_index", "max_rel_index"})
_COVERED = "covered"


@collector_paused()
def rebuild(data: JSON) -> Comparison:
    """Put a comparison together from its report.

    What no report shows is left out: attributes of pairs that only the comparison needed, and the
    inherited divergences, of which there are as many as before but none is told apart.

    Raises:
        ConfigError: It is no report, or one of another schema.
    """
    top = Fields(data, "report")
    pairs = _pairs(top)
    modules = tuple(map(_paired_modules, top.inners("pairing")))
    has_calls = "call_pairing" in top.names  # reports of old have none
    calls = tuple(map(_paired_calls, top.inners("call_pairing"))) if has_calls else ()
    origins = [_divergence(found, pairs) for found in _findings(top)]
    coverage = top.inner("coverage")
    steps = []
    for number, step in enumerate(top.inners("steps")):
        place = step.integer("step"), step.integer("rank")
        own = [found for found in origins if _place(found.pair) == place]
        sides = [_coverage(coverage.inner(name)) for name in ("reference", "candidate")]
        if number:  # a report holds the sums of all steps
            sides = [Coverage(judged=0, total=0)] * 2
        steps.append(
            StepComparison(
                step=place[0],
                rank=place[1],
                pairs=tuple(pairs[place]),
                divergences=(
                    *own,
                    *_inherited(pairs[place], step.integer("divergences") - len(own)),
                ),
                tree=tuple(map(_row, step.inners("tree"))),
                coverage_reference=sides[0],
                coverage_candidate=sides[1],
                same_structure=step.flag("same_structure"),
                pairing=modules,
                calls=calls,
            )
        )
    settings = top.inner("settings")
    return Comparison(
        verdict=_word(Verdict, top.text("verdict")),
        reasons=top.texts("reasons"),
        reference=_manifest(top.inner("reference")),
        candidate=_manifest(top.inner("candidate")),
        steps=tuple(steps),
        settings={name: settings.raw(name) for name in settings.names},
        scope=read_scope(top),
        notes=top.texts("notes"),
    )


def _word(kind: type[_Word], text: str) -> _Word:
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(
            f"cannot read the report: expected one of {known}, found {text!r}"
        ) from None


def _place(pair: JudgedPair) -> _Place:
    end = pair.reference or pair.candidate
    if end is None:
        raise ConfigError("the report has a record that is on neither side")
    return end.address.step, end.address.rank


def _pairs(top: Fields) -> dict[_Place, list[JudgedPair]]:
    """Give all records by step and rank: pairs, then those of one side only."""
    found: dict[_Place, list[JudgedPair]] = defaultdict(list)
    alone = top.inner("unmatched")
    for pair in (
        *map(_pair, top.each("pairs")),
        *(_alone(entry, is_reference=True) for entry in alone.each("reference")),
        *(_alone(entry, is_reference=False) for entry in alone.each("candidate")),
    ):
        found[_place(pair)].append(pair)
    return found


def _pair(entry: Fields) -> JudgedPair:
    kind, by, rests_on = (
        entry.maybe_text("kind"),
        entry.maybe_text("paired_by"),
        entry.text("rests_on"),
    )
    equal = entry.flag("equal_digest")
    names = entry.names
    return JudgedPair(
        reference=_endpoint(entry.maybe("reference")),
        candidate=_endpoint(entry.maybe("candidate")),
        verdict=_word(Verdict, entry.text("verdict")),
        kind=None if kind is None else _word(Kind, kind),
        metrics=_metrics(entry.maybe("metrics")),
        tolerance=_tolerance(entry.maybe("tolerance")),
        paired_by=None if by is None else _word(PairedBy, by),
        layout=entry.text("layout"),
        candidate_layout=entry.text("candidate_layout") if "candidate_layout" in names else "",
        equal_digest=equal,
        fatal=entry.flag("fatal"),
        reason=entry.text("reason"),
        by_statistics=rests_on == "statistics",
        by_digest=rests_on == "digest" and not equal,
        by_execution="by_execution" in names and entry.flag("by_execution"),
        sampled_of=entry.maybe_integer("sampled_of") if "sampled_of" in names else None,
    )


def _alone(entry: Fields, *, is_reference: bool) -> JudgedPair:
    end = _endpoint(entry)
    kind = entry.maybe_text("kind") if "kind" in entry.names else None
    return JudgedPair(
        reference=end if is_reference else None,
        candidate=None if is_reference else end,
        verdict=_word(Verdict, entry.text("verdict")),
        kind=None if kind is None else _word(Kind, kind),
        fatal=entry.flag("fatal"),
        reason=entry.text("reason"),
        covered=entry.flag("covered"),
    )


def _endpoint(entry: Fields | None) -> Endpoint | None:
    if entry is None:
        return None
    return Endpoint(
        address=Address(
            step=entry.integer("step"),
            rank=entry.integer("rank"),
            module=entry.text("module"),
            class_name=entry.text("class"),
            call=entry.maybe_integer("call"),
            phase=_word(Phase, entry.text("phase")),
            role=_word(Role, entry.text("role")),
            slot=entry.text("slot"),
        ),
        order=entry.integer("order"),
        dtype=entry.text("dtype"),
        shape=entry.integers("shape"),
        statistics=_statistics(entry.maybe("statistics")),
        module_source=None,
        call_site=None,
        call=None,
        module=0,
    )


def _statistics(entry: Fields | None) -> Statistics | None:
    if entry is None:
        return None
    return Statistics(
        minimum=entry.number("minimum"),
        maximum=entry.number("maximum"),
        mean=entry.number("mean"),
        l2=entry.number("l2"),
        **{name: entry.integer(name) for name in ("nan", "posinf", "neginf", "zeros")},
    )


def _metrics(entry: Fields | None) -> Metrics | None:
    if entry is None:
        return None
    known = {field.name for field in fields(Metrics)} - {"hull"} - _INDEXES
    numbers = {name: entry.number(name) for name in entry.names if name in known}
    indexes = {
        name: None if entry.raw(name) is None else entry.integers(name)
        for name in _INDEXES.intersection(entry.names)
    }
    try:
        return Metrics(**numbers, **indexes)  # type: ignore[arg-type]
    except TypeError as error:
        raise ConfigError(f"cannot read the report: metrics lack something: {error}") from error


def _tolerance(entry: Fields | None) -> Tolerance | None:
    if entry is None:
        return None
    return Tolerance(atol=entry.number("atol") or 0.0, rtol=entry.number("rtol") or 0.0)


def _findings(top: Fields) -> tuple[Fields, ...]:
    first = top.maybe("first_divergence")
    return top.inners("origins") or (() if first is None else (first,))


def _divergence(entry: Fields, pairs: dict[_Place, list[JudgedPair]]) -> Divergence:
    ends = _ends(entry)
    judged_at = _ends(entry.inner("judged_at")) if "judged_at" in entry.names else None
    place = next((end.address.step, end.address.rank) for end in ends if end is not None)
    wanted = judged_at or ends
    pair = next((one for one in pairs[place] if (one.reference, one.candidate) == wanted), None)
    if pair is None:
        raise ConfigError("cannot read the report: a divergence is not among its pairs")
    source = entry.inner("source")
    sides = [
        None if end is None else _with_source(end, source.maybe(name))
        for end, name in zip(ends, ("reference", "candidate"), strict=True)
    ]
    entering = entry.maybe_text("entering")
    amplification = entry.number("amplification") if "amplification" in entry.names else None
    return Divergence(
        pair=replace(pair, reference=sides[0], candidate=sides[1], reason=entry.text("reason")),
        phase=_word(Phase, entry.text("phase")),
        kind=_word(Kind, entry.text("kind")),
        inputs_agree=entry.maybe_flag("inputs_agree"),
        entering=None if entering is None else _word(Entering, entering),
        evidence=entry.texts("evidence"),
        suspects=entry.texts("suspects"),
        amplification=amplification,
        judged_at=None if judged_at is None else pair,
    )


def _ends(entry: Fields) -> tuple[Endpoint | None, Endpoint | None]:
    return _endpoint(entry.maybe("reference")), _endpoint(entry.maybe("candidate"))


def _with_source(end: Endpoint, source: Fields | None) -> Endpoint:
    if source is None:
        return end
    return replace(
        end,
        module_source=_line(source.maybe("module")),
        call_site=_line(source.maybe("call")),
    )


def _line(entry: Fields | None) -> SourceLine | None:
    if entry is None:
        return None
    function = entry.text("function") if "function" in entry.names else ""
    return SourceLine(file=entry.text("file"), line=entry.integer("line"), function=function)


def _inherited(pairs: list[JudgedPair], count: int) -> list[Divergence]:
    """Give as many inherited divergences as there were; any of the pairs stands for each."""
    found = [pair for pair in pairs if pair.kind is Kind.INHERITED] or pairs
    return [
        Divergence(
            pair=found[number % len(found)],
            phase=Phase.FORWARD,
            kind=Kind.INHERITED,
            inputs_agree=False,
        )
        for number in range(count if found else 0)
    ]


def _row(entry: Fields) -> NodeRow:
    worst = entry.inner("worst")
    by = entry.maybe_text("paired_by")
    phases = {_word(Phase, phase): worst.text(phase) for phase in worst.names}
    return NodeRow(
        id=entry.integer("id"),
        parent=entry.maybe_integer("parent"),
        reference=entry.maybe_text("reference"),
        candidate=entry.maybe_text("candidate"),
        reference_class=entry.maybe_text("reference_class"),
        candidate_class=entry.maybe_text("candidate_class"),
        paired_by=None if by is None else _word(PairedBy, by),
        worst={
            phase: Verdict.SKIPPED if text == _COVERED else _word(Verdict, text)
            for phase, text in phases.items()
        },
        origin=entry.flag("origin"),
        inherited=entry.flag("inherited"),
        covered=frozenset(phase for phase, text in phases.items() if text == _COVERED),
    )


def _paired_modules(entry: Fields) -> PairedModules:
    return PairedModules(
        reference=entry.text("reference"),
        candidate=entry.text("candidate"),
        paired_by=_word(PairedBy, entry.text("paired_by")),
        confidence=entry.number("confidence") or 0.0,
        alternatives=entry.texts("alternatives"),
    )


def _paired_calls(entry: Fields) -> PairedCalls:
    return PairedCalls(
        reference=_call_place(entry.inner("reference")),
        candidate=_call_place(entry.inner("candidate")),
        paired_by=_word(PairedBy, entry.text("paired_by")),
        confidence=entry.number("confidence") or 0.0,
        alternatives=tuple(map(_call_place, entry.inners("alternatives"))),
    )


def _call_place(entry: Fields) -> CallPlace:
    return CallPlace(module=entry.text("module"), call=entry.integer("call"))


def _coverage(entry: Fields) -> Coverage:
    return Coverage(judged=entry.integer("judged"), total=entry.integer("total"))


def _manifest(entry: Fields) -> Manifest:
    return Manifest(
        name=entry.text("name"),
        framework=entry.text("framework"),
        framework_version=entry.text("framework_version"),
        padiff_version=entry.text("padiff_version"),
        created=entry.text("created"),
        files=(),
        device=entry.text("device"),
        dtype=entry.text("dtype"),
        training=entry.flag("training"),
        phase=_word(Phase, entry.text("phase")),
        notes=entry.texts("notes"),
    )
