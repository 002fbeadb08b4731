"""Find whose fault a divergence is in the phase ``update``: the rate, the clip, or the rule."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

from padiff.comparer.result import Divergence, JudgedPair, Kind, Verdict
from padiff.dumpfile import Phase, Role

from .calltree import CallTree, is_bad

MOST_NAMES = 6
FEW = 2
"""Weights that make a group."""
MATRIX = 2
"""Weights with fewer axes are biases and the weights of norms."""

_ORDER = (Role.LR, Role.WEIGHT_GRAD, Role.OPTIMIZER_STATE, Role.WEIGHT, Role.BUFFER, Role.NAMED)
"""What comes first explains what comes after; the norm of gradients follows from those."""


def find_updates(tree: CallTree, *, is_explained: bool) -> dict[int, Divergence]:
    """Write the divergences of the update, by the places of their pairs.

    A learning rate is never the consequence of what diverged before; all else is. Where nothing
    explains it, the first record is the origin and speaks for the others.

    Args:
        tree: The judged pairs.
        is_explained: Whether the step diverged before its update.
    """
    places = sorted(
        (place for place in tree.updates if is_bad(tree.pairs[place])),
        key=lambda place: (_ORDER.index(tree.pairs[place].end.address.role), place),
    )
    found: dict[int, Divergence] = {}
    told: set[int] = set()
    for place in places:
        pair = tree.pairs[place]
        is_own = pair.end.address.role is Role.LR or _began_here(tree, pair, told)
        kind = Kind.ORIGIN if is_own or not is_explained else Kind.INHERITED
        if pair.reference is not None and kind is Kind.ORIGIN:
            told.add(pair.reference.module)
        is_optimized = kind is Kind.ORIGIN and pair.end.address.role is not Role.BUFFER
        evidence = _evidence(tree, places) if is_optimized else ()
        is_explained = True
        found[place] = Divergence(
            pair=replace(pair, kind=kind),
            phase=Phase.UPDATE,
            kind=kind,
            inputs_agree=None,
            evidence=tuple(evidence),
        )
    return found


def _began_here(tree: CallTree, pair: JudgedPair, told: Container[int]) -> bool:
    """Return whether a module made another buffer of what agrees, and speaks first for itself.

    Nothing flows from one module's statistics to the next one's: each with a wrong setting is an
    origin. What was off before the step, or was made of what is off, is none.
    """
    end = pair.reference
    if end is None or end.address.role is not Role.BUFFER or end.module in told:
        return False
    calls = tree.calls_of.get(end.module, ())
    before = (*tree.of_module(end.module, Role.BUFFER), *tree.of_module(end.module, Role.WEIGHT))
    is_sound = not any(is_bad(one) for _, one in before)
    given = [place for call in calls for place in tree.tainted(call, Role.INPUT)]
    return bool(calls) and is_sound and not given


def _evidence(tree: CallTree, bad: Sequence[int]) -> list[str]:
    """Describe what of the update agrees, and which weights do not."""
    lines = [
        _count(tree, Role.LR, "learning rate"),
        _count(tree, Role.WEIGHT_GRAD, "clipped gradient"),
        _states(tree),
        _count(tree, Role.WEIGHT, "weight", "after the update"),
    ]
    names = [
        tree.pairs[place].end.address.name
        for place in bad
        if tree.pairs[place].end.address.role is Role.WEIGHT
    ]
    if names:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        lines.append(f"these weights differ: {', '.join(names[:MOST_NAMES])}{more}")
    lines.append(_group(tree))
    return [line for line in lines if line]


def _count(tree: CallTree, role: Role, noun: str, where: str = "") -> str:
    every = [
        tree.pairs[place] for place in tree.updates if tree.pairs[place].end.address.role is role
    ]
    pairs = [pair for pair in every if None not in (pair.reference, pair.candidate)]
    if not pairs:
        side = "candidate" if every and every[0].candidate is None else "reference"
        return f"the {side} recorded no {noun} {where}".rstrip() if every else ""
    agreeing = sum(not is_bad(pair) for pair in pairs)
    if len(every) == 1:
        return f"the {noun} {'agrees' if agreeing else 'differs'} {where}".rstrip()
    return f"{agreeing} of {len(every)} {noun}s agree {where}".rstrip()


def _states(tree: CallTree) -> str:
    """Describe which tensors of the optimizer agree, by the reference's names for them."""
    names: dict[str, bool] = {}
    for place in tree.updates:
        pair = tree.pairs[place]
        if pair.end.address.role is Role.OPTIMIZER_STATE and pair.reference is not None:
            name = pair.reference.address.slot.rpartition("[")[2].strip("']\"")
            if pair.verdict != Verdict.SKIPPED and pair.candidate is not None:
                names[name] = names.get(name, True) and not is_bad(pair)
    words = [f"{name} {'agrees' if agrees else 'differs'}" for name, agrees in names.items()]
    return f"optimizer state: {', '.join(words)}" if words else ""


def _group(tree: CallTree) -> str:
    """Recognise a difference by parameter group: exactly the biases and norms, or all else."""
    axes: dict[bool, list[bool]] = {True: [], False: []}
    for place in tree.updates:
        pair = tree.pairs[place]
        if pair.end.address.role is Role.WEIGHT and pair.reference is not None:
            axes[is_bad(pair)].append(len(pair.reference.shape) >= MATRIX)
    kinds = set(axes[True])
    # A weight that is zero agrees in either group: decay does nothing to it.
    if len(axes[True]) < FEW or len(kinds) != 1 or not set(axes[False]) - kinds:
        return ""
    which = "two or more axes" if True in kinds else "one axis (biases, norms)"
    return f"only weights with {which} differ: are the parameter groups the same?"
