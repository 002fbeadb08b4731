"""The report as one self-contained page to explore in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from padiff.comparer.proving import Edit
from padiff.comparer.result import Entering
from padiff.dumpfile import ConfigError
from padiff.dumpfile.bulk import collector_paused

from .equal_ranks import count_origins, fold_origins, fold_pairs, fold_reasons
from .escape import printable
from .fault_words import evidence_of, worded_call, worded_edit
from .numbers import count, number, share
from .page_data import executed_differences, numbers_of, page_data
from .wording import (
    BAD,
    describe_dump,
    evidence,
    folded,
    has_steps,
    measured,
    owner,
    owners,
    step_of,
    verdict_line,
    what,
    when,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.comparer.proving import Listed, Listing, Output, Place
    from padiff.comparer.result import Comparison, Divergence, Endpoint, JudgedPair, StepComparison
    from padiff.dumpfile import JSON

    from .page_data import Difference

_SCRIPTS = (
    "uPlot.iife.min.js",
    "basics.js",
    "data.js",
    "tree.js",
    "panel.js",
    "plot.js",
    "main.js",
)
_STYLES = ("uPlot.min.css", "page.css")
_ORIGINS = 50
_PRINTED = 300
"""Diverged records that are printed."""
_OPERATORS = 30
"""Of a slice that are shown."""
_FAULTS = 50


@collector_paused()
def to_html(comparison: Comparison) -> str:
    """Return the page.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    origins = fold_origins(comparison)[:_ORIGINS]
    bad = [pair for pair in comparison.pairs if pair.verdict in BAD and pair.fatal]
    printed = fold_pairs(bad)[:_PRINTED]
    return render_page(
        "page.html.j2",
        scripts=_SCRIPTS,
        styles=_STYLES,
        data=page_data(comparison, [told.first for told in origins]),
        filters={
            "measured": _measured,
            "evidence": evidence_of,
            "owners": owners,
            "what": _what,
            "both_sides": _both_sides,
            "inputs": _inputs,
        },
        **head_of(comparison),
        origins=origins,
        faults=_faults(comparison)[:_FAULTS],
        has_steps=has_steps(comparison),
        bad=printed,
        bad_left=len(bad) - sum(len(told.ranks) for told in printed),
        when=when,
        step_of=step_of,
    )


def head_of(comparison: Comparison) -> dict[str, object]:
    """Return what ``head.html.j2`` tells: the verdict, both sides, and how much was judged."""
    return {
        "report": comparison,
        "reasons": fold_reasons(comparison.reasons),
        "origins_counted": count_origins(comparison),
        "inherited": comparison.count_inherited(),
        "headline": verdict_line(comparison.verdict, comparison.scope).partition(": ")[::2],
        "evidence": evidence(comparison),
    }


class _Cell(NamedTuple):
    """What one side says."""

    text: str
    is_code: bool = False


def _what(pair: JudgedPair) -> str:
    return what(pair.end)


def _inputs(found: Divergence) -> str:
    """Return whether what went into an origin agrees."""
    if found.inputs_agree is None:
        return "no inputs were recorded"
    if not found.inputs_agree:
        return "inputs disagree: the fault may lie before"
    if found.entering is Entering.ARGUMENT:
        return "all tensors agree, another argument does not"
    return "all inputs agree: the fault is here"


def _both_sides(found: Divergence) -> list[tuple[str, tuple[_Cell, _Cell]]]:
    """Describe both sides of a divergence, a row for each thing there is to say."""
    ends = (found.pair.reference, found.pair.candidate)
    rows = [
        ("module", [None if end is None else owner(end) for end in ends]),
        ("class", [None if end is None else end.address.class_name for end in ends]),
        ("tensor", [None if end is None else _form(end) for end in ends]),
    ]
    cells = [
        (title, (_Cell(one or "nothing here"), _Cell(other or "nothing here")))
        for title, (one, other) in rows
    ]
    lines = (
        ("called at", [None if end is None else end.call_site for end in ends]),
        ("class at", [None if end is None else end.module_source for end in ends]),
    )
    for title, places in lines:
        if any(places):
            one, other = (
                _Cell("-" if place is None else str(place), is_code=True) for place in places
            )
            cells.append((title, (one, other)))
    return cells


def _form(end: Endpoint) -> str:
    return f"{end.dtype} ({', '.join(map(str, end.shape))})"


