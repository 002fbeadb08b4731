"""Name the likely cause of each origin, from the numbers; only origins are worth the reading."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.locating.between import first_inside, name_of
from padiff.comparer.locating.moving import holds_the_same
from padiff.comparer.result import Divergence, JudgedPair, Kind, Tolerance, Verdict
from padiff.dumpfile import Phase, Role

from .arguments import ARGUMENT
from .attentioncauses import attention
from .cause import Cause, CauseName
from .causesides import Sides
from .functioncauses import combination, function, gated
from .gradientcauses import branch
from .layercauses import (
    batch_statistics,
    dropout,
    moved_state,
    running_variance,
    transposed_weight,
)
from .losscauses import loss_causes
from .normcauses import normalisation
from .optimizeroptions import option_causes
from .ordercauses import norm_order
from .partcauses import exchanged, halves, other_rows, pooled
from .patterns import (
    bias,
    clamped,
    factor,
    feature_factor,
    frame,
    lower_precision,
    offset,
    place,
    reordered,
    shifted,
)
from .profile import agreement, profile
from .resizecauses import resized
from .stackcauses import stacks
from .updatecauses import update_causes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.comparer.locating.calltree import CallTree
    from padiff.comparer.locating.locate import Located
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Side

    from .contrast import Contrast
    from .layercauses import Layer
    from .optimizeroptions import Optimizers

__all__ = ["explain"]

MOST_ORIGINS = 16
"""Origins of a step that are looked into, earliest first."""
FIRST_WORDS = (ARGUMENT, "attribute ", "known difference", "makes nan", "no gradient ")
"""How the evidence begins that stays before the causes."""
MOST_OFF = 8.0
"""Of a pair within its tolerance, elements count as off from this part of the largest error on."""
NOISE = 4.0
"""Unit roundoffs, of an element and of the tensor's usual size, that count as agreement where the
question is in which places an error lies."""
BESIDE = 1e-3
"""Share of the largest error that counts as agreement there."""
MOST_PLACES = 2
"""Axes along which the error is said to be only in some indices; the profile has them all."""
CALL_ROLES = frozenset({Role.INPUT, Role.OUTPUT, Role.GRAD_INPUT, Role.GRAD_OUTPUT})
FORWARD_ROLES = frozenset({Role.INPUT, Role.OUTPUT})
UPDATED = frozenset({Role.WEIGHT, Role.OPTIMIZER_STATE, Role.WEIGHT_GRAD})
"""What an optimizer makes."""


def explain(
    located: Located,
    tree: CallTree,
    reference: Side,
    candidate: Side,
    optimizers: Optimizers | None = None,
) -> Located:
    """Add likely causes and an error profile to the origins.

    Args:
        located: What diverged, and which of it is an origin.
        tree: The judged pairs.
        reference: The side held to be right.
        candidate: The other.
        optimizers: What both were trained by, as far as known.
    """
    sides = Sides(tree=tree, reference=reference, candidate=candidate)
    left, found = MOST_ORIGINS, []
    for divergence in located.divergences:
        if divergence.kind is Kind.ORIGIN and left:
            left -= 1
            explained = _explained(divergence, sides)
            if divergence.phase is Phase.UPDATE:
                explained = _explained_update(explained, sides, optimizers)
            explained = _explained_loss(explained, sides)
            found.append(explained)
        else:
            found.append(divergence)
    return replace(located, divergences=tuple(found))


def _explained(divergence: Divergence, sides: Sides) -> Divergence:
    shown = _position(divergence.pair, sides.tree)
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
        own = _own_record(divergence, sides, shown if inner is None else None)
        causes = _Search(sides, position, contrast, own).run()
        causes += _weight_causes(divergence, sides)
    if inner is not None and inner != shown:
        inside = divergence.pair.reference.address.module
        causes = [_placed(cause, sides, position, inside) for cause in causes]
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
    position = _position(divergence.pair, sides.tree)
    loss = None if position is None else sides.read(position)
    if loss is None or loss.reference.size != 1:
        return divergence
    with np.errstate(all="ignore"):
        causes = loss_causes(loss, sides.reference)
    evidence = (*map(str, causes), *divergence.evidence)
    return replace(divergence, evidence=evidence, causes=(*causes, *divergence.causes))


def _where_it_began(divergence: Divergence, sides: Sides) -> int | None:
    """Find what the code of a forward origin made first, which says more than what came of it."""
    known = divergence.pair.reference
    if known is None or known.call is None or known.address.role not in FORWARD_ROLES:
        return None
    return first_inside(sides.tree, known.call)


def _own_record(divergence: Divergence, sides: Sides, shown: int | None) -> RecordInfo | None:
    """Find the reference's record of an output that was judged as what the next call was given."""
    end = divergence.pair.reference
    if shown is None or end is None or sides.tree.pairs[shown].reference is end:
        return None
    own = [] if end.call is None else sides.tree.reference_flow.records(end.call, Role.OUTPUT)
    return next((one for one in own if one.slot == end.address.slot), None)


