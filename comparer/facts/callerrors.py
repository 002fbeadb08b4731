"""How the error grew, call by call: relative error of what went in and of what came out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.comparer.locating.calltree import relative_error
from padiff.comparer.result import Verdict
from padiff.dumpfile import Phase, Role

if TYPE_CHECKING:
    from padiff.comparer.result import JudgedPair, StepComparison

__all__ = ["CallError", "call_errors"]

_ENDS = {
    Role.INPUT: (Phase.FORWARD, "entering"),
    Role.OUTPUT: (Phase.FORWARD, "leaving"),
    Role.GRAD_OUTPUT: (Phase.BACKWARD, "entering"),
    Role.GRAD_INPUT: (Phase.BACKWARD, "leaving"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallError:
    """The error around one call of the reference, in one phase."""

    module: str
    """Reference module path."""
    call: int
    """Number of the call among those of its module."""
    phase: Phase
    entering: float | None
    """Largest relative L2 error of what went in; None if none of it was judged."""
    leaving: float
    """Largest relative L2 error of what came out; inf where it is absent or nan on one side."""

    @property
    def amplification(self) -> float | None:
        """Give the one over the other; inf from equal inputs, None if not known."""
        if self.entering is None or (math.isinf(self.entering) and math.isinf(self.leaving)):
            return None
        return self.leaving / self.entering if self.entering else math.inf


def call_errors(step: StepComparison) -> tuple[CallError, ...]:
    """List the calls out of which an error came, forward in execution order, then backward.

    Errors within tolerance are listed too: a drift shows as many small factors, a fault as one
    large one.

    Args:
        step: What was compared.
    """
    found: dict[tuple[Phase, str, int], dict[str, float]] = {}
    starts: dict[tuple[Phase, str, int], int] = {}
    for pair in step.pairs:
        end = pair.reference
        if end is None or end.address.call is None or end.address.role not in _ENDS:
            continue
        if not _is_measured(pair):
            continue
        phase, word = _ENDS[end.address.role]
        key = phase, end.address.module, end.address.call
        errors = found.setdefault(key, {})
        errors[word] = max(errors.get(word, 0.0), relative_error(pair))
        starts[key] = min(starts.get(key, end.order), end.order)
    phases = list(Phase)
    return tuple(
        CallError(
            phase=key[0],
            module=key[1],
            call=key[2],
            entering=errors.get("entering"),
            leaving=errors["leaving"],
        )
        for key, errors in sorted(
            found.items(), key=lambda item: (phases.index(item[0][0]), starts[item[0]])
        )
        if errors.get("leaving")
    )


def _is_measured(pair: JudgedPair) -> bool:
    return pair.verdict in {Verdict.MATCH, Verdict.DIVERGED}
