"""Batch norms, and vectors, that one side has in the layer before them.

``torch.nn.utils.fusion`` and every exporter for inference fold a norm into the product before it.
The layer's output there is the norm's output here, and the weights agree after the same arithmetic,
which is done and checked. A vector that one author adds after a layer and another keeps as that
layer's bias is like it: the output of the one layer is not the output of the other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError, DumpError, Phase, RecordInfo, Role
from padiff.pairing.result import Absence, SideName, UnmatchedRecord

from .lone import MOVED
from .weight_rules import form_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.calls.calls import CallPairs
    from padiff.pairing.result import RecordPair
    from padiff.pairing.view import View

    from .owned import Owned

__all__ = ["Absorbed", "absorbed", "find_folds", "without_folded"]

_NORM = "batch_norm"
_PRODUCTS = ("linear", "conv")
_RATIO = 1e-3
"""Relative distance of the scales within a channel up to which they are one scale."""
_SAME = 1e-4
"""Relative distance of the folded weights from what folding should give; float32 gives 1e-6."""
_TINY = 1e-300
_EPSILON = 1e-5
"""Both frameworks' default."""
Floats = npt.NDArray[np.float64]
Views = tuple["View", "View"]
_Holder = tuple[str, int | None]
"""The module that owns a weight, or its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A layer and the norm after it, against a layer that does both."""

    side: int
    """Where the norm is: 0 for the reference."""
    norm: int
    """Module id on that side."""
    layer: int
    """Module id on that side of the layer before the norm."""
    partner: int
    """Module id of the layer on the other side."""
    calls: tuple[tuple[int, int], ...]
    """Calls of the layer and of the norm after each."""
    is_verified: bool
    """Whether the weights are what folding gives; else they stay as they were paired."""


def find_folds(views: Views, calls: CallPairs, owned: Owned) -> list[Fold]:
    """Find the norms without partner that the other side folded into the layer before.

    A norm that is fed by a layer alone, without a norm after the partner, counts as folded if the
    partner's weights are those of the layer times one number for each channel.
    """
    possible = [
        fold
        for side, partners in enumerate((calls.ahead, calls.back))
        for fold in _possible(views, side, partners)
    ]
    if not possible:
        return []
    states, products = _States(views, possible), _Products(views, owned.pairs)
    checked = (_checked(views, fold, products, states) for fold in possible)
    return [fold for fold in checked if fold is not None]


def _possible(views: Views, side: int, partners: Mapping[int, int]) -> Iterator[Fold]:
    """Give the norms without partner that a paired product feeds directly."""
    view, other = views[side], views[1 - side]
    lone = [
        module
        for module, kind in enumerate(view.kinds)
        if kind == _NORM
        and view.executed[module]
        and not any(call in partners for call in view.executed[module])
    ]
    makers = _makers(view) if lone else {}
    for module in lone:
        ran = view.executed[module]
        before = [makers.get(view.given[call], -1) for call in ran]
        if any(call not in partners for call in before):
            continue
        groups: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for call, end in zip(before, ran, strict=True):
            modules = view.calls[call].module, other.calls[partners[call]].module
            groups[modules].append((call, end))
        for (layer, partner), ends in groups.items():
            if (view.kinds[layer] or "").startswith(_PRODUCTS):
                yield Fold(
                    side=side,
                    norm=module,
                    layer=layer,
                    partner=partner,
                    calls=tuple(ends),
                    is_verified=False,
                )


def without_folded(views: Views, owned: Owned, folds: Sequence[Fold]) -> Owned:
    """Give the pairs of weights without those of verified folds, which are skipped."""
    reasons: dict[tuple[int, int], str] = {}
    for fold in folds:
        if fold.is_verified:
            reasons |= _reasons(views, fold)
    if not reasons:
        return owned
    skipped: dict[tuple[SideName, int], UnmatchedRecord] = {}
    kept = []
    for pair in owned.pairs:
        ends = (*((0, record) for record in pair.reference), (1, pair.candidate))
        if any((side, views[side].records[record].module) in reasons for side, record in ends):
            for side, record in ends:
                one = _skip(views, side, record, reasons)
                skipped[one.side, record] = one
        else:
            kept.append(pair)
    alone = []
    for one in owned.alone:
        side = int(one.side is SideName.CANDIDATE)
        is_folded = (side, views[side].records[one.record].module) in reasons
        alone.append(_skip(views, side, one.record, reasons) if is_folded else one)
    return replace(owned, pairs=tuple(kept), alone=(*alone, *skipped.values()))


