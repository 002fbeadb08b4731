"""What went through a call: how much error it added, nan, whether it only passed data on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.comparer.result import DECIDED
from padiff.dumpfile import Phase, Role
from padiff.program import UNIT_ROUNDOFF

from .calltree import relative_error

if TYPE_CHECKING:
    from padiff.comparer.result import JudgedPair, StepComparison

    from .calltree import CallTree

DRIFT = 10.0
"""Up to this growth of the relative error within one call, it is passed on rather than made."""


def amplification(tree: CallTree, call: int, entry: Role, leaving: Role) -> float | None:
    """Return the relative error of what left a call over that of what went in.

    Returns:
        inf if what went in is equal, None if one of the two was not measured or nothing differs.
    """
    before = [relative_error(p) for _, p in tree.of_call(call, entry) if p.verdict in DECIDED]
    after = [relative_error(p) for _, p in tree.of_call(call, leaving) if p.verdict in DECIDED]
    if not before or not after or not max(after):
        return None
    if not max(before):
        return math.inf
    ratio = max(after) / max(before)
    return None if math.isnan(ratio) else ratio


def growth(tree: CallTree, call: int, entry: Role, leaving: Role) -> tuple[str, ...]:
    """Describe how the error grew within an origin, where what went in was not equal.

    A step (a fault) multiplies it; a drift (rounding that adds up) has grown before. Nothing where
    what left the call agrees, as for an origin that is a weight's gradient, nor where it is off by
    so much more than is allowed that no growth of rounding explains it.
    """
    ratio = amplification(tree, call, entry, leaving)
    leaves = [tree.pairs[place] for place in tree.bad(call, leaving)]
    if ratio is None or math.isinf(ratio) or not leaves:
        return ()
    if ratio > DRIFT:
        return (f"the relative error grows {ratio:.3g} times here: a step",)
    if not all(map(_may_be_rounding, leaves)):
        return ()
    drift = "it drifted up to the tolerance, which may be too tight"
    return (f"the relative error grows only {ratio:.3g} times here: {drift}",)


def _may_be_rounding(pair: JudgedPair) -> bool:
    """Return whether more than half of the digits are right."""
    unit = max(UNIT_ROUNDOFF.get(end.dtype, 0.0) for end in pair.ends)
    return relative_error(pair) <= math.sqrt(unit)


def nonfinite_producers(tree: CallTree, call: int) -> tuple[str, ...]:
    """Describe on which sides a call makes nan or inf out of finite inputs."""
    lines = []
    for side in ("reference", "candidate"):
        ends = {
            role: [
                end.statistics.nonfinite
                for _, pair in tree.of_call(call, role)
                if (end := getattr(pair, side)) is not None and end.statistics is not None
            ]
            for role in (Role.INPUT, Role.OUTPUT)
        }
        if sum(ends[Role.OUTPUT]) and not sum(ends[Role.INPUT]):
            count = sum(ends[Role.OUTPUT])
            lines.append(f"makes nan or inf out of finite inputs on the {side} ({count} elements)")
    return tuple(lines)


def follows_bad(tree: CallTree, call: int) -> bool:
    """Return whether a call beside this one diverged before, so that it may have been given that.

    Asked of calls whose inputs nothing judges: they are handed what the code around made.
    """
    parent = tree.reference.calls[call].parent
    if parent is None or not any(tree.of_call(call, Role.INPUT)):
        return False
    before = (other for other in tree.children.get(parent, ()) if other < call)
    return any(tree.bad(other, Role.OUTPUT) for other in before)


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
        """Return the one over the other; inf from equal inputs, None if not known."""
        if self.entering is None or (math.isinf(self.entering) and math.isinf(self.leaving)):
            return None
        return self.leaving / self.entering if self.entering else math.inf


def call_errors(step: StepComparison) -> tuple[CallError, ...]:
    """List the calls out of which an error came, forward in execution order, then backward.

    Errors within tolerance are listed too: a drift shows as many small factors, a fault as one
    large one.
    """
    found: dict[tuple[Phase, str, int], dict[str, float]] = {}
    starts: dict[tuple[Phase, str, int], int] = {}
    for pair in step.pairs:
        end = pair.reference
        if end is None or end.address.call is None or end.address.role not in _ENDS:
            continue
        if pair.verdict not in DECIDED:
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