def _placed(cause: Cause, sides: Sides, position: int, inside: str) -> Cause:
    index = sides.reference.index
    name = name_of(index, index.records[sides.tree.records[position][0][0]], inside=inside)
    return replace(cause, text=f"{name}: {cause.text}")


def _tolerance(pair: JudgedPair) -> Tolerance:
    """Give what decides which elements are off: of a pair that agrees, those most off."""
    if pair.verdict is Verdict.MATCH and pair.metrics is not None:
        return Tolerance(atol=(pair.metrics.max_abs or 0.0) / MOST_OFF, rtol=0.0)
    return pair.tolerance or Tolerance(atol=0.0, rtol=0.0)


class _Search:
    """Looks for the causes of one diverged pair, those that say most first."""

    def __init__(
        self, sides: Sides, position: int, contrast: Contrast, own: RecordInfo | None = None
    ) -> None:
        tree = sides.tree
        self._contrast, self._sides = contrast, sides
        first = sides.reference.index.records[tree.records[position][0][0]]
        self._record: RecordInfo = own or first
        self._layer: Layer | None = None
        """Whose output it is."""
        self._maker: Layer | None = None
        """Whose code made it: of an input, the module around."""
        role, call = self._record.role, self._record.call
        if role is not Role.INPUT:
            self._layer = self._maker = sides.layer(call, self._record.module)
        around = None if call is None else tree.reference.calls[call].parent
        if role is Role.INPUT and around is not None:
            self._maker = sides.layer(around, tree.reference.calls[around].module)
        self._heads = None if self._maker is None else self._maker.heads
        self._at_hand = sides.at_hand(self._record) if role in FORWARD_ROLES else []
        self._gradients = sides.gradients(self._record) if role is Role.GRAD_INPUT else []

    def run(self) -> list[Cause]:
        """Give the causes that fit."""
        sides = self._contrast
        if not sides.reference.size or not sides.error:
            return []
        if not (np.isfinite(sides.reference).all() and np.isfinite(sides.candidate).all()):
            exact = Tolerance(atol=0.0, rtol=0.0)
            return place(profile(sides.reference, sides.candidate, exact, names=sides.axes))
        for group in (self._of_layer, self._of_inputs, self._of_whole):
            found = [cause for cause in group() if cause is not None]
            if found:
                is_order = all(cause.name is CauseName.PERMUTED for cause in found)
                return [*found, *self._places()] if is_order else found
        rounding = lower_precision(sides)
        return self._places() or ([] if rounding is None else [rounding])

    def _places(self) -> list[Cause]:
        """Look where the error is: all that is more than rounding, whatever the tolerance."""
        sides = self._contrast
        noise = NOISE * sides.unit
        size = float(np.sqrt(np.mean(sides.reference**2)))
        largest = float(np.abs(sides.candidate - sides.reference).max())
        plain = Tolerance(atol=BESIDE * largest + noise * size, rtol=noise)
        edge = frame(agreement(sides.reference, sides.candidate, plain))
        if edge is not None and self._record.role in CALL_ROLES:
            return [edge]
        profiles = profile(sides.reference, sides.candidate, plain, names=sides.axes)
        return place(profiles, heads=self._heads)[:MOST_PLACES]

    def _of_layer(self) -> Iterable[Cause | None]:
        """Look for what only makes sense for a kind of layer."""
        sides, layer, role = self._contrast, self._layer, self._record.role
        if layer is not None and role is Role.OUTPUT:
            yield batch_statistics(sides, layer)
            yield transposed_weight(sides, layer)
        if layer is not None and role is Role.BUFFER:
            yield running_variance(sides, layer)
        if role in FORWARD_ROLES:
            yield dropout(sides)
            yield moved_state(sides, {} if self._maker is None else self._maker.states)
        yield branch(sides, self._gradients)

    def _of_inputs(self) -> Iterable[Cause | None]:
        """Look for another function of what went in; the first that fits says it."""
        sides, layer, at_hand = self._contrast, self._layer, self._finite()
        if not at_hand:
            return
        tries: list[Callable[[], Cause | None]] = [
            lambda: function(sides, at_hand),
            lambda: combination(sides, at_hand),
            lambda: gated(sides, at_hand) or gated(sides, halves(sides, at_hand)),
            lambda: attention(sides, at_hand, self._heads),
            lambda: resized(sides, at_hand),
            lambda: pooled(sides, at_hand),
        ]
        if layer is not None and len(at_hand) == 1 and "norm" in layer.kind + layer.class_name:
            states = layer.state("weight", "scale"), layer.state("bias")
            eps = layer.reference.get("eps")
            tries.insert(0, lambda: normalisation(sides, at_hand[0][1], *states, eps))
        tries += [
            self._of_stacks,
            lambda: exchanged(sides, at_hand),
            lambda: other_rows(sides, self._sides.tables(self._record)),
        ]
        yield next((found for found in (attempt() for attempt in tries) if found), None)

    def _of_stacks(self) -> Cause | None:
        """Look for another sum that holds what a loop made step by step."""
        sides = self._contrast
        for stack in stacks(self._sides, self._record, sides.reference.shape):
            parts = [
                (name, stack.part(array))
                for name, array in self._finite()
                if array.shape == sides.reference.shape
            ]
            found = combination(stack.cut(sides), [*parts, (stack.name, stack.array)])
            if found is not None:
                return found
        return None

    def _finite(self) -> Sequence[tuple[str, Array]]:
        return [one for one in self._at_hand if np.isfinite(one[1]).all()]

    def _of_whole(self) -> Iterable[Cause | None]:
        """Look for one change of all elements."""
        sides, layer = self._contrast, self._layer
        is_state = self._record.role not in CALL_ROLES
        whole = factor(sides) or offset(sides) or (None if is_state else clamped(sides))
        if whole is None and not is_state:
            whole = bias(sides, None if layer is None else layer.state("bias")) or shifted(sides)
        whole = whole or reordered(sides)
        if whole is None and not is_state:
            whole = feature_factor(sides, None if layer is None else layer.state("weight"))
        yield whole


