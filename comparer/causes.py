"""Name the likely cause of each origin, from the numbers; only origins are worth the reading."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Content, Role
from padiff.pairing import Rule, kind_of

from .attributes import canonical_attributes
from .blocks import is_floating
from .layercauses import Layer, batch_statistics, dropout, running_variance, transposed_weight
from .patterns import bias, factor, lower_precision, offset, place, reordered
from .profile import AxisProfile, profile
from .result import Divergence, JudgedPair, Kind, Tolerance, Verdict

if TYPE_CHECKING:
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Side

    from .blocks import Array
    from .calltree import CallTree
    from .cause import Cause
    from .locate import Located

__all__ = ["explain"]

MOST_ORIGINS = 16
"""Origins of a step that are looked into, earliest first."""
MOST_ELEMENTS = 1 << 24
"""Larger tensors are not looked into: it takes several float64 copies."""
FIRST_WORDS = ("attribute ", "known difference", "makes nan")
"""How the evidence begins that stays before the causes."""
MOST_OFF = 8.0
"""Of a pair within its tolerance, elements count as off from this part of the largest error on."""
MOST_PLACES = 2
"""Axes along which the error is said to be only in some indices; the profile has them all."""
CALL_ROLES = frozenset({Role.INPUT, Role.OUTPUT, Role.GRAD_INPUT, Role.GRAD_OUTPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """Both dumps, and what of the one is what of the other."""

    tree: CallTree
    reference: Side
    candidate: Side

    def arrays(self, position: int) -> tuple[Array, Array] | None:
        """Read a judged pair as float64, the reference in the candidate's layout."""
        known, found = self.tree.records[position]
        pair = self.tree.pairs[position]
        if not known or found is None or pair.metrics is None or pair.is_partial:
            return None
        target = self.candidate.index.records[found]
        sources = [self.reference.index.records[one] for one in known]
        if math.prod(target.shape) > MOST_ELEMENTS:
            return None
        rule = Rule.parse(pair.layout or "identity")
        expected = rule.apply([self.reference.array(source) for source in sources], target.shape)
        array = self.candidate.array(target)
        if not (is_floating(expected.dtype) and is_floating(array.dtype)):
            return None
        return expected.astype(np.float64), array.astype(np.float64)

    def layer(self, call: int | None, module: int) -> Layer | None:
        """Gather what is known of a reference module and its partner, and of one call."""
        partner = self.tree.partner_module.get(module)
        if partner is None:
            return None
        known, found = self.reference.index.modules[module], self.candidate.index.modules[partner]
        kind = kind_of(known) or kind_of(found)
        if kind is None and call is None:
            return None
        return Layer(
            kind=kind or "",
            reference=canonical_attributes(known, self.reference.framework),
            candidate=canonical_attributes(found, self.candidate.framework),
            training=(known.training, found.training),
            source=self._input(call),
            states={
                record.slot.lstrip("._"): self.reference.array(record).astype(np.float64)
                for record in self.reference.index.records
                if record.module == module and self._is_small_state(record)
            },
        )

    def _is_small_state(self, record: RecordInfo) -> bool:
        if record.role not in {Role.WEIGHT, Role.BUFFER} or record.value is None:
            return False
        value = self.reference.index.values[record.value]
        return value.content is Content.FULL and value.size <= MOST_ELEMENTS

    def _input(self, call: int | None) -> Array | None:
        if call is None:
            return None
        for record in self.reference.index.records:
            if record.call == call and record.role is Role.INPUT and record.value is not None:
                value = self.reference.index.values[record.value]
                if value.content is Content.FULL and value.size <= MOST_ELEMENTS:
                    array = self.reference.array(record)
                    return array.astype(np.float64) if is_floating(array.dtype) else None
        return None


