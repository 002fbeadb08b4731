"""The report as one self-contained page to explore in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from padiff.comparer.result import Entering
from padiff.dumpfile import ConfigError
from padiff.dumpfile.bulk import collector_paused

from .escape import printable
from .fields import Fields
from .headline import verdict_line
from .numbers import count, number, share
from .page_data import MANY, page_data
from .page_faults import page_faults
from .reading import read_report
from .wording import evidence, has_steps, measured, step_of, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jinja2 import Environment

    from padiff.dumpfile import JSON

    from .reading import Finding, Line, Place

__all__ = ["to_html"]

_SCRIPTS = ("uPlot.iife.min.js", "data.js", "tree.js", "panel.js", "plot.js", "main.js")
_STYLES = ("uPlot.min.css", "page.css")
_ORIGINS = 50
_PRINTED = 300
"""Diverged records that are printed."""
_CELL = 300
"""Characters of a name above the tree."""
_BAD = ("diverged", "incomparable", "missing")


@collector_paused()
def to_html(data: Mapping[str, JSON | Iterator[JSON]]) -> str:
    """Give the page for a report.

    It loads nothing, and its policy lets it run only its own script. All text of the dumps is
    escaped by the template, or set as text by the script.

    Args:
        data: The result as JSON, as ``to_json`` gives it or a file holds it, or its parts, of
            which one record is there at a time.

    Raises:
        ConfigError: The data are no report, or Jinja2 is not installed.
    """
    report = read_report(data, with_statistics=True, many=MANY)
    top = Fields(data, "report")
    steps = top.inners("steps")
    origins = list(report.origins) or ([report.first] if report.first is not None else [])
    bad = [line for line in report.lines if line.verdict in _BAD and line.fatal]
    script = "\n".join(map(_resource, _SCRIPTS))
    style = "\n".join(map(_resource, _STYLES))
    environment = _environment()
    from markupsafe import Markup  # noqa: PLC0415 -- comes with jinja2

    return environment.from_string(_resource("page.html.j2")).render(
        report=report,
        headline=verdict_line(report.verdict, report.scope).partition(": ")[::2],
        origins=origins[:_ORIGINS],
        faults=page_faults(steps, top.maybe("details")),
        evidence=evidence(report),
        has_steps=has_steps(report),
        bad=bad[:_PRINTED],
        bad_left=max(0, len(bad) - _PRINTED),
        policy=_policy(script, style),
        style=Markup(style),
        script=Markup(script),
        data=Markup(_embedded(page_data(report, top, steps, origins[:_ORIGINS]))),
    )


def _environment() -> Environment:
    """Set the template engine up; escaping is always on."""
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 -- an optional dependency
    except ImportError as error:
        raise ConfigError(
            "an HTML report needs Jinja2, which is not installed",
            hint="pip install 'padiff[html]'",
        ) from error
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["shown"] = _shown
    environment.filters["measured"] = _measured
    environment.filters["measured_line"] = _measured_line
    environment.filters["both_sides"] = _both_sides
    environment.filters["inputs"] = _inputs
    environment.filters["grouped"] = count
    environment.filters["number"] = number
    environment.globals["share"] = share
    environment.globals["when"] = when
    environment.globals["step_of"] = step_of
    return environment


class _Cell(NamedTuple):
    """What one side says."""

    text: str
    is_code: bool = False


def _inputs(found: Finding) -> str:
    """Say whether what went into an origin agrees."""
    if found.inputs_agree is None:
        return "no inputs were recorded"
    if not found.inputs_agree:
        return "inputs disagree: the fault may lie before"
    if found.entering == Entering.ARGUMENT:
        return "all tensors agree, another argument does not"
    return "all inputs agree: the fault is here"


def _both_sides(finding: Finding) -> list[tuple[str, tuple[_Cell, _Cell]]]:
    """Describe both sides of a divergence, a row for each thing there is to say."""
    ends = (finding.line.reference, finding.line.candidate)
    rows = [
        ("module", [None if end is None else end.owner for end in ends]),
        ("class", [None if end is None else end.class_name for end in ends]),
        ("tensor", [None if end is None else _form(end) for end in ends]),
    ]
    found = [
        (title, (_Cell(one or "nothing here"), _Cell(other or "nothing here")))
        for title, (one, other) in rows
    ]
    for title, what in (("called at", "call"), ("class at", "module")):
        places = [finding.sources[f"{side} {what}"] for side in ("reference", "candidate")]
        if any(places):
            texts = ["-" if one is None else f"{one.file}:{one.line}" for one in places]
            found.append((title, (_Cell(texts[0], is_code=True), _Cell(texts[1], is_code=True))))
    return found


def _form(end: Place) -> str:
    return f"{end.dtype} ({', '.join(map(str, end.shape))})"


def _measured(finding: Finding) -> str:
    return _shown(measured(finding.line) or finding.line.verdict)


def _measured_line(line: Line) -> str:
    return _shown(measured(line))


def _shown(text: str) -> str:
    shown = printable(text, ascii_only=False)
    return shown if len(shown) <= _CELL else f"{shown[:_CELL]}... ({len(shown)} characters)"


def _embedded(data: dict[str, JSON]) -> str:
    """Give the data as JSON that can stand inside a script element."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _policy(script: str, style: str) -> str:
    """Forbid everything but the one script and the one style sheet of the page."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _resource(name: str) -> str:
    place = resources.files("padiff.comparer.report").joinpath("page", name)
    return place.read_text(encoding="utf-8")
