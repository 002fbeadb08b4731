"""How much was compared, what was not, and under which rules."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import nearest, remarkable_pairs, sayings
from padiff.comparer.result import (
    DECIDED,
    Comparison,
    Evidence,
    JudgedPair,
    Verdict,
)
from padiff.dumpfile.manifestcodec import RUN

from .equal_ranks import count_origins, fold_ranks, fold_reasons, fold_steps
from .numbers import allowed, count, number, plural, share
from .style import DIM, Canvas
from .wording import each_of, folded, owners, verdict_line, what

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.comparer.judgedpairs import Saying
    from padiff.comparer.result import LogicalSide
    from padiff.dumpfile import JSON, Manifest


def draw_header(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the verdict, why, and what was compared with what."""
    inherited = comparison.count_inherited()
    line = verdict_line(comparison.verdict, comparison.scope)
    if comparison.verdict is Verdict.MATCH:
        canvas.line(canvas.safe(line), "bold green")
    else:
        found = f": {count_origins(comparison)}, {count(inherited)} inherited"
        found = found if comparison.origins else ""
        canvas.line(f"{line}{found}", "bold red")
        draw_reasons(canvas, comparison)
    draw_sides(canvas, comparison)


def draw_sides(canvas: Canvas, comparison: Comparison) -> None:
    """Draw what was compared with what."""
    canvas.facts(
        [
            ("reference", canvas.safe(_manifest(comparison.reference))),
            ("candidate", canvas.safe(_manifest(comparison.candidate))),
        ]
    )