def _weight_causes(divergence: Divergence, sides: Sides) -> list[Cause]:
    """Look at the diverged weights of an origin, or their gradients: transposed, scaled?

    Of an origin that is itself a weight, whether it is another one; its shape was looked at.
    """
    known = divergence.pair.reference
    own = {Role.WEIGHT, Role.BUFFER, Role.WEIGHT_GRAD}
    if known is None or known.address.role in own:
        is_weight = known is not None and known.address.role is Role.WEIGHT
        position = _position(divergence.pair, sides.tree) if is_weight else None
        other = None if position is None else _another_weight(position, sides)
        return [] if other is None else [other]
    is_backward = known.address.phase is Phase.BACKWARD
    role = Role.WEIGHT_GRAD if is_backward else Role.WEIGHT
    found = []
    for position, pair in sides.tree.of_module(known.module, role):
        contrast = sides.contrast(position) if pair.fatal else None
        if contrast is None or pair.reference is None:
            continue
        if not (np.isfinite(contrast.reference).all() and np.isfinite(contrast.candidate).all()):
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


def _position(pair: JudgedPair, tree: CallTree) -> int | None:
    for position, other in enumerate(tree.pairs):
        if other.reference is pair.reference and other.candidate is pair.candidate:
            return position
    for position, other in enumerate(tree.pairs):  # judged where the next call took it
        if pair.metrics is not None and other.metrics is pair.metrics:
            return position
    return None
