"""Sentences about one record or one divergence that several formats share; not escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import sayings
from padiff.comparer.proving import Edit, Parting, UnsoundValue
from padiff.comparer.result import DECIDED, Evidence, Looked, Verdict
from padiff.dumpfile import SourceLine

from .fault_words import evidence_of
from .numbers import count, number, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.proving import Fault, Place
    from padiff.comparer.result import (
        Comparison,
        Divergence,
        Endpoint,
        JudgedPair,
        Scope,
        StepComparison,
    )
    from padiff.dumpfile import Manifest
    from padiff.program import Site

BAD = (Verdict.DIVERGED, Verdict.INCOMPARABLE, Verdict.MISSING)
"""Verdicts on a record that may make the whole diverge."""


def owner(end: Endpoint) -> str:
    """Return module path and call; ``(root)`` for the root, no call where it is the first."""
    address = end.address
    return (address.module or "(root)") + (f"#{address.call}" if address.call else "")


def owners(pair: JudgedPair) -> str:
    """Return the module and call of both sides, once where they are called the same."""
    return " = ".join(dict.fromkeys(map(owner, pair.ends)))


def what(end: Endpoint) -> str:
    """Return role and slot."""
    return f"{end.address.role}{end.address.slot}"


def verdict_of(pair: JudgedPair) -> str:
    """Return the verdict, ``covered`` where the value is judged at another address."""
    return "covered" if pair.covered else str(pair.verdict)


def word_of(counted: str) -> str:
    """Return how people are told of what ``Comparison.counts`` counts."""
    return "judged elsewhere" if counted == "covered" else counted


def measured(pair: JudgedPair) -> str:
    """Describe what was measured and allowed, or why nothing was."""
    metrics = pair.metrics
    if metrics is None:
        return pair.reason
    parts = [f"max abs {number(metrics.max_abs)}"]
    if pair.tolerance:
        parts.append(
            f"allowed {number(pair.tolerance.atol)} + {number(pair.tolerance.rtol)} * |ref|"
        )
    of = "" if pair.sampled_of is None else f", a sample of {count(pair.sampled_of)},"
    parts.append(f"{count(metrics.mismatched)} of {count(metrics.size)} elements{of} mismatched")
    return ", ".join(parts)


def origins_or_first(comparison: Comparison) -> tuple[Divergence, ...]:
    """Return the origins; the first divergence where there is none."""
    first = comparison.first_divergence
    return comparison.origins or (() if first is None else (first,))


def when(found: Divergence, ranks: Sequence[int] = (), *, has_steps: bool) -> str:
    """Describe in which phase, and in which step and on which ranks where there are several."""
    return f"{found.phase}, {step_of(found.pair, ranks)}" if has_steps else str(found.phase)


def step_of(pair: JudgedPair, ranks: Sequence[int] = ()) -> str:
    """Name the step of a record, and its rank or those that have it."""
    address = pair.end.address
    return place(address.step, ranks or (address.rank,))


def step_of_first(comparison: Comparison, steps: Sequence[StepComparison]) -> StepComparison:
    """Return of some steps and ranks the one that has the first origin, else the first."""
    first = comparison.first
    if first is None:
        return steps[0]
    at = first.pair.end.address
    found = (step for step in steps if (step.step, step.rank) == (at.step, at.rank))
    return next(found, steps[0])


def place(step: int, ranks: Sequence[int]) -> str:
    """Name a step, and ranks unless there is the first alone."""
    return f"step {step}" + ("" if tuple(ranks) == (0,) else f" {folded(ranks)}")


def each_of(step: int, ranks: Sequence[int]) -> str:
    """Name a step, and ranks of which the same is true one by one."""
    return f"step {step}, each of {folded(ranks)}" if len(ranks) > 1 else place(step, ranks)


def has_steps(comparison: Comparison) -> bool:
    """Return whether records of several steps or ranks were judged."""
    return sum(bool(step.pairs) for step in comparison.steps) > 1


def evidence(comparison: Comparison) -> str:
    """Describe what the verdicts rest on; empty where all elements were compared or bit-equal."""
    said = sayings(comparison.steps)
    counts = dict.fromkeys(Evidence, 0)
    for one, times in said.items():
        counts[one.rests_on] += times * (one.verdict in DECIDED)
    if not counts[Evidence.SAMPLE] and not counts[Evidence.STATISTICS]:
        return ""
    words = {
        Evidence.DIGEST: "digests",
        Evidence.ELEMENTS: "all elements",
        Evidence.SAMPLE: "a sample of the elements with statistics of all",
        Evidence.EXECUTION: "both programs, executed",
        Evidence.STATISTICS: "statistics only, which prove no match",
    }
    return ", ".join(f"{counts[kind]} on {text}" for kind, text in words.items() if counts[kind])


def headline(found: Divergence, ranks: Sequence[int] = (), *, has_steps: bool) -> str:
    """Name an origin, when and on which ranks it is, and what tells most."""
    pair = found.pair
    said = measured(pair) or pair.verdict
    text = f"{owners(pair)} {what(pair.end)} ({when(found, ranks, has_steps=has_steps)}): {said}"
    return text + "".join(f"; {line}" for line in evidence_of(found)[:3])


def source_of(found: Divergence) -> SourceLine | None:
    """Return where to look in the source: the line that was proved wrong, else the call's.

    The candidate's where it has one: its call, else its class; else the reference's.
    """
    sites = (_candidate_site(fault) for fault in found.faults)
    proved = next((site for site in sites if site is not None), None)
    if proved is not None:
        return SourceLine(file=proved.file, line=proved.line, function=proved.function)
    ends = (found.pair.candidate, found.pair.reference)
    lines = (end.call_site or end.module_source for end in ends if end is not None)
    return next((line for line in lines if line is not None), None)


def _candidate_site(fault: Fault) -> Site | None:
    """Return the line of the candidate's code that a fault is in."""
    if isinstance(fault, UnsoundValue):
        return fault.value.site if fault.is_candidate else None
    name = "candidate" if isinstance(fault, Edit | Parting) else "place"
    place: Place | None = getattr(fault, name, None)
    return None if place is None else place.site