def _skip(
    views: Views, side: int, record: int, reasons: dict[tuple[int, int], str]
) -> UnmatchedRecord:
    view = views[side]
    return UnmatchedRecord(
        side=view.name,
        record=record,
        absence=Absence.SKIPPED,
        reason=reasons.get((side, view.records[record].module), "folded on the other side"),
    )


def _reasons(views: Views, fold: Fold) -> dict[tuple[int, int], str]:
    view, other = views[fold.side], views[1 - fold.side]
    norm, layer = view.modules[fold.norm].path, view.modules[fold.layer].path
    partner = other.modules[fold.partner].path
    there = other.name
    gone = f"folded into {partner!r} of the {there}, whose weights are what that gives"
    return {
        (fold.side, fold.norm): gone,
        (fold.side, fold.layer): f"scaled by {norm!r}, {gone}",
        (1 - fold.side, fold.partner): f"{layer!r} and {norm!r} folded: what these give",
    }


def _makers(view: View) -> dict[int | None, int]:
    found: dict[int | None, int] = {}
    for call, made in enumerate(view.made):
        if made is not None and not view.inner[call]:
            found.setdefault(made, call)
    return found


def _checked(views: Views, fold: Fold, products: _Products, states: _States) -> Fold | None:
    """Do the arithmetic; None if the layers' weights are not one number for each channel apart."""
    try:
        weights = products.of(fold)
        norm = states.of(fold.side, fold.norm)
        layer, partner = states.of(fold.side, fold.layer), states.of(1 - fold.side, fold.partner)
    except (ConfigError, DumpError):
        return None
    if weights is None or "mean" not in norm or "variance" not in norm:
        return None
    times = _times(*weights, len(norm["mean"]))
    if times is None:
        return None
    epsilon = _epsilon(views[fold.side], fold.norm)
    scale = norm.get("weight", 1.0) / np.sqrt(norm["variance"] + epsilon)
    bias = norm.get("bias", 0.0) + (layer.get("bias", 0.0) - norm["mean"]) * scale
    added = partner.get("bias", np.zeros_like(bias))
    is_same = _is_near(times, scale) and _is_near(added, bias)
    return replace(fold, is_verified=is_same)


def _times(plain: Floats, folded: Floats, count: int) -> Floats | None:
    """Give the number by which each channel is multiplied; None if it is not one for each."""
    for axis in range(plain.ndim):
        if plain.shape[axis] == count:
            ours = np.moveaxis(plain, axis, 0).reshape(count, -1)
            theirs = np.moveaxis(folded, axis, 0).reshape(count, -1)
            times = (ours * theirs).sum(1) / np.maximum((ours * ours).sum(1), _TINY)
            rest = np.abs(theirs - times[:, None] * ours).max()
            if rest <= _RATIO * np.abs(theirs).max() and (times != 1).any():
                return np.asarray(times, np.float64)
    return None


def _is_near(one: Floats, two: Floats) -> bool:
    return one.shape == two.shape and bool(
        np.abs(one - two).max() <= _SAME * max(np.abs(two).max(), 1e-30)
    )


class _Products:
    """The paired weights of products, by the modules that have them or equal copies."""

    def __init__(self, views: Views, pairs: Iterable[RecordPair]) -> None:
        self._views = views
        self._first: dict[tuple[_Holder, _Holder], tuple[int, RecordPair]] = {}
        for place, pair in enumerate(pairs):
            ends = views[0].records[pair.reference[0]], views[1].records[pair.candidate]
            is_weight = all(end.role is Role.WEIGHT and end.phase is Phase.FORWARD for end in ends)
            if len(pair.reference) == 1 and is_weight and len(ends[1].shape) > 1:
                known = [(("of", end.module), ("is", end.value)) for end in ends]
                for key in product(known[0], known[1]):
                    self._first.setdefault(key, (place, pair))

    def of(self, fold: Fold) -> tuple[Floats, Floats] | None:
        """Give the weight of the layer and of its partner, as the candidate lays them out."""
        wanted = (fold.layer, fold.partner) if fold.side == 0 else (fold.partner, fold.layer)
        held = [_held(view, module) for view, module in zip(self._views, wanted, strict=True)]
        known = [self._first[key] for key in product(held[0], held[1]) if key in self._first]
        if not known:
            return None
        _, pair = min(known, key=lambda found: found[0])
        ends = self._views[0].records[pair.reference[0]], self._views[1].records[pair.candidate]
        made = pair.rule.apply([_array(self._views[0], ends[0])], ends[1].shape)
        both = np.asarray(made, np.float64), _array(self._views[1], ends[1])
        return both if fold.side == 0 else both[::-1]