def draw_reasons(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the first reasons of a verdict, or all of them."""
    reasons = fold_reasons(comparison.reasons)
    limit = 3 if not canvas.verbose else len(reasons)
    for reason in reasons[:limit]:
        canvas.line(f"  {canvas.safe(reason)}")
    if len(reasons) > limit:
        canvas.line(f"  and {plural(len(reasons) - limit, 'more reason')}", DIM)


def draw_summary(canvas: Canvas, comparison: Comparison, said: Counter[Saying]) -> None:
    """Draw counts, coverage, what was not compared, notes and settings."""
    canvas.heading("COMPARED")
    facts = [("pairs", _counts(said)), ("coverage", _coverage(comparison))]
    if any(saying.is_partial for saying in said):
        facts.insert(1, ("evidence", "\n".join(_evidence(said, comparison))))
    if comparison.scope.logical:
        facts.insert(0, ("sharded", "\n".join(map(_together, comparison.scope.logical))))
    worst = nearest(comparison.steps) if comparison.verdict is Verdict.MATCH else None
    if worst is not None and worst.metrics is not None:
        where = f"{canvas.safe(owners(worst))} {canvas.safe(what(worst.end))}"
        facts.append(
            (
                "largest",
                (
                    f"max abs {number(worst.metrics.max_abs)} at {where}, "
                    f"allowed {allowed(worst.tolerance)}"
                ),
            )
        )
    if len(comparison.steps) > 1:
        facts.append(("steps", "\n".join(_steps(comparison, limit=canvas.max_rows))))
    facts.append(("settings", canvas.safe(_settings(comparison))))
    canvas.facts(facts)
    _draw_left_out(canvas, comparison)
    if comparison.all_notes:
        canvas.heading("NOTES")
        canvas.lines([canvas.safe(note) for note in dict.fromkeys(comparison.all_notes)])


def draw_settings(canvas: Canvas, comparison: Comparison) -> None:
    """Draw counts, settings and notes alone, where there are no modules."""
    canvas.heading("COMPARED")
    settings = canvas.safe(_settings(comparison))
    canvas.facts([("arrays", _counts(sayings(comparison.steps))), ("settings", settings)])
    if comparison.notes:
        canvas.heading("NOTES")
        canvas.lines([canvas.safe(note) for note in comparison.notes])


def _manifest(manifest: Manifest) -> str:
    """Describe a dump on one line."""
    words = [
        manifest.name,
        f"{manifest.framework} {manifest.framework_version}".strip(),
        f"{manifest.device} {manifest.dtype}".strip(),
        "train" if manifest.training else "eval",
        f"recorded {manifest.created[:10]}",
    ]
    return "  ".join(word for word in words if word)


def _together(side: LogicalSide) -> str:
    """Describe which ranks were taken as one side, and how it is known how their tensors lie."""
    grids = f": {', '.join(side.meshes)}" if side.meshes else ""
    told = ", ".join(f"{count(number_)} {how}" for how, number_ in side.layouts.items())
    return f"{folded(side.ranks)} of the {side.side} as one{grids}\n  layouts: {told}"


def _counts(said: Counter[Saying]) -> str:
    """Count the pairs by verdict."""
    by_verdict: Counter[Verdict] = Counter()
    for one, number_ in said.items():
        by_verdict[one.verdict] += 0 if one.is_covered else number_
    words = [f"{count(by_verdict[v])} {v}" for v in Verdict if by_verdict[v]]
    equal = sum(number_ for one, number_ in said.items() if one.is_equal)
    if equal:
        words[0] += f" ({count(equal)} bit-equal)"
    text = ", ".join(words) or "none"
    covered = sum(number_ for one, number_ in said.items() if one.is_covered)
    if covered:
        text += f"; {plural(covered, 'record')} judged elsewhere, as the value of another module"
    return text


def _evidence(said: Counter[Saying], comparison: Comparison) -> Iterator[str]:
    """Describe what the verdicts rest on, where not all elements were recorded."""
    kinds: Counter[Evidence] = Counter()
    for one, number_ in said.items():
        kinds[one.rests_on] += number_ if one.verdict in DECIDED else 0
    words = {
        Evidence.DIGEST: "by digest (bit-equal or not)",
        Evidence.ELEMENTS: "by all elements",
        Evidence.SAMPLE: f"by a sample: {_sampled(comparison)}",
        Evidence.EXECUTION: "by executing both programs",
        Evidence.STATISTICS: "by statistics only, which prove no match",
    }
    return (f"{count(kinds[kind])} {text}" for kind, text in words.items() if kinds[kind])


def _sampled(comparison: Comparison) -> str:
    """Describe how much of the sampled tensors was compared."""
    compared = total = 0
    for pair in remarkable_pairs(comparison.steps, lambda said: said.is_partial):
        if pair.sampled_of is not None and pair.metrics is not None:
            compared += pair.metrics.size
            total += pair.sampled_of
    return f"{count(compared)} of {count(total)} elements, and statistics of all"


def _coverage(comparison: Comparison) -> str:
    """Return coverage per side, over all steps."""
    sides = (
        ("reference", comparison.coverage_reference),
        ("candidate", comparison.coverage_candidate),
    )
    return "\n".join(
        f"{side}  {count(found.judged)} of {count(found.total)} values "
        f"({share(found.judged, found.total)})"
        for side, found in sides
    )


def _steps(comparison: Comparison, *, limit: int) -> Iterator[str]:
    """Count the steps that match, and sum up each of the others; equal ranks share a line."""
    every = Counter(step.rank for step in comparison.steps)
    fine = Counter(step.rank for step in comparison.steps if not step.divergences)
    for told in fold_ranks(fine, lambda rank: (fine[rank], every[rank]), lambda rank: rank):
        where = f" on {'each of ' * (len(told.ranks) > 1)}{folded(told.ranks)}"
        yield (
            f"{plural(fine[told.first], 'step')} of {count(every[told.first])} match"
            + where * (len(every) > 1)
        )
    bad = fold_steps(step for step in comparison.steps if step.divergences)
    shown = bad[: limit or len(bad)]
    for one in shown:
        where = each_of(one.first.step, one.ranks)
        yield f"{where}: {plural(len(one.first.divergences), 'divergence')}"
    if len(bad) > len(shown):
        yield f"and {len(bad) - len(shown)} more that diverge"


_USUAL = {"execute": True, "strict": False}
"""Settings that are not worth a word."""


def _settings(comparison: Comparison) -> str:
    """Return the options that decided."""
    words = []
    if comparison.settings.get("atol") is None and comparison.settings.get("rtol") is None:
        words.append("tolerances by dtype")
    for key, value in comparison.settings.items():
        if value is None or value in ([], "", {}) or value is _USUAL.get(key):
            continue
        words.append(f"{key.replace('_', '-')} {_setting(value)}")
    return ", ".join(words) or "defaults"


def _setting(value: JSON) -> str:
    """Write one option."""
    if isinstance(value, list):
        return " ".join(str(part) for part in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else str(value)


def _draw_left_out(canvas: Canvas, comparison: Comparison) -> None:
    """List what got no verdict."""
    pairs = list(remarkable_pairs(comparison.steps, _is_left_out))
    missing = [p for p in pairs if p.verdict is Verdict.MISSING]
    skipped = [p for p in pairs if p.verdict is Verdict.SKIPPED]
    phases = list(_phases(comparison))
    if not (missing or skipped or phases):
        return
    canvas.heading("NOT COMPARED")
    canvas.lines(phases)
    if missing:
        canvas.line(f"  {plural(len(missing), 'record')} without counterpart:")
        _draw_missing(canvas, missing)
    _draw_skipped(canvas, skipped)


def _is_left_out(said: Saying) -> bool:
    is_skipped = said.verdict is Verdict.SKIPPED and not said.is_covered
    return is_skipped or said.verdict is Verdict.MISSING


def _draw_missing(canvas: Canvas, missing: list[JudgedPair]) -> None:
    """List what only one side has; what many modules or calls alike have shares a row."""
    if canvas.verbose:
        _draw_alone(canvas, "only on", missing)
        return
    groups: dict[tuple[str, str, str], list[JudgedPair]] = {}
    for pair in missing:
        groups.setdefault((_only(pair), canvas.safe(what(pair.end)), _alike(pair)), []).append(pair)
    canvas.table(
        ["only on", "what", "reason"],
        [
            [
                only,
                f"{canvas.safe(owners(found[0]))} {what}"
                + (f" and {len(found) - 1} more" if len(found) > 1 else ""),
                canvas.safe(reason if len(found) > 1 else found[0].reason),
            ]
            for (only, what, reason), found in groups.items()
        ],
        wrapping=("what", "reason"),
    )


def _alike(pair: JudgedPair) -> str:
    """Return the reason for something alone without the name of the module that it is of."""
    path = pair.end.address.module
    return pair.reason.replace(f"no call of {path!r}", "no such call")


def _draw_alone(canvas: Canvas, side: str, pairs: list[JudgedPair]) -> None:
    canvas.table(
        [side, "what", "reason"],
        [
            [
                _only(p),
                f"{canvas.safe(owners(p))} {canvas.safe(what(p.end))}",
                canvas.safe(p.reason),
            ]
            for p in pairs
        ],
        wrapping=("what", "reason"),
    )


def _draw_skipped(canvas: Canvas, skipped: list[JudgedPair]) -> None:
    """Count what was skipped by side and reason; list it only when asked."""
    if canvas.verbose and skipped:
        canvas.line(f"  {plural(len(skipped), 'record')} skipped:")
        _draw_alone(canvas, "side", skipped)
        return
    counts = Counter((_only(pair), pair.reason) for pair in skipped)
    canvas.lines(
        [
            f"{plural(number_, 'record')} skipped ({side}): {canvas.safe(reason)}"
            for (side, reason), number_ in counts.most_common()
        ],
    )


def _phases(comparison: Comparison) -> Iterator[str]:
    """Describe what the dumps do not hold at all."""
    for side, manifest in (
        ("reference", comparison.reference),
        ("candidate", comparison.candidate),
    ):
        if manifest.phase == "forward" and manifest.settings.get(RUN) is not False:
            yield f"backward: the {side} was recorded forward only"


def _only(pair: JudgedPair) -> str:
    """Return the side that has it."""
    if pair.reference is None:
        return "candidate"
    return "reference" if pair.candidate is None else "both"