def line_of(comparison: Comparison, found: Divergence | None = None) -> SourceLine:
    """Return ``source_of``, for formats in which everything stands at a line of a file.

    What has none, and the verdict itself, stand at the class of the candidate's model; what has no
    source at all, such as arrays, at the candidate's name.
    """
    source = None if found is None else source_of(found)
    if source is not None:
        return source
    ends = (pair.candidate for pair in comparison.pairs if pair.candidate is not None)
    lines = (end.module_source for end in ends if not end.address.module)
    root = next((line for line in lines if line is not None), None)
    return root or SourceLine(file=comparison.candidate.name, line=1)


def describe_dump(manifest: Manifest) -> str:
    """Describe a dump on one line."""
    words = (
        *(manifest.name, manifest.framework, manifest.framework_version),
        *(manifest.device, manifest.dtype),
    )
    return " ".join(filter(None, words))


INCONCLUSIVE = "INCONCLUSIVE: nothing of what the model gives was judged"


def verdict_line(verdict: str, scope: Scope) -> str:
    """Return the verdict with what was looked at; of what diverged the report tells itself."""
    if verdict == Verdict.INCONCLUSIVE:
        return INCONCLUSIVE
    return match_words(scope) if verdict == Verdict.MATCH else "DIVERGED"


def match_words(scope: Scope) -> str:
    """Return what matches, and no more than was looked at."""
    return (
        f"MATCH{_extent(scope)}: {_counted(scope)}{_proven(scope)}{_together(scope)}{_left(scope)}"
    )


def _extent(scope: Scope) -> str:
    """Return of what it is a match, where that is not the whole model."""
    if scope.looked_at is Looked.WEIGHTS:
        return " of the weights"
    if scope.looked_at is Looked.RECORDED:
        return " of what was recorded"
    if scope.selected:
        return f" of what was selected ({' '.join(scope.selected)})"
    if scope.by_statistics:
        return " by statistics, which prove none"
    return " by samples" if scope.is_sampled else ""


def _counted(scope: Scope) -> str:
    """Count what was judged: the model's result first."""
    counts = (
        (scope.outputs, "output"),
        (scope.weights, "weight"),
        (scope.buffers, "buffer"),
        (scope.gradients, "gradient"),
    )
    words = [plural(count, noun) for count, noun in counts if count]
    if scope.losses:
        words.insert(1 if scope.outputs else 0, "the loss")
    is_result = scope.looked_at in {Looked.RESULT, Looked.WEIGHTS}
    if not (words and is_result):
        noun = "array" if scope.looked_at is Looked.ARRAYS else "record"
        words = [plural(scope.records, noun)]
    if words[1:]:
        return f"{', '.join(words[:-1])} and {words[-1]} agree"
    return f"{words[0]} {'agrees' if words[0].startswith(('1 ', 'the ')) else 'agree'}"


def _proven(scope: Scope) -> str:
    """Return what was proved by execution, and what lies within tolerances only."""
    if scope.loosened:
        return f" within the tolerances{_steps(scope.loosened, scope)}, but the programs differ"
    if scope.hidden:
        return (
            f"; what the programs differ in, these inputs do not show{_steps(scope.hidden, scope)}"
        )
    if scope.proven:
        steps = _steps(scope.proven, scope)
        whose = " of the candidate, the reference computed again" if scope.recomputed else ""
        function = f"same function{_tolerated(scope)}, same leaves"
        if scope.not_run:
            return f"; {function}{steps}; {_not_run(scope)}"
        return f"; {function}, sound execution{whose}{steps}"
    return ""


def _tolerated(scope: Scope) -> str:
    """Return how many results executing alone does not decide."""
    if not scope.tolerated:
        return ""
    return f" ({plural(scope.tolerated, 'result')} by tolerance)"


def _not_run(scope: Scope) -> str:
    return f"{' and '.join(f'the {side}' for side in scope.not_run)} did not run"


def _together(scope: Scope) -> str:
    """Return which ranks were taken together, and so judged by tolerance."""
    sides = [f"{folded(one.ranks)} of the {one.side}" for one in scope.logical]
    return f"; {' and '.join(sides)} as one, by tolerance" if sides else ""


def folded(ranks: Sequence[int]) -> str:
    """Name ranks, runs of them by their ends.

    >>> folded((0, 1, 2, 3, 6)), folded((2,))
    ('ranks 0-3,6', 'rank 2')
    """
    return f"{'ranks' if len(ranks) > 1 else 'rank'} {runs(ranks)}"


def runs(ranks: Sequence[int]) -> str:
    """Write ranks, runs of them by their ends."""
    found: list[list[int]] = []
    for rank in sorted(ranks):
        if found and rank == found[-1][-1] + 1:
            found[-1].append(rank)
        else:
            found.append([rank])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found)


def _steps(count: int, scope: Scope) -> str:
    return "" if count == scope.steps else f" in {count} of {scope.steps} steps"


def _left(scope: Scope) -> str:
    """Return what was not looked at."""
    if scope.looked_at is Looked.WEIGHTS:
        return "; no forward pass was recorded"
    is_lacking = scope.looked_at in {Looked.SELECTED, Looked.RECORDED}
    return "; the model's outputs were not looked at" if is_lacking else ""
