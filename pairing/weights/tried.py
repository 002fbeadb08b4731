"""Which weights make a run agree with the reference's: proof by value.

Names and shapes do not tell which rows of a fused projection are the query. What comes out further
on does: of the ways that are tried, one makes the values behind the projection those of the
reference, and the others do not. A value that no way changes, or that several make right, tells
nothing.

Two norms of a block have the same shapes, and authors name them otherwise. In a run with the right
weights up to there each one is given what its partner is given, and nothing else is.

Which of the layers that are given one value is which only shows behind them. Query, key and value
of an attention, or norms side by side, are given the same on both sides. In each way in which they
can be exchanged their weights are laid out alike; the names of a way say which of the reference's
layers takes which place.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError, DumpError, Phase, Role
from padiff.pairing.calls.confidence import Holding
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.steps import COUNTING, JOINING, PICKING

from .standing import unnumbered
from .weight_plan import WeightChoice, WeightWay

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from padiff.dumpfile import Index, RecordInfo, ValueInfo
    from padiff.pairing.result import ModulePair, Pairing, RecordPair
    from padiff.pairing.side import Side

    from .weight_plan import WeightPair


_MOST = 64
"""So many values that differ between two runs are looked at, the first ones."""
_NEAR, _NEAR_HALF = 1e-3, 3e-2
"""Relative L2 errors of values that agree; in 16 bits, whose epsilons are 9.8e-4 and 7.8e-3."""
_APART = 20.0
"""How many times further away all other ways must be. Swapping query and key of a model with its
initial weights of 0.02 moves the output by 1e-4 of its size, rounding in float32 by 1e-6."""
_ROUNDING = 1e-7
"""Errors below this are rounding in float32, and as good as none."""
_HALVES = frozenset({"float16", "bfloat16"})
_DIFFERENT = frozenset({*JOINING, *PICKING, *COUNTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """A value of an activation that both runs make."""

    pair: RecordPair
    order: int
    """When the candidate makes it."""
    limit: float
    """Relative L2 error up to which it agrees."""


def meetings_of(
    reference: Side,
    candidate: Side,
    pairing: Pairing,
    owners: tuple[Collection[int], Collection[int]] = ((), ()),
) -> list[Meeting]:
    """List the values of activations that should be equal, in the candidate's order.

    Args:
        reference: The reference's run.
        candidate: A run of the candidate.
        pairing: What belongs to what.
        owners: Modules of each side whose weights are in question. What these put out is left
            out: it is laid out as their weights are, whatever these should be.
    """
    sides = reference.index, candidate.index
    found = []
    for pair in pairing.records:
        if len(pair.reference) > 1 or any(step.verb in _DIFFERENT for step in pair.rule.steps):
            continue
        records = sides[0].records[pair.reference[0]], sides[1].records[pair.candidate]
        is_activation = records[1].role in {Role.INPUT, Role.OUTPUT}
        is_own = any(
            record.role is Role.OUTPUT and record.module in own
            for record, own in zip(records, owners, strict=True)
        )
        if is_activation and not is_own and records[1].phase is Phase.FORWARD:
            found.append(
                Meeting(
                    pair=pair,
                    order=records[1].order,
                    limit=limit_of((reference, records[0]), (candidate, records[1])),
                )
            )
    return sorted(found, key=lambda one: one.order)


def changed(one: Side, other: Side, meetings: Iterable[Meeting]) -> list[Meeting]:
    """Return the first of the meetings at which two runs of the candidate hold different values."""
    found: list[Meeting] = []
    for meeting in meetings:
        records = (side.index.records[meeting.pair.candidate] for side in (one, other))
        digests = {
            _value(side, record).digest for side, record in zip((one, other), records, strict=True)
        }
        if len(digests) > 1:
            found.append(meeting)
        if len(found) == _MOST:
            break
    return found


def errors_at(reference: Side, candidate: Side, meetings: Iterable[Meeting]) -> list[float]:
    """Measure how far a run of the candidate is from the reference: relative L2 errors."""
    sides = reference.index.records, candidate.index.records
    found = []
    for meeting in meetings:
        pair = meeting.pair
        one, two = sides[0][pair.reference[0]], sides[1][pair.candidate]
        found.append(error_between((reference, one), (candidate, two), pair.rule))
    return found


def told_by(meetings: Sequence[Meeting], tried: Sequence[Sequence[float]]) -> int | None:
    """Return which of several runs the values single out, None where none or not always the same.

    Args:
        meetings: Where the runs differ.
        tried: The errors of each run there.
    """
    found: set[int] = set()
    for place, meeting in enumerate(meetings):
        errors = [run[place] for run in tried]
        best = min(range(len(errors)), key=errors.__getitem__)
        others = [error for run, error in enumerate(errors) if run != best]
        if errors[best] <= meeting.limit and others and is_apart(errors[best], others):
            found.add(best)
    return found.pop() if len(found) == 1 else None


def limit_of(*ends: tuple[Side, RecordInfo]) -> float:
    """Return the relative L2 error up to which two values agree, by their dtypes."""
    kinds = {_value(side, record).dtype for side, record in ends}
    return _NEAR_HALF if kinds & _HALVES else _NEAR


def error_between(
    reference: tuple[Side, RecordInfo], candidate: tuple[Side, RecordInfo], rule: Rule = IDENTITY
) -> float:
    """Return ``||candidate - reference|| / ||reference||`` in float64; inf where unknown."""
    try:
        wanted = rule.apply([reference[0].array(reference[1])], candidate[1].shape)
        found = candidate[0].array(candidate[1])
    except (ConfigError, DumpError):
        return math.inf
    one, two = (np.asarray(array, np.float64).reshape(-1) for array in (wanted, found))
    size, error = float(np.linalg.norm(one)), float(np.linalg.norm(two - one))
    if not math.isfinite(error) or size == 0.0:
        return 0.0 if error == 0.0 else math.inf
    return error / size


def is_apart(best: float, others: Iterable[float]) -> bool:
    """Return whether all other errors are so much larger that the best one is no chance."""
    return all(error > _APART * max(best, _ROUNDING) for error in others)


def _value(side: Side, record: RecordInfo) -> ValueInfo:
    return side.index.values[record.value or 0]


Kind = tuple[object, ...]
"""Class and shapes of a layer."""
Given = tuple[Kind, "RecordInfo | None"]
_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_RESHAPE = Rule.parse("reshape")


def open_layers(reference: Index, candidate: Index, pairs: Iterable[WeightPair]) -> dict[int, int]:
    """Return the candidate's modules whose weights are in doubt, with the supposed partners."""
    found: dict[int, set[int]] = {}
    for pair in pairs:
        sources = {reference.records[one].module for one in pair.reference}
        own = found.setdefault(candidate.records[pair.candidate].module, set())
        own.update(sources if len(pair.reference) == 1 else {-1})
    single = {module: sources.pop() for module, sources in found.items() if len(sources) == 1}
    return {module: source for module, source in single.items() if source >= 0}


