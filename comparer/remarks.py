"""What is said of a comparison as a whole: why it diverged, and what a reader should know."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.dumpfile.manifestcodec import RECORDING
from padiff.pairing.weights.weight_plan import ASSUMED

from .decided import rests_on_execution
from .facts.arguments import inner_notes, result_notes
from .facts.attributes import attribute_notes
from .judgedpairs import remarkable
from .judging.tolerance import TolerancePolicy
from .locating.fed import read_fed
from .locating.nonfinite import nonfinite_notes
from .result import Coverage, Looked, ReasonKind, StepComparison, Verdict, VerdictReason
from .settings import LARGEST_DEFAULT
from .steps import known_notes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumpfile import Dump, StepReader
    from padiff.pairing import Pairing

    from .locating.locate import Located
    from .result import Scope
    from .settings import CompareSettings


SAME_STRUCTURE_COVERAGE = 1.0
OTHER_STRUCTURE_COVERAGE = 0.8
"""What share of the distinct values must have been judged, unless the user says otherwise: all
where both sides have the same calls; a port with another tree has calls of its own."""
EXTRA_COVERAGE = 0.5
"""As much where all values of the other side were judged: what is left are steps on the way that
only one author made a module of, as a cell that the other writes out."""


AXES = {
    f"permute {order}": f"{names[0]} on the reference, {names[1]} on the candidate"
    for order, *names in (
        ("0 2 3 1", "NCHW", "NHWC"),
        ("0 3 1 2", "NHWC", "NCHW"),
        ("0 2 3 4 1", "NCDHW", "NDHWC"),
        ("0 4 1 2 3", "NDHWC", "NCDHW"),
    )
}
"""What orders of axes are called, by the rule."""

UNRECORDED = "nothing that the model gives was recorded, and no loss"
"""Why a comparison is inconclusive where there is nothing to judge."""

LOSS = "loss: "
"""How the recorder's note begins on outputs that the loss leaves out."""
STALE = "had a gradient before recording began"
"""What the recorder notes of gradients that were not cleared."""


def name_of_place(place: tuple[int, int]) -> str:
    """Name a step and rank."""
    return f"step {place[0]}" + (f" rank {place[1]}" if place[1] else "")


def notes_of_step(
    known: StepReader, found: StepReader, pairing: Pairing, located: Located
) -> tuple[str, ...]:
    """Return the notes on a step."""
    return (
        *pairing.notes,
        *_output_notes(known, pairing),
        *result_notes(pairing, (known.index, found.index)),
        *inner_notes(
            pairing, (known.index, found.index), is_same=known.framework == found.framework
        ),
        *known_notes(located.pairs),
        *nonfinite_notes(known.index, found.index),
        *attribute_notes(
            pairing,
            (known.index, found.index),
            (known.framework, found.framework),
            located.divergences,
        ),
    )


def _output_notes(known: StepReader, pairing: Pairing) -> tuple[str, ...]:
    """Name the layout of what the model gives, where the candidate's elements lie otherwise."""
    index = known.index
    rules = {
        (record.slot, str(pair.rule))
        for pair in pairing.records
        for record in (index.records[pair.reference[0]],)
        if pair.rule.steps and record.role is Role.OUTPUT and index.is_root(record)
    }
    return tuple(
        f"the model's output{slot} lies otherwise on the candidate: {rule}"
        + (f" ({AXES[rule]})" if rule in AXES else "")
        for slot, rule in sorted(rules)
    )


def decide(reasons: list[VerdictReason], scope: Scope) -> tuple[Verdict, list[VerdictReason]]:
    """Return the verdict on the whole, and why it is no match."""
    if reasons:
        return Verdict.DIVERGED, reasons
    if scope.looked_at is not Looked.NOTHING:
        return Verdict.MATCH, []
    why = [f"an output of the model was not judged: {reason}" for reason in scope.unjudged]
    return Verdict.INCONCLUSIVE, [
        VerdictReason(ReasonKind.UNJUDGED, line) for line in why or [UNRECORDED]
    ]


