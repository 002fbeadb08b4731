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
from padiff.program import UNIT_ROUNDOFF

from .lone import MOVED
from .weight_rules import form_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.calls.calls import CallPairs
    from padiff.pairing.result import RecordPair
    from padiff.pairing.view import View

    from .owned import Owned

_NORM = "batch_norm"
_PRODUCTS = ("linear", "conv")
_RATIO = 1e-3
"""Relative distance of the scales within a channel up to which they are one scale."""
_ROUNDINGS = 8
"""Units of rounding of each element, and of what a bias is added up from, by which folded weights
may be off: the scale is rounded four times, the product and each of two sums once."""
_TINY = 1e-300
_EPSILON = 1e-5
"""Both frameworks' default."""
Floats = npt.NDArray[np.float64]
Views = tuple["View", "View"]
_Holder = tuple[str, int | None]
"""The module that owns a weight, or its value."""
_Products = dict[tuple[_Holder, ...], tuple[int, "RecordPair"]]
_Vectors = dict[tuple[int, int], dict[str, RecordInfo]]


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
    products, vectors = _products(views, owned.pairs), _vectors(views, possible)
    checked = (_checked(views, fold, products, vectors) for fold in possible)
    return [fold for fold in checked if fold is not None]


def _possible(views: Views, side: int, partners: Mapping[int, int]) -> Iterator[Fold]:
    """Yield the norms without partner that a paired product feeds directly."""
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
    """Return the pairs of weights without those of verified folds, which are skipped."""
    reasons: dict[tuple[int, int], str] = {}
    for fold in folds:
        if fold.is_verified:
            reasons |= _reasons(views, fold)
    if not reasons:
        return owned

    def skipped(side: int, record: int) -> UnmatchedRecord | None:
        found = reasons.get((side, views[side].records[record].module))
        return None if found is None else _skip(views[side], record, found)

    gone: dict[tuple[int, int], UnmatchedRecord] = {}
    kept = []
    for pair in owned.pairs:
        ends = [*((0, record) for record in pair.reference), (1, pair.candidate)]
        found = [skipped(*end) for end in ends]
        if not any(found):
            kept.append(pair)
            continue
        for (side, record), one in zip(ends, found, strict=True):
            gone[side, record] = one or _skip(views[side], record, "folded on the other side")
    alone = [skipped(int(one.side is SideName.CANDIDATE), one.record) or one for one in owned.alone]
    return replace(owned, pairs=tuple(kept), alone=(*alone, *gone.values()))


def _skip(view: View, record: int, reason: str) -> UnmatchedRecord:
    return UnmatchedRecord(side=view.name, record=record, absence=Absence.SKIPPED, reason=reason)


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


def _checked(views: Views, fold: Fold, products: _Products, vectors: _Vectors) -> Fold | None:
    """Do the arithmetic; None if the layers' weights are not one number for each channel apart."""
    here, there = fold.side, 1 - fold.side
    try:
        weights = _weights_of(views, fold, products)
        norm, layer, partner = (
            {name: _array(views[side], record) for name, record in vectors[side, module].items()}
            for side, module in ((here, fold.norm), (here, fold.layer), (there, fold.partner))
        )
    except (ConfigError, DumpError):
        return None
    if weights is None or "mean" not in norm or "variance" not in norm:
        return None
    channels = _channels(*weights, len(norm["mean"]))
    if channels is None:
        return None
    epsilon = _epsilon(views[here], fold.norm)
    scale = norm.get("weight", 1.0) / np.sqrt(norm["variance"] + epsilon)
    shift, taken = norm.get("bias", 0.0), layer.get("bias", 0.0)
    bias = shift + (taken - norm["mean"]) * scale
    sizes = np.abs(shift) + (np.abs(taken) + np.abs(norm["mean"])) * np.abs(scale)
    added = partner.get("bias", np.zeros_like(bias))
    allowed = _ROUNDINGS * _unit(views, fold, vectors)
    plain, folded = channels
    is_scaled = bool((np.abs(folded - scale[:, None] * plain) <= allowed * np.abs(folded)).all())
    is_added = added.shape == bias.shape and bool((np.abs(added - bias) <= allowed * sizes).all())
    return replace(fold, is_verified=is_scaled and is_added)


