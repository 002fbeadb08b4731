"""The report as JUnit XML: a suite for each phase, a case for each module call."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from .escape import printable
from .headline import match_words
from .wording import headline, measured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .reading import Finding, Line, Place, Report

__all__ = ["to_junit"]

_NAME_LIMIT = 500
_SHOWN = 20
"""Records that a failure names."""
_BAD = ("diverged", "incomparable", "missing")
_Owner = tuple[object, ...]
"""Step, rank, phase, module and call of a record of the reference."""


def to_junit(report: Report) -> str:
    """Give the XML document.

    The suite ``comparison`` has one case, which fails iff the whole diverged: also for reasons
    that belong to no module, such as coverage.
    """
    suites = [_whole(report)]
    phases = dict.fromkeys(line.place.phase for line in report.lines)
    elsewhere = {
        _owner(found.line.reference): found
        for found in report.origins
        if found.judged_at is not None and found.line.reference is not None
    }
    suites += [
        _suite(phase, [line for line in report.lines if line.place.phase == phase], elsewhere)
        for phase in phases
    ]
    root = ET.Element("testsuites", name="padiff")
    for name in ("tests", "failures", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    root.set("errors", "0")
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _whole(report: Report) -> ET.Element:
    case = _case("verdict", "padiff.comparison")
    if report.verdict != "match":
        text = "\n".join(map(_text, report.reasons))
        _add(case, "failure", report.verdict, text, kind=report.verdict)
    else:
        ET.SubElement(case, "system-out").text = _text(match_words(report.scope))
    return _closed("comparison", [case])


def _suite(phase: str, lines: Sequence[Line], elsewhere: Mapping[_Owner, Finding]) -> ET.Element:
    """Group the records of a phase by module call.

    Args:
        phase: Of all lines.
        lines: Judged records.
        elsewhere: Origins that were judged by records of other calls.
    """
    calls: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        ends = [
            None if end is None else (end.module, end.call)
            for end in (line.reference, line.candidate)
        ]
        calls.setdefault((line.place.step, line.place.rank, *ends), []).append(line)
    several = len({(line.place.step, line.place.rank) for line in lines}) > 1
    cases = []
    for found in calls.values():
        end = found[0].reference
        origin = None if end is None else elsewhere.get(_owner(end))
        cases.append(_call(phase, found, origin, with_step=several))
    return _closed(phase, cases)


def _owner(end: Place) -> _Owner:
    return end.step, end.rank, end.phase, end.module, end.call


def _call(
    phase: str, lines: Sequence[Line], origin: Finding | None, *, with_step: bool
) -> ET.Element:
    first = lines[0]
    owners = first.owners if origin is None else origin.line.owners
    name = owners + (" (parameters)" if first.place.call is None else "")
    if with_step:
        name += f" [step {first.place.step} rank {first.place.rank}]"
    case = _case(name, f"padiff.{phase}")
    bad = [line for line in lines if line.verdict in _BAD and line.fatal]
    if bad:
        kinds = {line.kind for line in bad}
        kind = "origin" if "origin" in kinds else "inherited" if "inherited" in kinds else "missing"
        message = f"{kind}: {len(bad)} of {len(lines)} records {bad[0].verdict}"
        shown = [_describe(line) for line in bad[:_SHOWN]]
        if len(bad) > _SHOWN:
            shown.append(f"and {len(bad) - _SHOWN} more")
        _add(case, "failure", message, "\n".join(shown), kind=kind)
    elif origin is not None:
        _add(
            case, "failure", f"origin: {origin.line.reason}", _text(headline(origin)), kind="origin"
        )
    elif all(line.verdict in ("skipped", "missing") and not line.covered for line in lines):
        _add(case, "skipped", lines[0].reason or lines[0].verdict, "")
    return case


def _describe(line: Line) -> str:
    return _text(f"{line.place.what}: {line.verdict}  {measured(line)}".rstrip())


def _case(name: str, class_name: str) -> ET.Element:
    text = _text(name)
    if len(text) > _NAME_LIMIT:
        text = f"{text[:_NAME_LIMIT]}... ({len(text)} characters)"
    return ET.Element("testcase", name=text, classname=_text(class_name), time="0")


def _add(case: ET.Element, tag: str, message: str, text: str, *, kind: str = "") -> None:
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
