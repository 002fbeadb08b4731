"""Try what may explain one diverged pair, from what says most to what says least."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.result import Tolerance
from padiff.dumpfile import Role

from .attentioncauses import attention
from .attentionparts import Packed
from .cause import Cause, CauseName
from .functioncauses import combination, function, gated
from .gradientcauses import branch
from .joincauses import parts_off, rejoined
from .layercauses import (
    batch_statistics,
    dropout,
    moved_state,
    other_epsilon,
    running_variance,
    transposed_weight,
)
from .normcauses import normalisation
from .partcauses import exchanged, halves, other_rows, pooled, unscaled
from .patterns import (
    bias,
    factor,
    feature_factor,
    frame,
    lower_precision,
    offset,
    place,
    reordered,
    shifted,
)
from .positioncauses import other_positions
from .profile import agreement, profile
from .resizecauses import resized
from .slopecauses import clamped, slope
from .stackcauses import stacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import RecordInfo

    from .causesides import Sides
    from .contrast import Contrast
    from .layercauses import Layer

__all__ = ["Search"]

NOISE = 4.0
"""Unit roundoffs, of an element and of the tensor's usual size, that count as agreement where the
question is in which places an error lies."""
BESIDE = 1e-3
"""Share of the largest error that counts as agreement there."""
WHOLE, PLACES = 8, 6
"""Work for each element to look at the error as a whole, and where it is."""
MOST_PLACES = 2
"""Axes along which the error is said to be only in some indices; the profile has them all."""
SPATIAL = 4
"""Axes from which on a tensor has an edge all around: batch, channel, row, column."""
CALL_ROLES = frozenset({Role.INPUT, Role.OUTPUT, Role.GRAD_INPUT, Role.GRAD_OUTPUT})
FORWARD_ROLES = frozenset({Role.INPUT, Role.OUTPUT})


class Search:
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
            self._layer = sides.layer(call, self._record.module)
            self._maker = self._layer or sides.layer(call, self._record.module, needs_partner=False)
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
        if not sides.is_measurable:
            exact = Tolerance(atol=0.0, rtol=0.0)
            return place(profile(sides.reference, sides.candidate, exact, names=sides.axes))
        for group in (self._of_layer, self._of_inputs, self._of_part, self._of_whole):
            found = [cause for cause in group() if cause is not None]
            if found:
                is_order = all(cause.name is CauseName.PERMUTED for cause in found)
                return [*found, *self._places_of(found)] if is_order else found
        rounding = lower_precision(sides)
        return self._places() or ([] if rounding is None else [rounding])

    def _places_of(self, orders: Sequence[Cause]) -> list[Cause]:
        """Look where another order is; where any other one begins or ends is no mask."""
        is_known = all(cause.numbers for cause in orders)
        ends = {CauseName.HEAD, CauseName.TAIL}
        return [cause for cause in self._places() if is_known or cause.name not in ends]

    def _places(self) -> list[Cause]:
        """Look where the error is: all that is more than rounding, whatever the tolerance."""
        sides = self._contrast
        if not sides.budget.grants(PLACES * sides.size):
            return []
        noise = NOISE * sides.unit
        size = float(np.sqrt(np.mean(sides.reference**2)))
        largest = float(np.abs(sides.candidate - sides.reference).max())
        plain = Tolerance(atol=BESIDE * largest + noise * size, rtol=noise)
        if self._record.role in CALL_ROLES and sides.reference.ndim >= SPATIAL:
            edge = frame(agreement(sides.reference, sides.candidate, plain))
            if edge is not None:
                return [edge]
        profiles = profile(sides.reference, sides.candidate, plain, names=sides.axes)
        return place(profiles, heads=self._heads)[:MOST_PLACES]

    def _of_layer(self) -> Iterable[Cause | None]:
        """Look for what only makes sense for a kind of layer."""
        sides, layer, role = self._contrast, self._layer, self._record.role
        if layer is not None and role is Role.OUTPUT:
            yield batch_statistics(sides, layer) or other_epsilon(sides, layer)
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
            lambda: attention(sides, self._unused(), self._maker, self._packed()),
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
            lambda: unscaled(sides, at_hand, self._vectors()),
            lambda: other_rows(sides, self._sides.tables(self._record)),
            lambda: other_positions(sides, at_hand),
        ]
        yield next((found for found in (attempt() for attempt in tries) if found), None)

    def _of_part(self) -> Iterable[Cause | None]:
        """Look at the one part of what was joined that is off."""
        whole = self._contrast
        if self._record.role not in FORWARD_ROLES:
            return
        lengths = {
            axis: {array.shape[axis] for _, array in self._at_hand if array.ndim > axis}
            for axis in range(1, whole.reference.ndim)
        }
        for part, where in parts_off(whole, lengths):
            self._contrast = part
            found = [cause for cause in self._of_inputs() if cause is not None]
            self._contrast = whole
            if found:
                yield from (replace(cause, text=f"{where}: {cause.text}") for cause in found)
                return

    def _unused(self) -> Sequence[tuple[str, Array]]:
        """Give what was at hand and no call of the same code has taken."""
        taken = self._sides.taken(self._record)
        switches = self._sides.switches(self._record)
        return [*switches, *(one for one in self._finite() if one[0] not in taken)]

    def _vectors(self) -> Sequence[tuple[str, Array]]:
        """Give what the module keeps that has one number for each feature."""
        states = {} if self._maker is None else self._maker.states
        lines = ((name, array) for name, array in states.items() if array.size > 1)
        return [(name, array) for name, array in lines if array.size == max(array.shape)]

    def _packed(self) -> Packed | None:
        """Give the weights of an attention that calls no projections."""
        maker, record = self._maker, self._record
        is_leaf = maker is not None and maker.kind == "attention" and record.role is Role.OUTPUT
        if maker is None or not is_leaf:
            return None
        weight = maker.state("in_proj_weight")
        behind = self._sides.states(record.module, "out_proj")
        if weight is None or "weight" not in behind:
            return None
        return Packed(
            weight=weight,
            bias=maker.state("in_proj_bias"),
            out_weight=behind["weight"],
            out_bias=behind.get("bias"),
            is_batch_first=bool(maker.reference.get("batch_first")),
        )

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
        return [one for one in self._at_hand if np.isfinite(np.linalg.norm(one[1].ravel()))]

    def _of_whole(self) -> Iterable[Cause | None]:
        """Look for one change of all elements."""
        sides, layer, role = self._contrast, self._layer, self._record.role
        if role is Role.BUFFER and layer is not None and not layer.is_set_alike("momentum"):
            return  # the settings say it: another share of the same statistics
        if not sides.budget.grants(WHOLE * sides.size):
            return
        is_state = role not in CALL_ROLES
        whole = factor(sides) or offset(sides)
        if whole is None and not is_state:
            whole = clamped(sides) or slope(sides)
        if whole is None and not is_state:
            whole = bias(sides, None if layer is None else layer.state("bias")) or shifted(sides)
        whole = whole or rejoined(sides) or reordered(sides)
        if whole is None and not is_state:
            whole = feature_factor(sides, None if layer is None else layer.state("weight"))
        yield whole
