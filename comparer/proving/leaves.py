"""Which leaf of the candidate is which of the reference, and what each one holds.

Leaves of which both dumps keep statistics alone get other elements like theirs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from padiff.dumpfile import LeafKind, Phase, ProgramError, Role
from padiff.pairing import IDENTITY
from padiff.program import UNIT_ROUNDOFF, Image, execute

from .affine import FIXED, folded_pieces
from .computed import computed_values, exact_constants, is_unrounded
from .copies import is_copy
from .masks import Masks, are_turned, drawn_in_two_ways, pair_masks
from .settings import exact_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from padiff.pairing import Pairing, RecordPair, Rule
    from padiff.program import Leaf, Operator, Value
    from padiff.program.primitives import Array

    from .side import Side

    Other: TypeAlias = Callable[[int, Array], Array]
    """Given the id of a value and its elements, returns other elements."""

_HELD_BYTES = 256 << 20
"""Elements of what stands for values of the candidate, in float64, that are kept at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafPair:
    """A leaf of the candidate that holds what leaves of the reference hold."""

    reference: tuple[int, ...]
    """Value ids: one, or several that the rule joins."""
    candidate: int
    rule: Rule = IDENTITY


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of both sides."""

    pairs: dict[int, LeafPair]
    """By the candidate's value id."""
    cuts: list[tuple[Operator, Operator]] = field(default_factory=list)
    """Operators whose outcomes were recorded, the same on both sides."""
    lone: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """Value ids of floating-point leaves that only one side has: only their dtype's precision can
    be asked of what lies behind."""
    unequal: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """Value ids of leaves that only one side has, and of which the other holds and computes no
    copy."""
    computed: dict[int, Image] = field(default_factory=dict)
    """Values of the candidate that rest on leaves without a partner on one of the sides, and hold
    what is made of a value of the reference, or shall hold it: of which one, by value id."""
    remade: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """Value ids of weights that one side computes from others, and of those, on the other side or
    on the same: their names make them partners, and they are no copies."""
    folded: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """Value ids of weights that matter nowhere but in what the other side computes from weights in
    another form, also of those that the other side has as well, as a norm that it folded."""
    drawn: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    """What operators without a partner drew, and which hides nothing, by value id: only masks are
    made of it that have one, or the other side drew it inside of an operator."""
    masks: list[tuple[tuple[Operator, float], tuple[Operator, float]]] = field(default_factory=list)
    """What draws masks that are partners, and the share of ones in each."""
    invented: set[int] = field(default_factory=set)
    """Values of the reference of which neither dump holds elements, and which are the same."""
    exact: tuple[dict[int, float | Array], dict[int, float | Array]] = field(
        default_factory=lambda: ({}, {})
    )
    """Settings that are tensors of few bits, as they were before they were rounded."""

    def of_reference(
        self, reference: Side, candidate: Side, other: Other | None = None
    ) -> dict[int, Leaf]:
        """Return what each leaf of the reference holds.

        Where its dump keeps no elements of one, the candidate's stand for them on both sides:
        whether they are the same is another question, which digests answer.

        Args:
            reference: Its side.
            candidate: Its side.
            other: Puts other elements in the place of what a leaf of the reference holds.
        """
        lent = self._lent(reference, candidate)
        leaves = reference.lowered.leaves.values()
        return {value: self._known(reference, value, lent, other) for value in leaves}

    def of_candidate(
        self, reference: Side, candidate: Side, other: Other | None = None
    ) -> dict[int, Leaf]:
        """Return what each leaf of the candidate holds: the reference's where it has a partner."""
        lent = self._lent(reference, candidate)
        found: dict[int, Leaf] = {}
        if self.computed:
            given = self.of_reference(reference, candidate, other)
            images = _Images(reference, given, [one.value for one in self.computed.values()])
            for value, made in self.computed.items():
                found[value] = partial(images.of, made, candidate.program.values[value].shape)
        for value in candidate.lowered.leaves.values():
            pair = self.pairs.get(value)
            if value in self.computed:
                continue
            if pair is None:
                found[value] = self._own(candidate, value, 1)
                continue
            parts = [self._known(reference, one, lent, other) for one in pair.reference]
            found[value] = partial(_joined, pair.rule, parts, candidate.program.values[value].shape)
        return found

    def lone_cuts(self, reference: Side, candidate: Side) -> tuple[list[Operator], list[Operator]]:
        """Return what is taken as it was recorded, of operators without a partner.

        Those that take nothing hide nothing: what they make is a leaf like others.
        """
        paired = {one.id for one, _ in self.cuts}, {two.id for _, two in self.cuts}
        known, found = (
            [one for one in side.cuts if one.taken and one.id not in ids]
            for side, ids in zip((reference, candidate), paired, strict=True)
        )
        return known, found

    def _known(
        self,
        reference: Side,
        value: int,
        lent: Mapping[int, Callable[[], Array]],
        other: Other | None,
    ) -> Callable[[], Array]:
        """Return a function that loads a leaf of the reference; settings stay what they are."""
        load = lent.get(value) or self._own(reference, value, 0)
        if value in self.invented:
            load = partial(invented, reference, value)
        return load if other is None or value in self.exact[0] else lambda: other(value, load())

    def _lent(self, reference: Side, candidate: Side) -> dict[int, Callable[[], Array]]:
        """Return what the candidate holds of leaves of which the reference's dump keeps nothing."""
        found: dict[int, Callable[[], Array]] = {}
        values = reference.program.values
        for value, pair in sorted(self.pairs.items()):
            if all(map(reference.recorded.has_elements, pair.reference)):
                continue
            shapes = [values[one].shape for one in pair.reference]
            rules = pair.rule.inverses(shapes, candidate.program.values[value].shape)
            own = [self._own(candidate, value, 1)]
            for one, rule, shape in zip(pair.reference, rules or (), shapes, strict=False):
                if not reference.recorded.has_elements(one):
                    found.setdefault(one, partial(_joined, rule, own, shape))
        return found

    def _own(self, side: Side, value: int, which: int) -> Callable[[], Array]:
        """Return a function that loads what a side recorded of a leaf, settings unrounded."""
        exact = self.exact[which].get(value)
        if exact is None:
            return side.recorded_leaf(value)
        shape = side.program.values[value].shape
        return lambda: np.full(shape, exact)


