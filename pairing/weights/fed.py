"""Which layer of the reference takes what a layer of the candidate takes: partners by value.

Two norms of a block have the same shapes, and authors name them otherwise. In a run with the right
weights up to there each one is given what its partner is given, and nothing else is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role
from padiff.pairing.rule import Rule

from .tried import error_between, is_apart, limit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from padiff.dumpfile import Index, RecordInfo
    from padiff.pairing.side import Side

    from .weight_plan import WeightPair

Kind = tuple[object, ...]
"""Class and shapes of a layer."""
Given = tuple[Kind, "RecordInfo | None"]
_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_RESHAPE = Rule.parse("reshape")

__all__ = [
    "first_input",
    "kind_of_layer",
    "layers_given",
    "moved_to",
    "open_layers",
    "partner_by_input",
    "partners_by_input",
]


def open_layers(reference: Index, candidate: Index, pairs: Iterable[WeightPair]) -> dict[int, int]:
    """Give the candidate's modules whose weights are in doubt, with the supposed partners.

    Args:
        reference: Tables of where the values come from.
        candidate: Tables of the model.
        pairs: What is in doubt.
    """
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
    """Give each open layer the only one of the supposed partners that is given the same.

    Args:
        reference: The reference's run.
        candidate: A run of the model.
        layers: Modules of the candidate, and the reference's that they may be partners of.
        rules: Layouts that are known, by record of the candidate.

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
    """Give the kinds of layers, and what each is given first in its first call."""
    return {module: (kind_of_layer(side, module), first_input(side, module)) for module in modules}


def partner_by_input(
    sides: tuple[Side, Side],
    module: int,
    others: Mapping[int, Given],
    kind: Kind,
    rules: Mapping[int, Rule],
) -> int | None:
    """Give the layer that alone is given what a module of the candidate is given.

    Args:
        sides: The reference's run, and one of the model.
        module: Of the candidate.
        others: Layers of the reference.
        kind: Only those of this kind count.
        rules: Layouts that are known, by record of the candidate.
    """
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
    """Give the rival that alone is given the same."""
    end = sides[1], given
    errors = sorted(
        (error_between((sides[0], record), end, rule), other) for other, record in rivals
    )
    if not errors or errors[0][0] > limit_of((sides[0], rivals[0][1]), end):
        return None
    is_alone = is_apart(errors[0][0], (error for error, _ in errors[1:]))
    return errors[0][1] if is_alone else None


def first_input(side: Side, module: int) -> RecordInfo | None:
    """Give what a module is given first in its first call."""
    calls = [call.id for call in side.index.calls if call.module == module]
    records = [
        record
        for record in side.index.records
        if calls and record.call == calls[0] and record.role is Role.INPUT
        if record.phase is Phase.FORWARD and record.value is not None
    ]
    return min(records, key=lambda record: record.order, default=None)


def kind_of_layer(side: Side, module: int) -> Kind:
    """Give what two modules must have in common to exchange their weights."""
    own = [record for record in side.index.records if record.module == module]
    shapes = sorted((record.slot, record.shape) for record in own if record.role in _OWNED)
    return side.index.modules[module].class_path, *shapes


def moved_to(
    reference: Index, candidate: Index, pairs: Iterable[WeightPair], partners: Mapping[int, int]
) -> list[WeightPair]:
    """Give the pairs of layers with the weights of other partners of the same kind.

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