def partners_by_input(
    reference: Side, candidate: Side, layers: Mapping[int, int], rules: Mapping[int, Rule]
) -> dict[int, int]:
    """Return each open layer the only one of the supposed partners that is given the same.

    Returns:
        Modules that take what no layer of their kind takes, or several take, are left out.
    """
    table = layers_given(reference, layers.values())
    found: dict[int, int] = {}
    for module, supposed in layers.items():
        best = partner_by_input((reference, candidate), module, table, table[supposed][0], rules)
        if best is not None:
            found[module] = best
    uses = Counter(found.values())
    return {module: other for module, other in found.items() if uses[other] == 1}


def layers_given(side: Side, modules: Iterable[int]) -> dict[int, Given]:
    """Return the kinds of layers, and what each is given first in its first call."""
    return {module: (kind_of_layer(side, module), first_input(side, module)) for module in modules}


def partner_by_input(
    sides: tuple[Side, Side],
    module: int,
    others: Mapping[int, Given],
    kind: Kind,
    rules: Mapping[int, Rule],
) -> int | None:
    """Return the layer that alone is given what a module of the candidate is given."""
    given = first_input(sides[1], module)
    rivals = [
        (other, record)
        for other, (its_kind, record) in others.items()
        if record is not None and its_kind == kind
    ]
    if given is None:
        return None
    return _nearest(sides, rivals, given, rules.get(given.id, _RESHAPE))