class _Images:
    """What values of the candidate are made of, computed from the leaves of the reference."""

    def __init__(self, side: Side, leaves: Mapping[int, Leaf], wanted: Sequence[int]) -> None:
        self._side, self._leaves = side, leaves
        self._arrays: dict[int, Array] = {}
        counts = (side.lowered.specs[side.lowered.terms[one]].count for one in wanted)
        self._together = wanted if 8 * sum(counts) <= _HELD_BYTES else ()
        """What is computed at once, and kept: one rests on another."""

    def of(self, image: Image, shape: tuple[int, ...]) -> Array:
        """Compute what is made of a value of the reference."""
        if self._together and not self._arrays:
            try:
                self._arrays = execute(self._side.lowered, self._leaves, self._together)
            except ProgramError:
                self._together = ()  # what one of them needs may lack, or be too large
        found = self._arrays or execute(self._side.lowered, self._leaves, [image.value])
        return image.of(found[image.value], shape)


def _joined(rule: Rule, parts: Sequence[Callable[[], Array]], shape: tuple[int, ...]) -> Array:
    """Load leaves, and join them as a rule says."""
    return rule.apply([part() for part in parts], shape)


def pair_leaves(pairing: Pairing, reference: Side, candidate: Side) -> Leaves:
    """Pair the leaves of two programs.

    Weights, buffers and inputs by their records; constants by their elements; outcomes of
    operators that are drawn or have no rule by name and order; what dropouts drew by the records
    of what they made, by module and order (``drawn.settle_draws`` looks at what they took).
    """
    own = set(reference.lowered.leaves.values()), set(candidate.lowered.leaves.values())
    leaves = Leaves({})
    recorded = list(_of_records(pairing, reference, candidate))
    for pair in recorded:
        if pair.candidate in own[1] and own[0].issuperset(pair.reference):
            leaves.pairs.setdefault(pair.candidate, pair)
    for pair in _of_names(pairing, reference, candidate):
        leaves.pairs.setdefault(pair.candidate, pair)
    for which, side in enumerate((reference, candidate)):
        leaves.exact[which].update(exact_settings(side))
    _pair_constants(leaves, own, reference, candidate)
    _pair_cuts(leaves, own, reference, candidate)
    _pair_draws(leaves, pairing, (reference, candidate), recorded)
    _pair_masks(leaves, reference, candidate)
    _part_remade(leaves, own, reference, candidate)
    _settle_constants(leaves, own, reference, candidate)
    _part_folded(leaves, reference, candidate)
    leaves.invented.update(_without_elements(leaves, reference, candidate))
    return leaves