def _measured(pair: JudgedPair) -> str:
    return shown(measured(pair) or pair.verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """An operator of a slice."""

    text: str
    """The call."""
    where: str
    """Its module and line."""
    made: tuple[str, ...]
    """What it made, a line for each value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """One side of a fault."""

    side: str
    module: str | None
    """Where the fault is in the module tree; None where the side has no part in it."""
    rows: tuple[_Row, ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """A proved edit, or where the programs part if none was found."""

    text: str
    influence: float | None
    """By how much of its size it alone moves the result; None where that was not measured."""
    is_asked: bool
    """Whether a result was asked for."""
    step: int
    """Position among the steps, of the first where it is."""
    ends: tuple[_End, _End]
    where: str = ""
    """In which steps and on which ranks it is, if in several."""


def _faults(comparison: Comparison) -> list[_Fault]:
    """Return where the programs differ, with the operators of both sides beside each other.

    What is the same in a later step or on another rank is counted, not listed again.
    """
    programs = () if comparison.details is None else comparison.details.programs
    listed = {one.step: (_rows(one.reference), _rows(one.candidate)) for one in programs}
    found: dict[object, tuple[_Fault, list[StepComparison]]] = {}
    for position, step in enumerate(comparison.steps):
        for difference in executed_differences(step):
            fault = _fault(difference, position, *listed.get(position, ({}, {})))
            places = (difference.reference, difference.candidate)
            key = (
                fault.text,
                *((one.module, one.operator, one.site) if one else None for one in places),
            )
            found.setdefault(key, (fault, []))[1].append(step)
    return [replace(fault, where=_where(steps)) for fault, steps in found.values()]


def _where(found: Sequence[StepComparison]) -> str:
    """Describe in which steps and on which ranks the same is; empty of one."""
    steps, ranks = {one.step for one in found}, {one.rank for one in found}
    words = [f"in {count(len(steps))} steps"] if len(steps) > 1 else []
    if len(ranks) > 1:
        words = [*(words or [f"step {found[0].step}"]), folded(sorted(ranks))]
    return ", ".join(words)


def _fault(
    difference: Difference, step: int, reference: dict[int, _Row], candidate: dict[int, _Row]
) -> _Fault:
    text, influence = "the programs part here; no edit was found that proves why", None
    if isinstance(difference, Edit):
        several = f" ({count(difference.times)} times)" if difference.times > 1 else ""
        text = f"proved: {worded_edit(difference)}{several}"
        influence = difference.influence
    return _Fault(
        text=text,
        influence=None if influence is None else influence.relative_l2,
        is_asked=influence is not None,
        step=step,
        ends=(
            _end("reference", difference.reference, reference),
            _end("candidate", difference.candidate, candidate),
        ),
    )


def _end(side: str, place: Place | None, listed: dict[int, _Row]) -> _End:
    ids = () if place is None else place.slice
    rows = [listed[one] for one in ids if one in listed]
    return _End(
        side=side,
        module=None if place is None else place.module,
        rows=tuple(rows[:_OPERATORS]),
        left_out=len(ids) - min(len(rows), _OPERATORS),
    )


def _rows(listing: Listing) -> dict[int, _Row]:
    return {one.operator: _operator(one) for one in listing.operators}


def _operator(one: Listed) -> _Row:
    where = "outside modules" if one.module is None else one.module or "(root)"
    return _Row(
        text=f"%{one.operator} = {worded_call(one)}",
        where=where if one.site is None else f"{where}, {one.site.file}:{one.site.line}",
        made=tuple(map(_output_line, one.outputs)),
    )


def _output_line(output: Output) -> str:
    shape = ", ".join(map(str, output.shape))
    words = [f"{name} {number(value)}" for name, value in numbers_of(output.statistics).items()]
    return "  ".join([f"{output.dtype} ({shape})", *words])


_CELL = 300
"""Characters of a name."""


def render_page(
    template: str,
    *,
    scripts: Sequence[str],
    styles: Sequence[str],
    data: Mapping[str, JSON],
    filters: Mapping[str, Callable[..., object]],
    **facts: object,
) -> str:
    """Return the page: all text is escaped by the template, or set as text by the script.

    Args:
        template: Name of the file below ``page/``; so are those of scripts and styles.
        scripts: Run in their order.
        styles: Later ones win.
        data: What the scripts work on.
        filters: For the template, by name.
        facts: For the template.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    try:
        from jinja2 import (  # noqa: PLC0415 -- an optional dependency
            Environment,
            FunctionLoader,
            StrictUndefined,
        )
    except ImportError as error:
        raise ConfigError(
            "an HTML report needs Jinja2, which is not installed",
            hint="pip install 'padiff-align[html]'",
        ) from error
    from markupsafe import Markup  # noqa: PLC0415 -- comes with jinja2

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        loader=FunctionLoader(_resource),
    )
    environment.filters |= {"shown": shown, "dump": describe_dump, "grouped": count}
    environment.filters |= {"number": number, **filters}
    environment.globals["share"] = share
    script = "\n".join(map(_resource, scripts))
    style = "\n".join(map(_resource, styles))
    return environment.get_template(template).render(
        policy=_policy(script, style),
        style=Markup(style),
        script=Markup(script),
        data=Markup(_embedded(data)),
        **facts,
    )


def shown(text: str) -> str:
    """Return text of a dump as it may stand on a page: harmless, and not too long."""
    found = printable(text, ascii_only=False)
    return found if len(found) <= _CELL else f"{found[:_CELL]}... ({len(found)} characters)"


def _embedded(data: Mapping[str, JSON]) -> str:
    """Return the data as JSON that can stand inside a script element."""
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