def _unit(views: Views, fold: Fold, vectors: _Vectors) -> float:
    """Return the largest unit roundoff of what the layers of a fold keep."""
    modules = (fold.side, fold.norm), (fold.side, fold.layer), (1 - fold.side, fold.partner)
    kept = [
        views[side].values[record.value].dtype
        for side, module in modules
        for record in (
            *(views[side].records[one] for one in views[side].weights[module]),
            *vectors[side, module].values(),
        )
        if record.value is not None
    ]
    return max(UNIT_ROUNDOFF.get(dtype, 0.0) for dtype in kept)


def _channels(plain: Floats, folded: Floats, count: int) -> tuple[Floats, Floats] | None:
    """Return both weights by channel; None if one is not the other times a number for each."""
    for axis in range(plain.ndim):
        if plain.shape[axis] == count:
            ours = np.moveaxis(plain, axis, 0).reshape(count, -1)
            theirs = np.moveaxis(folded, axis, 0).reshape(count, -1)
            times = (ours * theirs).sum(1) / np.maximum((ours * ours).sum(1), _TINY)
            rest = np.abs(theirs - times[:, None] * ours).max()
            if rest <= _RATIO * np.abs(theirs).max() and (times != 1).any():
                return ours, theirs
    return None


def _products(views: Views, pairs: Iterable[RecordPair]) -> _Products:
    """Return the first pair of weights of products by their modules, or by equal copies of them."""
    found: _Products = {}
    for place, pair in enumerate(pairs):
        ends = views[0].records[pair.reference[0]], views[1].records[pair.candidate]
        is_weight = all(end.role is Role.WEIGHT and end.phase is Phase.FORWARD for end in ends)
        if len(pair.reference) == 1 and is_weight and len(ends[1].shape) > 1:
            known = [(("of", end.module), ("is", end.value)) for end in ends]
            for key in product(*known):
                found.setdefault(key, (place, pair))
    return found


def _weights_of(views: Views, fold: Fold, products: _Products) -> tuple[Floats, Floats] | None:
    """Return the weight of the layer and of its partner, as the candidate lays them out."""
    wanted = (fold.layer, fold.partner) if fold.side == 0 else (fold.partner, fold.layer)
    held = [
        [("of", module), *{("is", view.records[one].value) for one in view.weights[module]}]
        for view, module in zip(views, wanted, strict=True)
    ]
    known = [products[key] for key in product(*held) if key in products]
    if not known:
        return None
    _, pair = min(known, key=lambda found: found[0])
    one, two = views[0].records[pair.reference[0]], views[1].records[pair.candidate]
    made = pair.rule.apply([_array(views[0], one)], two.shape)
    both = np.asarray(made, np.float64), _array(views[1], two)
    return both if fold.side == 0 else both[::-1]


def _vectors(views: Views, folds: Iterable[Fold]) -> _Vectors:
    """Return the vectors that the modules of possible folds keep, by side, module and name."""
    found: _Vectors = {}
    for fold in folds:
        found |= {(fold.side, fold.norm): {}, (fold.side, fold.layer): {}}
        found[1 - fold.side, fold.partner] = {}
    for side, view in enumerate(views):
        for record in view.records:
            is_kept = record.role in {Role.WEIGHT, Role.BUFFER} and record.phase is Phase.FORWARD
            if is_kept and len(record.shape) == 1 and (side, record.module) in found:
                form, name = form_of(view.modules[record.module]), record.slot.removeprefix(".")
                held = None if form is None else form.find(name, ())
                atom = name if held is None else held.atoms[0]
                found[side, record.module][atom] = record
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
    views: Views,
    calls: CallPairs,
    folds: Iterable[Fold],
    weights: Iterable[RecordPair],
) -> tuple[Absorbed, Absorbed]:
    """Find the calls of each side whose partners do more."""
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
    views: Views,
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
            value = view.made[mine]
            ends = (
                other for other in view.executed[apart]
                if value is not None and view.given[other] == value and not view.inner[other]
            )  # fmt: skip
            keeps = views[1 - side].modules[keeper].path
            _note(view, found, mine, next(ends, None), f"before what {keeps!r}")


def _note(view: View, found: Absorbed, call: int, end: int | None, before: str) -> None:
    there = "reference" if view.name == "candidate" else "candidate"
    found.ends[call] = end
    for role in (Role.OUTPUT, Role.GRAD_OUTPUT):
        for record in view.select(call, role):
            if record.value is not None:
                found.reasons.setdefault(record.value, f"{before} of the {there} does as well")