def _nearest(
    sides: tuple[Side, Side],
    rivals: Sequence[tuple[int, RecordInfo]],
    given: RecordInfo,
    rule: Rule,
) -> int | None:
    """Return the rival that alone is given the same."""
    end = sides[1], given
    errors = sorted(
        (error_between((sides[0], record), end, rule), other) for other, record in rivals
    )
    if not errors or errors[0][0] > limit_of((sides[0], rivals[0][1]), end):
        return None
    is_alone = is_apart(errors[0][0], (error for error, _ in errors[1:]))
    return errors[0][1] if is_alone else None


def first_input(side: Side, module: int) -> RecordInfo | None:
    """Return what a module is given first in its first call."""
    calls = [call.id for call in side.index.calls if call.module == module]
    records = [
        record
        for record in side.index.records
        if calls and record.call == calls[0] and record.role is Role.INPUT
        if record.phase is Phase.FORWARD and record.value is not None
    ]
    return min(records, key=lambda record: record.order, default=None)


def kind_of_layer(side: Side, module: int) -> Kind:
    """Return what two modules must have in common to exchange their weights."""
    own = [record for record in side.index.records if record.module == module]
    shapes = sorted((record.slot, record.shape) for record in own if record.role in _OWNED)
    return side.index.modules[module].class_path, *shapes


def moved_to(
    reference: Index, candidate: Index, pairs: Iterable[WeightPair], partners: Mapping[int, int]
) -> list[WeightPair]:
    """Return the pairs of layers with the weights of other partners of the same kind.

    Args:
        reference: Tables of where the values come from.
        candidate: Tables of the model.
        pairs: Pairs of weights; those of modules without a new partner are left out.
        partners: Module of the reference for each module of the candidate that gets a partner.
    """
    slots = {
        (record.module, record.slot): record.id
        for record in reference.records
        if record.role in _OWNED and record.phase is not Phase.UPDATE
    }
    found = []
    for pair in pairs:
        module = candidate.records[pair.candidate].module
        if module in partners:
            slot = reference.records[pair.reference[0]].slot
            made = (slots[partners[module], slot],)
            others = pair.others_than(made, pair.rule)
            found.append(replace(pair, reference=made, alternatives=others))
    return found


_FEW, _MANY = 4, 12
"""Of more siblings there are more orders than are tried; of more yet, more places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Siblings:
    """As many layers of each side that are given one value."""

    reference: tuple[int, ...]
    """Module ids of the supposed partners, in the order of the candidate's."""
    candidate: tuple[int, ...]
    """Module ids, ascending."""

    @property
    def is_few(self) -> bool:
        """Return whether every order can be tried."""
        return len(self.candidate) <= _FEW

    @property
    def shifted(self) -> dict[int, int]:
        """Return each layer the partner of the next one."""
        return dict(
            zip(self.candidate, (*self.reference[1:], self.reference[0]), strict=True)
        )  # fmt: skip


def siblings_of(reference: Side, candidate: Side, layers: Mapping[int, int]) -> list[Siblings]:
    """Return the open layers that are given the same, where their supposed partners are, too."""
    ours = _together(
        reference, {other: kind_of_layer(reference, other) for other in layers.values()}
    )
    kinds = {module: kind_of_layer(reference, other) for module, other in layers.items()}
    found = []
    for modules in _together(candidate, kinds):
        partners = [layers[module] for module in modules]
        if 1 < len(modules) <= _MANY and sorted(partners) in ours:
            found.append(Siblings(reference=tuple(partners), candidate=tuple(modules)))
    return found


