"""The first line of every report: the verdict, and what it is a verdict on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.result import Looked, Verdict

from .numbers import plural

if TYPE_CHECKING:
    from padiff.comparer.result import Scope

__all__ = ["match_words", "verdict_line"]

INCONCLUSIVE = "INCONCLUSIVE: nothing of what the model gives was judged"


def verdict_line(verdict: str, scope: Scope) -> str:
    """Return the verdict with what was looked at; of what diverged the report tells itself."""
    if verdict == Verdict.INCONCLUSIVE:
        return INCONCLUSIVE
    return match_words(scope) if verdict == Verdict.MATCH else "DIVERGED"


def match_words(scope: Scope) -> str:
    """Return what matches, and no more than was looked at."""
    return f"MATCH{_extent(scope)}: {_counted(scope)}{_proven(scope)}{_left(scope)}"


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
        return f"; same function, same leaves, sound execution{whose}{steps}"
    return ""


def _steps(count: int, scope: Scope) -> str:
    return "" if count == scope.steps else f" in {count} of {scope.steps} steps"


def _left(scope: Scope) -> str:
    """Return what was not looked at."""
    if scope.looked_at is Looked.WEIGHTS:
        return "; no forward pass was recorded"
    is_lacking = scope.looked_at in {Looked.SELECTED, Looked.RECORDED}
    return "; the model's outputs were not looked at" if is_lacking else ""