def _without_elements(leaves: Leaves, reference: Side, candidate: Side) -> Iterator[int]:
    """Yield leaves that are copies by their digests, and whose elements nobody recorded.

    Whether two programs are the same function does not depend on them: any others will do.
    """
    for value, pair in leaves.pairs.items():
        is_kept = candidate.recorded.has_elements(value)
        if pair.rule == IDENTITY and len(pair.reference) == 1 and not is_kept:
            known = pair.reference[0]
            ends = reference.recorded.info(known), candidate.recorded.info(value)
            digests = {None if one is None else (one.dtype, one.digest) for one in ends}
            if len(digests) == 1 and not reference.recorded.has_elements(known):
                yield known


def _part_remade(
    leaves: Leaves, own: tuple[set[int], set[int]], reference: Side, candidate: Side
) -> None:
    """Part weights that are no copies where one side computes what the other one holds.

    The direction of a weight norm has the name and the shape of the weight that it was folded to.
    """
    sides = reference, candidate
    lone = _without_partner(leaves, own)
    if not any(lone):
        return
    values = candidate.program.values
    odd = [
        pair
        for value, pair in leaves.pairs.items()
        if values[value].kind is LeafKind.PARAMETER
        and len(pair.reference) == 1
        and not is_copy(pair, *sides)
    ]
    if not odd:
        return
    kept = {value: pair for value, pair in leaves.pairs.items() if pair not in odd}
    trial = replace(leaves, pairs=kept)
    given = trial.of_reference(*sides), trial.of_candidate(*sides)
    alone = _without_partner(trial, own)
    computed = computed_values(sides, alone, given)
    made = [(value, one.value) for value, one in computed.values.items()]
    remade = [
        pair
        for pair in odd
        if not (pair.candidate in computed.unequal[1] or pair.reference[0] in computed.unequal[0])
        and any(
            (value == pair.candidate and one not in own[0])
            or (value not in own[1] and one == pair.reference[0])
            for value, one in made
        )
    ]
    for pair in remade:
        del leaves.pairs[pair.candidate]
    if remade:
        now = _without_partner(leaves, own)
        for which, ids in enumerate(now):
            leaves.remade[which].update(ids - computed.unequal[which])


def _part_folded(leaves: Leaves, reference: Side, candidate: Side) -> None:
    """Part weights that are no copies where both sides compute the same from two forms of them."""
    sides = reference, candidate
    if not any(leaves.unequal):
        return
    known, found = (side.program.values for side in sides)
    odd = {
        value: pair
        for value, pair in leaves.pairs.items()
        if found[value].kind in FIXED and not is_copy(pair, *sides)
    }
    alone = (
        {one for one in leaves.unequal[0] if known[one].kind in FIXED},
        {one for one in leaves.unequal[1] if found[one].kind in FIXED},
    )
    parted = {one for pair in odd.values() for one in pair.reference}
    kept = {value: pair for value, pair in leaves.pairs.items() if value not in odd}
    trial = replace(leaves, pairs=kept)
    folded = folded_pieces(sides, trial, (alone[0] | parted, alone[1] | odd.keys()), alone)
    leaves.computed.update(folded.images)
    for value, pair in odd.items():
        if value in folded.remade[1] and folded.remade[0].issuperset(pair.reference):
            del leaves.pairs[value]
    paired = {one for pair in leaves.pairs.values() for one in pair.reference}, leaves.pairs.keys()
    for which, ids in enumerate(folded.remade):
        leaves.folded[which].update(folded.every[which])
        leaves.remade[which].update(ids - paired[which])
        leaves.unequal[which].difference_update(ids)
        leaves.lone[which].difference_update(ids)


