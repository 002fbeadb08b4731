"""Layers that are given one and the same value: which is which only shows behind them.

Query, key and value of an attention, or norms side by side, are given the same on both sides. In
each way in which they can be exchanged their weights are laid out alike; the names of a way say
which of the reference's layers takes which place.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Role
from padiff.pairing.calls.confidence import Holding

from .standing import unnumbered
from .tried import first_input, kind_of_layer, layers_given, moved_to, partner_by_input
from .weight_plan import WeightChoice, WeightWay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from padiff.dumpfile import Index
    from padiff.pairing.result import ModulePair
    from padiff.pairing.rule import Rule
    from padiff.pairing.side import Side

    from .weight_plan import WeightPair

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
    """Return the open layers that are given the same, where their supposed partners are, too.

    Args:
        reference: The reference's run.
        candidate: A run of the model.
        layers: Modules of the candidate that are in doubt, with their supposed partners.
    """
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
    """Return those that are given what their partners are given, and no other layer in doubt is.

    Args:
        sides: The two runs.
        siblings: As ``siblings_of`` gives them.
        layers: As there.
        rules: Layouts that are known, by record of the candidate.
    """
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


_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})


def grounded(modules: Sequence[ModulePair], reference: Index, candidate: Index) -> list[ModulePair]:
    """Drop pairs in doubt, and containers that are partners for nothing but pairs in doubt.

    A container has no rivals of its own: it is paired by what is inside. Where each layer in it
    might as well belong elsewhere, so might the container.

    Args:
        modules: Pairs of modules, as the pairing of two runs gives them.
        reference: The reference's tables.
        candidate: The candidate's tables.
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
