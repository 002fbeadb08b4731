"""The report as JUnit XML: a suite for each phase, a case for each module call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from padiff.comparer.result import Kind, ReasonKind, Verdict

from .equal_ranks import cause_of, fold_origins, fold_ranks, fold_reasons
from .escape import printable
from .fault_words import evidence_of
from .wording import BAD, folded, match_words, measured, owners, what

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from padiff.comparer.result import Comparison, Divergence, Endpoint, JudgedPair
    from padiff.dumpfile import Phase

    from .equal_ranks import Repeated


_NAME_LIMIT = 500
_SHOWN = 20
"""Records that a failure names."""
_Owner = tuple[object, ...]
"""Step, rank, phase, module and call of a record."""
_TOLD = frozenset({ReasonKind.DIVERGED, ReasonKind.INCOMPARABLE, ReasonKind.MISSING})
"""Reasons that cases of calls tell, too."""
_UNJUDGED = frozenset({Verdict.SKIPPED, Verdict.MISSING})


def to_junit(comparison: Comparison) -> str:
    """Return the XML document.

    A call that holds an origin fails; one that merely inherits is skipped, and names the origin
    that comes first. The suite ``comparison`` has one case, which fails where the whole is no
    match and no call says so: for reasons that belong to no module, such as coverage. A call of
    which several ranks say the same is one case.
    """
    first = comparison.first
    blamed = "" if first is None else owners(first.pair)
    origins = {_owner(found.pair.end): found for found in reversed(comparison.origins)}
    by_phase: dict[Phase, list[JudgedPair]] = {}
    for pair in comparison.pairs:
        by_phase.setdefault(pair.end.address.phase, []).append(pair)
    suites = [_suite(phase, pairs, origins, blamed) for phase, pairs in by_phase.items()]
    failures = sum(int(suite.get("failures", "0")) for suite in suites)
    is_told = failures >= max(1, len(fold_origins(comparison)) if origins else 0)
    suites.insert(0, _whole(comparison, is_told=is_told))
    root = ET.Element("testsuites", name="padiff")
    for name in ("tests", "failures", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("errors", "0")
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _whole(comparison: Comparison, *, is_told: bool) -> ET.Element:
    """Return the suite of the verdict.

    Args:
        comparison: What was found.
        is_told: Whether calls fail, and so tell of the records that diverged.
    """
    case = _case("verdict", "padiff.comparison")
    verdict = comparison.verdict
    told = _TOLD if is_told else frozenset()
    reasons = fold_reasons([one for one in comparison.reasons if one.kind not in told])
    if verdict is not Verdict.MATCH and (reasons or not is_told):
        _add(case, "failure", verdict, "\n".join(map(_text, reasons)), verdict)
    else:
        is_match = verdict is Verdict.MATCH
        said = match_words(comparison.scope) if is_match else f"{verdict}: see the calls that fail"
        ET.SubElement(case, "system-out").text = _text(said)
    return _closed("comparison", [case])


def _suite(
    phase: Phase,
    pairs: Sequence[JudgedPair],
    origins: Mapping[_Owner, Divergence],
    blamed: str,
) -> ET.Element:
    """Group the records of a phase by module call."""
    calls: dict[tuple[object, ...], list[JudgedPair]] = {}
    for pair in pairs:
        ends = [
            None if end is None else (end.address.module, end.address.call)
            for end in (pair.reference, pair.candidate)
        ]
        calls.setdefault((*_step(pair), *ends), []).append(pair)
    several = len(set(map(_step, pairs))) > 1
    found = [
        _Call(
            place=(step, *ends),
            rank=held[0].end.address.rank,
            pairs=held,
            origin=origins.get(_owner(held[0].end)),
        )
        for (step, _, *ends), held in calls.items()
    ]
    cases = []
    for told in fold_ranks(found, _said, lambda call: call.rank):
        call = told.first
        name = owners(call.pairs[0] if call.origin is None else call.origin.pair)
        name += " (parameters)" if call.pairs[0].end.address.call is None else ""
        if several:
            name += f" [step {call.place[0]} {folded(told.ranks)}]"
        case = _case(name, f"padiff.{phase}")
        _judge(case, told, blamed)
        cases.append(case)
    return _closed(phase, cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """What was judged of a call on one rank."""

    place: tuple[object, ...]
    """Step, and module and call of both sides."""
    rank: int
    pairs: Sequence[JudgedPair]
    origin: Divergence | None


def _said(call: _Call) -> Hashable:
    """Return what is said of a call, without the rank and without numbers."""
    if call.origin is not None:
        return (call.place, cause_of(call.origin))
    return (call.place, *map(_verdict, call.pairs))


def _verdict(pair: JudgedPair) -> Hashable:
    reason = pair.reason if pair.verdict in _UNJUDGED else ""
    return (what(pair.end), pair.verdict, pair.kind, pair.fatal, pair.covered, reason)


def _step(pair: JudgedPair) -> tuple[int, int]:
    return pair.end.address.step, pair.end.address.rank


def _owner(end: Endpoint) -> _Owner:
    at = end.address
    return at.step, at.rank, at.phase, at.module, at.call


def _judge(case: ET.Element, told: Repeated[_Call], blamed: str) -> None:
    """Let a case fail that holds an origin, and skip one that inherits or was not judged."""
    pairs, origin = told.first.pairs, told.first.origin
    bad = [pair for pair in pairs if pair.verdict in BAD and pair.fatal]
    counted = f"{len(bad)} of {len(pairs)} records {bad[0].verdict}" if bad else ""
    shown = [_describe(pair) for pair in bad[:_SHOWN]]
    if len(bad) > _SHOWN:
        shown.append(f"and {len(bad) - _SHOWN} more")
    if len(told.ranks) > 1:
        shown.append(f"on each of {folded(told.ranks)}, shown as on rank {told.first.rank}")
    own = next((pair for pair in bad if pair.kind is not Kind.INHERITED), None)
    if origin is not None:
        said = evidence_of(origin)
        message = next(iter(said), counted or origin.pair.reason)
        _add(
            case, "failure", f"origin: {message}", "\n".join([*map(_text, said), *shown]), "origin"
        )
    elif own is not None:
        kind = own.kind or own.verdict
        _add(case, "failure", f"{kind}: {counted}", "\n".join(shown), kind)
    elif bad:
        _add(case, "skipped", f"inherited from {blamed}: {counted}")
    elif all(pair.verdict in _UNJUDGED and not pair.covered for pair in pairs):
        _add(case, "skipped", pairs[0].reason or pairs[0].verdict)


def _describe(pair: JudgedPair) -> str:
    return _text(f"{what(pair.end)}: {pair.verdict}  {measured(pair)}".rstrip())


def _case(name: str, class_name: str) -> ET.Element:
    text = _text(name)
    if len(text) > _NAME_LIMIT:
        text = f"{text[:_NAME_LIMIT]}... ({len(text)} characters)"
    return ET.Element("testcase", name=text, classname=_text(class_name), time="0")


def _add(case: ET.Element, tag: str, message: str, text: str = "", kind: str = "") -> None:
    child = ET.SubElement(case, tag, message=_text(message))
    if kind:
        child.set("type", kind)
    child.text = text or None


def _closed(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=_text(name), tests=str(len(cases)))
    suite.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    suite.set("errors", "0")
    suite.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
    suite.set("time", "0")
    suite.extend(cases)
    return suite


def _text(text: str) -> str:
    """Escape what XML 1.0 forbids, which is a part of what cannot be printed."""
    return printable(text, ascii_only=False)