def _without_partner(leaves: Leaves, own: tuple[set[int], set[int]]) -> tuple[set[int], set[int]]:
    """Return the leaves without a partner, of both sides."""
    taken = {one for pair in leaves.pairs.values() for one in pair.reference}
    return own[0] - taken - leaves.drawn[0], own[1] - leaves.pairs.keys() - leaves.drawn[1]


def _settle_constants(
    leaves: Leaves, own: tuple[set[int], set[int]], reference: Side, candidate: Side
) -> None:
    """Find the leaves that the other side has as a number or computes; the others are lone."""
    sides = reference, candidate
    alone = _without_partner(leaves, own)
    leaves.exact[0].update(exact_constants(reference, sorted(alone[0]), candidate))
    leaves.exact[1].update(exact_constants(candidate, sorted(alone[1]), reference))
    alone = alone[0] - leaves.exact[0].keys(), alone[1] - leaves.exact[1].keys()
    given = leaves.of_reference(*sides), leaves.of_candidate(*sides)
    computed = computed_values(sides, alone, given)
    leaves.computed.update(computed.values)
    for unequal, side, values in zip(leaves.unequal, sides, computed.unequal, strict=True):
        unequal.update(one for one in values if side.lowered.terms[one] in side.read)
    for lone, side, values in zip(leaves.lone, sides, computed.open, strict=True):
        lone.update(
            value
            for value in values
            if "float" in side.program.values[value].dtype
            and side.lowered.terms[value] in side.read
            and not is_unrounded(side, value)
        )


def _of_records(pairing: Pairing, reference: Side, candidate: Side) -> Iterator[LeafPair]:
    known, found = reference.recorded.borders, candidate.recorded.borders
    for pair in pairing.records:
        values = [known.get(record) for record in pair.reference]
        value = found.get(pair.candidate)
        if value is not None and None not in values and not pair.candidate_rule.steps:
            ids = tuple(one for one in values if one is not None)
            if _fits(pair, ids, value, reference, candidate):
                yield LeafPair(reference=ids, candidate=value, rule=pair.rule)


_OF_RECORDS = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER})
_NAMED = {
    (Role.WEIGHT, Phase.FORWARD): LeafKind.PARAMETER,
    (Role.BUFFER, Phase.FORWARD): LeafKind.BUFFER,
    (Role.WEIGHT_GRAD, Phase.BACKWARD): LeafKind.GRADIENT,
    (Role.OPTIMIZER_STATE, Phase.UPDATE): LeafKind.STATE,
}
"""What an update takes is paired as the records of its name are, and so is what a weight was
where it was changed since the step before."""


def _of_names(pairing: Pairing, reference: Side, candidate: Side) -> Iterator[LeafPair]:
    """Yield the pairs of leaves that no record holds, but that have the name of one."""
    known, found = _by_name(reference), _by_name(candidate)
    records = reference.file.index.records, candidate.file.index.records
    for pair in pairing.records:
        info = records[1][pair.candidate]
        kind = _NAMED.get((info.role, info.phase))
        if kind is None or pair.candidate_rule.steps:
            continue
        value = found.get((kind, candidate.name_of_record(pair.candidate)))
        ids = [known.get((kind, reference.name_of_record(one))) for one in pair.reference]
        present = tuple(one for one in ids if one is not None)
        if (
            value is not None
            and len(present) == len(ids)
            and _fits(pair, present, value, reference, candidate)
        ):
            yield LeafPair(reference=present, candidate=value, rule=pair.rule)


