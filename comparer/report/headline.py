"""The first line of every report: the verdict, and what it is a verdict on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.result import Looked, Verdict

from .numbers import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Scope

__all__ = ["folded", "match_words", "runs", "verdict_line"]

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
