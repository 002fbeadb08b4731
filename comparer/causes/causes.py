"""Name the likely cause of each origin, from the numbers; only origins are worth the reading."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.locating.between import first_inside, made_by, name_of, outermost
from padiff.comparer.locating.moving import holds_the_same
from padiff.comparer.result import Divergence, JudgedPair, Kind, Tolerance, Verdict
from padiff.dumpfile import Phase, Role

from .arguments import ARGUMENT
from .budget import USED_UP, Budget
from .cause import LIKELY, Cause, CauseName
from .causesides import Sides
from .losscauses import loss_causes
from .movedcauses import is_another_order, is_telling, made_of_moved
from .optimizeroptions import option_causes
from .ordercauses import norm_order
from .patterns import factor, reordered
from .profile import profile
from .search import Search
from .updatecauses import update_causes

if TYPE_CHECKING:
    from padiff.comparer.locating.calltree import CallTree
    from padiff.comparer.locating.locate import Located
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Side

    from .optimizeroptions import Optimizers

__all__ = ["explain", "remarked"]

LOOKING = 1 << 20
"""Work to find out what there is around an origin, however small it is: it takes some 4 ms."""
FIRST_WORDS = (ARGUMENT, "attribute ", "buffer ", "known difference", "makes nan", "no gradient ")
"""How the evidence begins that stays before the causes."""
MOST_OFF = 8.0
"""Of a pair within its tolerance, elements count as off from this part of the largest error on."""
FORWARD_ROLES = frozenset({Role.INPUT, Role.OUTPUT})
UPDATED = frozenset({Role.WEIGHT, Role.OPTIMIZER_STATE, Role.WEIGHT_GRAD})
"""What an optimizer makes."""


def explain(
    located: Located,
    tree: CallTree,
    reference: Side,
    candidate: Side,
    optimizers: Optimizers | None = None,
    budget: Budget | None = None,
) -> Located:
    """Add likely causes and an error profile to the origins.

    Args:
        located: What diverged, and which of it is an origin.
        tree: The judged pairs.
        reference: The side held to be right.
        candidate: The other.
        optimizers: What both were trained by, as far as known.
        budget: Work that may be done; by default as much as one comparison may take.
    """
    budget = budget or Budget()
    sides = Sides(tree=tree, reference=reference, candidate=candidate, budget=budget)
    found = [
        _looked_into(one, sides, optimizers) if one.kind is Kind.ORIGIN else one
        for one in located.divergences
    ]
    return replace(located, divergences=tuple(found))


def _looked_into(divergence: Divergence, sides: Sides, optimizers: Optimizers | None) -> Divergence:
    before = sides.budget.refusals
    with sides.budget.one_divergence():
        if not sides.budget.grants(LOOKING):
            return remarked(divergence, USED_UP)
        explained = _explained(divergence, sides)
        if divergence.phase is Phase.UPDATE:
            explained = _explained_update(explained, sides, optimizers)
        explained = _explained_loss(explained, sides)
    return explained if sides.budget.refusals == before else remarked(explained, USED_UP)


def remarked(divergence: Divergence, remark: str) -> Divergence:
    """Add a line to the evidence, behind its causes.

    Args:
        divergence: What was looked into.
        remark: Why causes may be missing.
    """
    told = [place for place, line in enumerate(divergence.evidence) if _is_first(line)]
    at = told[-1] + 1 if told else 0
    evidence = (*divergence.evidence[:at], remark, *divergence.evidence[at:])
    return replace(divergence, evidence=evidence)


def _is_first(line: str) -> bool:
    return line.startswith((*FIRST_WORDS, LIKELY))


def _explained(divergence: Divergence, sides: Sides) -> Divergence:
    shown = sides.position(divergence.pair)
    inner = _where_it_began(divergence, sides)
    position = shown if inner is None else inner
    contrast = None if position is None else sides.contrast(position)
    if contrast is None or position is None or divergence.pair.reference is None:
        return divergence
    pair = sides.tree.pairs[position]
    with np.errstate(all="ignore"):
        profiles = profile(
            contrast.reference, contrast.candidate, _tolerance(pair), names=contrast.axes
        )
        own = _own_record(divergence, sides, position, is_inner=inner is not None)
        causes = Search(sides, position, contrast, own).run()
        if inner is not None and is_another_order(causes):
            position, own, causes = _of_moved(divergence, sides, position, own, causes)
        causes += _weight_causes(divergence, sides)
    if inner is not None and (inner != shown or divergence.judged_at is not None):
        inside = divergence.pair.reference.address.module
        causes = [_placed(cause, sides, position, own, inside) for cause in causes]
    call = divergence.pair.reference.call
    if call is not None and divergence.phase is Phase.FORWARD:
        causes = [*norm_order(sides.tree, call), *causes]
    settings = [line for line in divergence.evidence if line.startswith(FIRST_WORDS)]
    others = [line for line in divergence.evidence if line not in settings]
    return replace(
        divergence,
        evidence=(*settings, *map(str, causes), *others),
        causes=tuple(causes),
        profile=profiles,
    )


def _of_moved(
    divergence: Divergence,
    sides: Sides,
    position: int,
    own: RecordInfo | None,
    causes: list[Cause],
) -> tuple[int, RecordInfo | None, list[Cause]]:
    """Look at what was made of values in another order, which says more if it is no order.

    Args:
        divergence: The origin.
        sides: Both sides.
        position: Of the pair that is in another order.
        own: The record that it was judged for, if that is another.
        causes: What is known of it.

    Returns:
        The same of what was made of it, if its numbers say what is wrong with that.
    """
    end = divergence.pair.reference
    later = None if end is None or end.call is None else made_of_moved(sides, end.call, position)
    contrast = None if later is None else sides.contrast(later)
    if later is None or contrast is None:
        return position, own, causes
    is_inner = sides.tree.pairs[later].reference is not divergence.pair.reference
    found_own = _own_record(divergence, sides, later, is_inner=is_inner)
    found = Search(sides, later, contrast, found_own).run()
    return (later, found_own, found) if is_telling(found) else (position, own, causes)


def _explained_update(
    divergence: Divergence, sides: Sides, optimizers: Optimizers | None
) -> Divergence:
    """Put before what the tensor alone shows what optimizers and movements of weights say."""
    end = divergence.pair.reference
    if end is None or end.address.role not in UPDATED:
        return divergence
    causes = [] if optimizers is None else option_causes(sides.tree, optimizers)
    with np.errstate(all="ignore"):
        causes = causes or update_causes(sides, end.address)
    if not causes:
        return divergence
    others = [line for line in divergence.evidence if not line.startswith("likely cause")]
    return replace(divergence, evidence=(*map(str, causes), *others), causes=tuple(causes))


def _explained_loss(divergence: Divergence, sides: Sides) -> Divergence:
    end = divergence.pair.reference
    if end is None or end.address.role is not Role.LOSS:
        return divergence
    position = sides.position(divergence.pair)
    loss = None if position is None else sides.read(position)
    if loss is None or loss.reference.size != 1:
        return divergence
    with np.errstate(all="ignore"):
        causes = loss_causes(loss, sides.reference, sides.budget)
    evidence = (*map(str, causes), *divergence.evidence)
    return replace(divergence, evidence=evidence, causes=(*causes, *divergence.causes))


def _where_it_began(divergence: Divergence, sides: Sides) -> int | None:
    """Find what the code of a forward origin made first, which says more than what came of it."""
    known = divergence.pair.reference
    if known is None or known.call is None or known.address.role not in FORWARD_ROLES:
        return None
    return first_inside(sides.tree, known.call)


def _own_record(
    divergence: Divergence, sides: Sides, position: int, *, is_inner: bool
) -> RecordInfo | None:
    """Find the reference's record of what was judged at another address: None if at its own.

    An output is judged as what the next call was given, an input as that of a call further inside.
    """
    end, tree = divergence.pair.reference, sides.tree
    if is_inner and end is not None:
        known = tree.records[position][0][0]
        given = outermost(tree.reference_flow, tree.reference.records[known], end.call)
        return made_by(tree, given)
    if is_inner or end is None or tree.pairs[position].reference is end:
        return None
    own = [] if end.call is None else sides.tree.reference_flow.records(end.call, Role.OUTPUT)
    return next((one for one in own if one.slot == end.address.slot), None)


def _placed(
    cause: Cause, sides: Sides, position: int, own: RecordInfo | None, inside: str
) -> Cause:
    index = sides.reference.index
    record = own or index.records[sides.tree.records[position][0][0]]
    name = name_of(index, record, inside=inside)
    return replace(cause, text=f"{name}: {cause.text}")


def _tolerance(pair: JudgedPair) -> Tolerance:
    """Give what decides which elements are off: of a pair that agrees, those most off."""
    if pair.verdict is Verdict.MATCH and pair.metrics is not None:
        return Tolerance(atol=(pair.metrics.max_abs or 0.0) / MOST_OFF, rtol=0.0)
    return pair.tolerance or Tolerance(atol=0.0, rtol=0.0)


def _weight_causes(divergence: Divergence, sides: Sides) -> list[Cause]:
    """Look at the diverged weights of an origin, or their gradients: transposed, scaled?

    Of an origin that is itself a weight, whether it is another one; its shape was looked at.
    """
    known = divergence.pair.reference
    own = {Role.WEIGHT, Role.BUFFER, Role.WEIGHT_GRAD}
    if known is None or known.address.role in own:
        is_weight = known is not None and known.address.role is Role.WEIGHT
        position = sides.position(divergence.pair) if is_weight else None
        other = None if position is None else _another_weight(position, sides)
        return [] if other is None else [other]
    is_backward = known.address.phase is Phase.BACKWARD
    role = Role.WEIGHT_GRAD if is_backward else Role.WEIGHT
    found = []
    for position, pair in sides.tree.of_module(known.module, role):
        contrast = sides.contrast(position) if pair.fatal else None
        if contrast is None or pair.reference is None:
            continue
        if not contrast.is_measurable:
            continue
        cause = _another_weight(position, sides) or reordered(contrast) or factor(contrast)
        if cause is not None:
            slot = pair.reference.address.slot.lstrip(".")
            words = str(role).replace("_", " ")
            found.append(replace(cause, text=f"{words} {slot!r}: {cause.text}"))
    return found


def _another_weight(position: int, sides: Sides) -> Cause | None:
    """See whether the candidate's weight is another one of the reference's: loaded elsewhere."""
    known, found = sides.tree.records[position]
    index = sides.reference.index
    value = None if found is None else sides.candidate.index.records[found].value
    if value is None or len(known) != 1:
        return None
    held = sides.candidate.index.values[value]
    for record in index.records:
        if record.role is not Role.WEIGHT or record.value is None or record.id == known[0]:
            continue
        other = index.values[record.value]
        if (other.dtype, other.size) == (held.dtype, held.size) and holds_the_same(other, held):
            name = f"{index.modules[record.module].path}{record.slot}"
            return Cause(
                name=CauseName.OTHER_WEIGHT,
                text=f"it holds what is {name!r} on the reference",
                numbers={"weight": name},
            )
    return None