def _by_name(side: Side) -> dict[tuple[LeafKind | None, str], int]:
    """Return the leaves that have a name; of several the last that something reads.

    An optimizer of other weights may come after a backward pass that adds to these gradients.
    Weights and buffers of records are paired as these are, or made by the constructor.
    """
    held = side.recorded.records

    def is_read(one: Value) -> bool:
        return side.lowered.terms.get(one.id) in side.read

    named = [
        one
        for one in side.program.values
        if one.name and (one.kind not in _OF_RECORDS or (one.id not in held and is_read(one)))
    ]
    named.sort(key=is_read)
    return {(one.kind, one.name): one.id for one in named}


def _fits(
    pair: RecordPair, values: tuple[int, ...], value: int, reference: Side, candidate: Side
) -> bool:
    shapes = [reference.program.values[one].shape for one in values]
    return pair.rule.fits(shapes, candidate.program.values[value].shape)


def _pair_constants(
    leaves: Leaves, own: tuple[set[int], set[int]], reference: Side, candidate: Side
) -> None:
    """Pair leaves without a record that hold the same elements."""
    taken = {one for pair in leaves.pairs.values() for one in pair.reference}
    holders: dict[object, int] = {}
    for value in sorted(own[0] - taken):
        holders.setdefault(_content(reference, value), value)
    for value in sorted(own[1] - leaves.pairs.keys()):
        content = _content(candidate, value)
        if content is not None and content in holders:
            leaves.pairs[value] = LeafPair(reference=(holders[content],), candidate=value)


def _content(side: Side, value: int) -> object:
    info = side.recorded.info(value)
    return None if info is None else (info.dtype, side.program.values[value].shape, info.digest)


def _pair_cuts(
    leaves: Leaves, own: tuple[set[int], set[int]], reference: Side, candidate: Side
) -> None:
    """Pair the k-th operator of a name with the k-th of the other side, if both have as many.

    First those that draw alike, then what is left.
    """
    for form_of in (_drawing_form, _form):
        paired = [{pair[which].id for pair in leaves.cuts} for which in (0, 1)]
        sides = [
            _by_form(side, taken, form_of)
            for side, taken in zip((reference, candidate), paired, strict=True)
        ]
        for form in sides[0].keys() & sides[1].keys():
            known, found = sides[0][form], sides[1][form]
            if len(known) != len(found):
                continue
            for one, two in zip(known, found, strict=True):
                leaves.cuts.append((one, two))
                for made, other in zip(one.outputs, two.outputs, strict=True):
                    if made in own[0] and other in own[1]:
                        leaves.pairs[other] = LeafPair(reference=(made,), candidate=other)


def _pair_draws(
    leaves: Leaves, pairing: Pairing, sides: tuple[Side, Side], made: Sequence[LeafPair]
) -> None:
    """Pair what operators drew: first those whose outcomes are paired, then others in order.

    In order within paired modules, then of all that have the same shape; what one side drew more
    often stands for itself.
    """
    known, found = (dict(_dropped_of_results(side)) for side in sides)
    for pair in made:
        parts = tuple(known[value] for value in pair.reference if value in known)
        if pair.candidate in found and len(parts) == len(pair.reference):
            own = found[pair.candidate]
            leaves.pairs.setdefault(own, LeafPair(reference=parts, candidate=own, rule=pair.rule))
    paired = {pair.candidate: pair.reference for pair in pairing.modules}
    same = {pair.reference: pair.reference for pair in pairing.modules}
    for modules in (same, paired), ({}, {}):
        taken = {one for pair in leaves.pairs.values() for one in pair.reference}
        firsts = _draws_by_form(sides[0], taken, modules[0])
        seconds = _draws_by_form(sides[1], leaves.pairs, modules[1])
        _pair_in_order(leaves, firsts, seconds)


def _pair_in_order(
    leaves: Leaves, known: Mapping[object, list[int]], found: Mapping[object, list[int]]
) -> None:
    """Pair draws of one form in order."""
    for form in known.keys() & found.keys():
        for one, two in zip(known[form], found[form], strict=False):
            leaves.pairs[two] = LeafPair(reference=(one,), candidate=two)