def reasons_of_step(step: StepComparison, settings: CompareSettings) -> list[VerdictReason]:
    """Explain why a step diverged, one line for each kind of trouble."""
    counts = Counter(pair.verdict for _, pair in remarkable(step.pairs) if pair.fatal)
    words = (
        (Verdict.DIVERGED, ReasonKind.DIVERGED, "diverged"),
        (Verdict.INCOMPARABLE, ReasonKind.INCOMPARABLE, "cannot be compared (shape or dtype)"),
        (Verdict.MISSING, ReasonKind.MISSING, "lack a counterpart"),
    )
    lines = [
        _of_step(
            step,
            kind,
            f"{counts[verdict]} {'record' if counts[verdict] == 1 else 'records'} {word}",
        )
        for verdict, kind, word in words
        if counts[verdict]
    ]
    if rests_on_execution(step, settings):
        return lines  # whatever was recorded, all that the results are made of was looked at
    both = step.coverage_reference, step.coverage_candidate
    sides = (("reference", *both), ("candidate", *both[::-1]))
    gated = [
        (side, found, _gate(step, settings, is_other_whole=other.fraction == 1.0))
        for side, found, other in sides
    ]
    return lines + [
        _gap(step, side, found, gate) for side, found, gate in gated if found.fraction < gate
    ]


def _of_step(step: StepComparison, kind: ReasonKind, detail: str) -> VerdictReason:
    where = name_of_place((step.step, step.rank))
    return VerdictReason(kind, f"{where}: {detail}", step.step, step.rank, detail)


def _gate(step: StepComparison, settings: CompareSettings, *, is_other_whole: bool) -> float:
    """Return the share of one side's values that must have been judged."""
    if settings.min_coverage is not None:
        return settings.min_coverage
    if step.same_structure:
        return SAME_STRUCTURE_COVERAGE
    return EXTRA_COVERAGE if is_other_whole else OTHER_STRUCTURE_COVERAGE


def _gap(step: StepComparison, side: str, found: Coverage, gate: float) -> VerdictReason:
    return _of_step(
        step,
        ReasonKind.COVERAGE,
        f"only {found.judged} of {found.total} values of the {side} were judged, "
        f"{found.fraction:.1%} where {gate:.0%} are required",
    )


def notes_of_run(
    reference: Dump,
    candidate: Dump,
    settings: CompareSettings,
    *,
    used_rules: Iterable[int],
    used_allowances: frozenset[str],
) -> tuple[str, ...]:
    """Remark on options that had no effect and on runs that were set up differently.

    Args:
        reference: The dump held to be right.
        candidate: The other.
        settings: What the user asked for.
        used_rules: Positions of the tolerance rules that named a pair in any step.
        used_allowances: Patterns of ``allow_missing`` that excused something in any step.
    """
    notes = []
    policy = TolerancePolicy(rules=settings.rules)
    if settings.is_below_defaults:
        notes.append(
            f"atol {settings.atol:g} alone only loosens, and defaults by dtype are up to "
            f"{LARGEST_DEFAULT:g}: with an rtol beside it, both are taken literally"
        )
    notes += [f"the tolerance rule {rule!r} named no pair" for rule in policy.unused(used_rules)]
    notes += [
        f"--allow-missing {pattern!r} excused nothing"
        for pattern in settings.allow_missing
        if pattern not in used_allowances
    ]
    known, found = reference.manifest, candidate.manifest
    notes += read_fed(found).notes(reference.path.name)
    for side, mine, other in (("reference", known, found), ("candidate", found, known)):
        told = [
            note
            for note in mine.notes
            if (STALE in note or ASSUMED in note or note.startswith(LOSS))
            and note not in other.notes
        ]
        told += [note for note in mine.notes if note.startswith(RECORDING)]
        if mine.incomplete:
            told.insert(0, f"incomplete, its recording did not finish: {mine.incomplete}")
        notes += [f"{side}: {note}" for note in told]
    for name in ("training", "phase", "dtype", "seed"):
        before, after = getattr(known, name), getattr(found, name)
        if before != after:
            notes.append(f"recorded differently: {name} {before} against {after}")
    return tuple(notes)