def met_siblings(
    sides: tuple[Side, Side],
    siblings: Iterable[Siblings],
    layers: Mapping[int, int],
    rules: Mapping[int, Rule],
) -> list[Siblings]:
    """Return those that are given what their partners are given, and no other layer in doubt is."""
    table = layers_given(sides[0], layers.values())
    found = []
    for one in siblings:
        first, *twins = one.reference
        others = {module: given for module, given in table.items() if module not in twins}
        kind = table[first][0]
        if partner_by_input(sides, one.candidate[0], others, kind, rules) == first:
            found.append(one)
    return found


def changed_layers(one: Side, other: Side, modules: Iterable[int]) -> set[int]:
    """Return the layers that two runs of the candidate give different values."""
    return {module for module in modules if _given(one, module) != _given(other, module)}


def exchanges(
    reference: Index,
    candidate: Index,
    siblings: Siblings,
    pairs: Sequence[WeightPair],
    is_allowed: Callable[[WeightPair], bool],
    orders: Iterable[tuple[int, ...]] | None = None,
) -> WeightChoice:
    """Return each order in which the layers can have the weights of their supposed partners.

    Args:
        reference: Tables of where the values come from.
        candidate: Tables of the model.
        siblings: Who may be exchanged.
        pairs: Of the plan.
        is_allowed: Tells whether no name speaks against a pair.
        orders: Of the reference's layers; None for all that there are.
    """
    paths = [reference.modules[module].path.split(".") for module in siblings.reference]
    shared = next(
        (at for at, parts in enumerate(zip(*paths, strict=False)) if len(set(parts)) > 1),
        min(map(len, paths)),
    )
    leaves = {
        module: ".".join(path[shared:])
        for module, path in zip(siblings.reference, paths, strict=True)
    }
    names = [candidate.modules[module].path for module in siblings.candidate]
    ways = []
    for order in permutations(siblings.reference) if orders is None else orders:
        partners = dict(zip(siblings.candidate, order, strict=True))
        made = tuple(moved_to(reference, candidate, pairs, partners))
        label = ", ".join(leaves[module] for module in order)
        usual = all(is_allowed(pair) for pair in made)
        ways.append(WeightWay(label=label, pairs=made, is_usual=usual))
    return WeightChoice(ways=tuple(ways), name=unnumbered(", ".join(names)))


def _together(side: Side, kinds: Mapping[int, object]) -> list[list[int]]:
    """Group modules of one kind that are given one value, ascending."""
    groups: dict[tuple[object, object], list[int]] = {}
    for module in sorted(kinds):
        given = _given(side, module)
        if given is not None:
            groups.setdefault((given, kinds[module]), []).append(module)
    return list(groups.values())


def _given(side: Side, module: int) -> object:
    record = first_input(side, module)
    return None if record is None else side.index.values[record.value or 0].digest


def grounded(modules: Sequence[ModulePair], reference: Index, candidate: Index) -> list[ModulePair]:
    """Drop pairs in doubt, and containers that are partners for nothing but pairs in doubt.

    A container has no rivals of its own: it is paired by what is inside. Where each layer in it
    might as well belong elsewhere, so might the container.
    """
    partners = {pair.reference: pair.candidate for pair in modules}
    holding = Holding(reference.modules, candidate.modules, partners)
    own = _owners(reference), _owners(candidate)
    layers = [pair for pair in modules if pair.reference in own[0] and pair.candidate in own[1]]
    around, supported = (
        holding.gather(((one.reference, one.candidate, 1.0) for one in found), np.maximum)
        for found in (
            [pair for pair in modules if pair.is_ambiguous],
            [pair for pair in layers if not pair.is_ambiguous],
        )
    )
    doubted = around.keys() - supported.keys()
    return [pair for pair in modules if not (pair.is_ambiguous or pair.reference in doubted)]


def _owners(index: Index) -> frozenset[int]:
    """Return the modules that keep parameters of their own."""
    return frozenset(record.module for record in index.records if record.role in _OWNED)