def _dropped_of_results(side: Side) -> Iterator[tuple[int, int]]:
    """Yield what operators made with the draw that says which elements of that were kept."""
    values = side.program.values
    for draw, operator in side.draws.items():
        if values[draw].shape == values[operator.outputs[0]].shape:
            yield operator.outputs[0], draw


def _pair_masks(leaves: Leaves, reference: Side, candidate: Side) -> None:
    """Pair the masks of draws that have no partner: they are drawn in two ways."""
    partners = [(pair.reference[0], own) for own, pair in leaves.pairs.items()]
    for own in [*drawn_in_two_ways(partners, (reference, candidate))]:
        del leaves.pairs[own]
    taken = {one for pair in leaves.pairs.values() for one in pair.reference}
    masks = Masks(reference, taken), Masks(candidate, leaves.pairs.keys())
    found = pair_masks(*masks)
    if len(found) == len(masks[0].arrays):
        for own, one in found.items():
            drawn_as = masks[0].drawn(one), masks[1].drawn(own)
            is_turned = are_turned(*drawn_as)
            leaves.computed[own] = Image(one, "1 - x" if is_turned else "x", laid=None)
            if drawn_as[0] and drawn_as[1] and not is_turned:
                leaves.masks.append((drawn_as[0], drawn_as[1]))
        for drawn, each in zip(leaves.drawn, masks, strict=True):
            drawn.update(each.covered())


def _draws_by_form(
    side: Side, taken: Container[int], modules: Mapping[int, int]
) -> dict[object, list[int]]:
    """Return the draws that are left by their shape and module.

    Args:
        side: Whose.
        taken: Those that have a partner.
        modules: The reference's module of each; empty where that does not matter.
    """
    found: dict[object, list[int]] = defaultdict(list)
    index = side.file.index
    for value, operator in side.draws.items():
        module = None if operator.call is None else index.calls[operator.call].module
        if value not in taken and (not modules or module in modules):
            where = modules[module] if modules and module is not None else None
            found[where, *side.form_of_draw(value)].append(value)
    return found


def _by_form(
    side: Side, paired: Container[int], form_of: Callable[[Side, Operator], object]
) -> dict[object, list[Operator]]:
    """Return the operators that have no partner yet by their form."""
    found: dict[object, list[Operator]] = defaultdict(list)
    for one in side.cuts:
        if one.id not in paired:
            found[form_of(side, one)].append(one)
    return found


def _form(side: Side, operator: Operator) -> object:
    """Return the last part of a name, which the frameworks share, how much it takes, and shapes."""
    name = operator.name.rpartition(".")[2]
    shapes = tuple(side.program.values[one].shape for one in operator.outputs)
    return name, len(operator.taken), shapes


def _drawing_form(side: Side, operator: Operator) -> object:
    return _form(side, operator), repr(sorted(side.drawn_by(operator).items()))


def invented(side: Side, value: int) -> Array:
    """Draw the elements of a leaf by its statistics, the same for the same digest.

    Returns:
        float64 within the smallest and the largest element, about as large on average.

    Raises:
        ProgramError: The leaf is not of real numbers, or its statistics do not tell its range.
    """
    end, info = side.program.values[value], side.recorded.info(value)
    is_real = end.dtype in UNIT_ROUNDOFF and "complex" not in end.dtype
    told = None if info is None or not is_real else info.statistics
    if told is None or told.minimum is None or told.maximum is None or told.nonfinite:
        raise ProgramError(f"value {value} has no elements in {str(side.file.path)!r}")
    mean, size = told.mean or 0.0, max(info.size if info else 0, 1)
    spread = max((told.l2 or 0.0) ** 2 / size - mean**2, 0.0) ** 0.5
    random = np.random.default_rng(int(info.digest, 16) if info else 0)
    return np.clip(random.normal(mean, spread, end.shape), told.minimum, told.maximum)