def explain(located: Located, tree: CallTree, reference: Side, candidate: Side) -> Located:
    """Add likely causes and an error profile to the origins.

    Args:
        located: What diverged, and which of it is an origin.
        tree: The judged pairs.
        reference: The side held to be right.
        candidate: The other.
    """
    sides = _Sides(tree=tree, reference=reference, candidate=candidate)
    left, found = MOST_ORIGINS, []
    for divergence in located.divergences:
        if divergence.kind is Kind.ORIGIN and left:
            left -= 1
            found.append(_explained(divergence, sides))
        else:
            found.append(divergence)
    return replace(located, divergences=tuple(found))


def _explained(divergence: Divergence, sides: _Sides) -> Divergence:
    position = _position(divergence.pair, sides.tree)
    arrays = None if position is None else sides.arrays(position)
    known = divergence.pair.reference
    if arrays is None or known is None:
        return divergence
    layer = sides.layer(known.call, known.module)
    tolerance = _tolerance(divergence.pair)
    with np.errstate(all="ignore"):
        profiles = profile(*arrays, tolerance)
        causes = _causes(*arrays, profiles, layer, role=known.address.role)
        causes += _weight_causes(divergence, sides)
    settings = [line for line in divergence.evidence if line.startswith(FIRST_WORDS)]
    others = [line for line in divergence.evidence if line not in settings]
    return replace(
        divergence,
        evidence=(*settings, *map(str, causes), *others),
        causes=tuple(causes),
        profile=profiles,
    )


def _tolerance(pair: JudgedPair) -> Tolerance:
    """Give what decides which elements are off: of a pair that agrees, those most off."""
    if pair.verdict is Verdict.MATCH and pair.metrics is not None:
        return Tolerance(atol=(pair.metrics.max_abs or 0.0) / MOST_OFF, rtol=0.0)
    return pair.tolerance or Tolerance(atol=0.0, rtol=0.0)


def _causes(
    reference: Array,
    candidate: Array,
    profiles: tuple[AxisProfile, ...],
    layer: Layer | None,
    *,
    role: Role,
) -> list[Cause]:
    """Give the causes that fit, those that say most first."""
    if not reference.size or np.array_equal(reference, candidate):
        return []
    if not (np.isfinite(reference).all() and np.isfinite(candidate).all()):
        return place(profiles)
    found: list[Cause | None] = []
    if layer is not None and role is Role.OUTPUT:
        found += [
            batch_statistics(reference, candidate, layer),
            dropout(reference, candidate),
            transposed_weight(reference, candidate, layer),
        ]
    if layer is not None and role is Role.BUFFER:
        found.append(running_variance(reference, candidate, layer))
    if not any(found):
        whole = factor(reference, candidate) or offset(reference, candidate)
        known = None if layer is None else layer.states.get("bias")
        is_state = role not in CALL_ROLES
        found += [whole or (None if is_state else bias(reference, candidate, known))]
        found.append(reordered(reference, candidate))
    if not any(found):
        heads = None if layer is None else layer.heads
        where: list[Cause | None] = [*place(profiles, heads=heads)[:MOST_PLACES]]
        found += where or [lower_precision(reference, candidate)]
    return [cause for cause in found if cause is not None]


def _weight_causes(divergence: Divergence, sides: _Sides) -> list[Cause]:
    """Look at the diverged weights of an origin: transposed, scaled, shifted?"""
    known = divergence.pair.reference
    if known is None or known.address.role in {Role.WEIGHT, Role.BUFFER}:
        return []
    found = []
    for position, pair in sides.tree.of_module(known.module, Role.WEIGHT):
        arrays = sides.arrays(position) if pair.fatal else None
        if (
            arrays is None
            or pair.reference is None
            or not all(np.isfinite(a).all() for a in arrays)
        ):
            continue
        cause = reordered(*arrays) or factor(*arrays)
        if cause is not None:
            slot = pair.reference.address.slot.lstrip(".")
            found.append(replace(cause, text=f"weight {slot!r}: {cause.text}"))
    return found


def _position(pair: JudgedPair, tree: CallTree) -> int | None:
    for position, other in enumerate(tree.pairs):
        if other.reference is pair.reference and other.candidate is pair.candidate:
            return position
    return None