def _held(view: View, module: int) -> list[_Holder]:
    """Give what a weight of a module, or an equal copy of it, is known by."""
    own = {view.records[record].value for record in view.weights[module]}
    return [("of", module), *(("is", value) for value in own)]


class _States:
    """The vectors that the modules of possible folds keep, by neutral name."""

    def __init__(self, views: Views, folds: Iterable[Fold]) -> None:
        self._views = views
        self._records: dict[tuple[int, int], list[RecordInfo]] = {}
        for fold in folds:
            for key in ((fold.side, fold.norm), (fold.side, fold.layer)):
                self._records[key] = []
            self._records[1 - fold.side, fold.partner] = []
        for side, view in enumerate(views):
            for record in view.records:
                is_kept = record.role in {Role.WEIGHT, Role.BUFFER}
                is_before = is_kept and record.phase is Phase.FORWARD and len(record.shape) == 1
                if is_before and (side, record.module) in self._records:
                    self._records[side, record.module].append(record)

    def of(self, side: int, module: int) -> dict[str, Floats]:
        form = form_of(self._views[side].modules[module])
        found = {}
        for record in self._records[side, module]:
            name = record.slot.removeprefix(".")
            held = None if form is None else form.find(name, ())
            found[name if held is None else held.atoms[0]] = _array(self._views[side], record)
        return found


def _epsilon(view: View, module: int) -> float:
    attributes = view.modules[module].attributes
    for name in ("eps", "epsilon", "_epsilon"):
        given = attributes.get(name)
        if isinstance(given, int | float):
            return float(given)
    return _EPSILON


def _array(view: View, record: RecordInfo) -> Floats:
    return np.asarray(view.side.array(record), np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absorbed:
    """What the outputs of one side's calls are on the other side."""

    ends: dict[int, int | None] = field(default_factory=dict)
    """By call: the call whose output the partner gives, None if a function gives it."""
    reasons: dict[int, str] = field(default_factory=dict)
    """By value that only this side has: why."""


def absorbed(
    views: tuple[View, View],
    calls: CallPairs,
    folds: Iterable[Fold],
    weights: Iterable[RecordPair],
) -> tuple[Absorbed, Absorbed]:
    """Find the calls of each side whose partners do more.

    Args:
        views: Both sides.
        calls: The paired calls.
        folds: Norms that one side folded into the layer before.
        weights: The pairs of weights.
    """
    found = Absorbed(), Absorbed()
    for fold in folds:
        other = views[1 - fold.side].modules[fold.partner].path
        norm = views[fold.side].modules[fold.norm].path
        for call, end in fold.calls:
            _note(
                views[fold.side], found[fold.side], call, end, f"before {norm!r}, which {other!r}"
            )
    for pair in weights:
        if pair.note == MOVED:
            one, two = views[0].records[pair.reference[0]], views[1].records[pair.candidate]
            _take(views, 0, (one.module, two.module), calls.back, found[0])
            _take(views, 1, (two.module, one.module), calls.ahead, found[1])
    return found


def _take(
    views: tuple[View, View],
    side: int,
    modules: tuple[int, int],
    partners: Mapping[int, int],
    found: Absorbed,
) -> None:
    """Note the layer before a vector that stands apart, if its partner keeps the vector."""
    view, (apart, keeper) = views[side], modules
    for call in views[1 - side].executed[keeper]:
        mine = partners.get(call)
        if mine is not None and view.calls[mine].module != apart and not view.inner[mine]:
            keeps = views[1 - side].modules[keeper].path
            end = _fed(view, mine, view.executed[apart])
            _note(view, found, mine, end, f"before what {keeps!r}")


def _fed(view: View, call: int, others: Sequence[int]) -> int | None:
    """Give the one of some calls without inner ones that takes the output of a call as it is."""
    made = view.main(call, Role.OUTPUT)
    if made is None or made.value is None:
        return None
    for other in others:
        given = view.main(other, Role.INPUT)
        if given is not None and given.value == made.value and not view.inner[other]:
            return other
    return None


def _note(view: View, found: Absorbed, call: int, end: int | None, before: str) -> None:
    there = "reference" if view.name == "candidate" else "candidate"
    found.ends[call] = end
    for role in (Role.OUTPUT, Role.GRAD_OUTPUT):
        for record in view.select(call, role):
            if record.value is not None:
                found.reasons.setdefault(record.value, f"{before} of the {there} does as well")
