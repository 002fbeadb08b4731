"""An audit as text for a terminal."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from padiff.comparer.auditing import AuditedValue, Check, Soundness
from padiff.comparer.auditing.result import Reason

from .fault_words import shown
from .numbers import factor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.comparer.auditing import Audit

    from .style import Canvas


_GLANCE = 9
"""Steps and ranks that are drawn in a glance, up to two lines each."""

_STYLES = {
    Soundness.SOUND: "bold green",
    Soundness.UNSOUND: "bold red",
    Soundness.NOT_AUDITED: "bold yellow",
    Soundness.NOT_RUN: "bold yellow",
}


def draw_audit(canvas: Canvas, audits: Mapping[str, Audit]) -> None:
    """Draw the audits of a dump."""
    for name, one in audits.items():
        canvas.line(
            f"{one.soundness.upper()}: {canvas.safe(name)}: {_looked_at(one)}",
            _STYLES[one.soundness],
        )
        if one.between_ranks:
            _draw_between_ranks(canvas, one.between_ranks)
        if one.apart:
            canvas.line(f"  the ranks were not looked at together: {canvas.safe(one.apart)}")
        if one.unsound:
            _draw_first(canvas, one)
        _draw_kinds(canvas, one)
        _draw_rest(canvas, one)


def _draw_between_ranks(canvas: Canvas, faults: Sequence[str]) -> None:
    """List what the ranks of a step show together."""
    canvas.heading("BETWEEN RANKS", f"{len(faults)} found")
    limit = canvas.max_rows or len(faults)
    for line in faults[:limit]:
        canvas.line(f"  {canvas.safe(line)}")
    if len(faults) > limit:
        canvas.line(f"  ... {len(faults) - limit} more", "dim")


def draw_audits_brief(canvas: Canvas, audits: Mapping[str, Audit]) -> None:
    """Draw a line for each step and rank with its first unsound value: at most 20 lines."""
    for name, one in list(audits.items())[:_GLANCE]:
        line = f"{one.soundness.upper()}: {canvas.safe(name)}: {_looked_at(one)}"
        canvas.line(line, _STYLES[one.soundness])
        for value in one.unsound[:1]:
            canvas.line(f"  first: {unsound_line(canvas, value)}")
    if len(audits) > _GLANCE:
        canvas.line(f"  ... {len(audits) - _GLANCE} more steps and ranks", "dim")


def unsound_line(canvas: Canvas, value: AuditedValue) -> str:
    """Return where a value is unsound and what that looks like, on one line."""
    place = canvas.safe(f"{value.operator} of {value.module or '(root)'}")
    return f"{value.check} of {place}: {looks_like(value)}"


def _looked_at(one: Audit) -> str:
    """Return what was looked at, and how much of it."""
    words = []
    for check, noun in ((Check.FORWARD, "values"), (Check.GRADIENT, "gradients")):
        sound, unsound = (
            one.count(check, answer) for answer in (Soundness.SOUND, Soundness.UNSOUND)
        )
        words.append(f"{sound + unsound} {noun} audited, {unsound} unsound")
    return f"{one.operators} operators; " + "; ".join(words)


def _draw_first(canvas: Canvas, one: Audit) -> None:
    first, *others = one.unsound
    canvas.heading("FIRST UNSOUND", str(first.check))
    site = first.site
    facts = [
        ("operator", canvas.safe(first.operator)),
        ("module", canvas.safe(f"{first.module or '(root)'}  {first.class_name}")),
    ]
    if site is not None:
        facts.append(
            ("called at", canvas.safe(f"{shown(site.file)}:{site.line} in {site.function}"))
        )
    facts += [
        ("tensor", f"{first.dtype} {first.shape}"),
        ("error", _error(first)),
        ("looks like", looks_like(first)),
    ]
    if first.readers:
        readers = (f"{one.operator} of {one.module or '(root)'}" for one in first.readers)
        facts.append(("made by", canvas.safe(f"the backward pass of {'; or '.join(readers)}")))
    if first.operators > 1:
        facts.append(("slice", f"{first.operators} operators from the last recorded elements"))
    canvas.facts(facts)
    if others:
        canvas.heading("ALSO UNSOUND")
        rows = [
            [canvas.safe(each.module or "(root)"), canvas.safe(_short(each.operator)),
             str(each.check), _times(each), looks_like(each)]
            for each in others
        ]  # fmt: skip
        header = ["module", "operator", "of", "times its rounding", "looks like"]
        canvas.table(header, rows, wrapping=("module", "looks like"))


def _error(one: AuditedValue) -> str:
    if one.error is None or one.largest is None:
        return _times(one)
    return f"{_times(one)} times its rounding, largest {one.largest:.3g}"


def _times(one: AuditedValue) -> str:
    return "not measured" if one.error is None else f"{one.error:.3g}"


def looks_like(one: AuditedValue) -> str:
    """Return what an unsound value looks like, in a few words."""
    if one.reason is Reason.SCALED and one.factor is not None:
        return f"{factor(one.factor)} times what its program says"
    return str(one.reason)


def _short(operator: str) -> str:
    return operator.rpartition(".")[2]


def _draw_kinds(canvas: Canvas, one: Audit) -> None:
    """Draw the largest error of each kind of operator."""
    errors: dict[str, list[float]] = defaultdict(list)
    for value in one.values:
        if value.check is Check.FORWARD and value.error is not None:
            errors[_short(value.operator)].append(value.error)
    if not errors:
        return
    canvas.heading(
        "OPERATORS", "error in units of what rounding does to each element; up to 8 is sound"
    )
    rows = [
        [
            canvas.safe(name),
            str(len(found)),
            f"{sorted(found)[len(found) // 2]:.2g}",
            f"{max(found):.2g}",
        ]
        for name, found in sorted(errors.items(), key=lambda item: -max(item[1]))
    ]
    canvas.table(["kind", "audited", "median", "largest"], rows)


def _draw_rest(canvas: Canvas, one: Audit) -> None:
    """Draw what was not audited, and why."""
    why = Counter(each.reason for each in one.values if each.soundness is Soundness.NOT_AUDITED)
    opaque = ", ".join(f"{_short(name)} {count}" for name, count in one.opaque.items())
    lines = [f"{count} values: {reason}" for reason, count in why.items()]
    lines += [f"opaque operators: {opaque}"] if opaque else []
    lines += (
        [f"{one.random} random operators: their outcomes are taken as they are"]
        if one.random
        else []
    )
    lines += (
        [f"{one.holes} holes: floating-point values that came from nowhere"] if one.holes else []
    )
    if lines:
        canvas.heading("NOT AUDITED")
        for line in lines:
            canvas.line(f"  {canvas.safe(line)}")
    if why[Reason.NO_ELEMENTS]:
        canvas.line(
            "  hint: record with `--content operators` to audit each operator by itself", "dim"
        )
