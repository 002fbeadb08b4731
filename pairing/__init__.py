"""Which part of the reference is which of the candidate, and by which layout rule.

A public name is loaded when it is first used: who needs the kind of a module pairs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile.lazynames import lazy_names

if TYPE_CHECKING:
    from .kinds import kind_of
    from .learning import RunPartners
    from .maps.mapfile import MapFile, RanksEntry, read_map
    from .result import (
        Absence,
        CallPair,
        ModulePair,
        PairedBy,
        Pairing,
        RecordPair,
        SideName,
        UnmatchedRecord,
    )
    from .rule import IDENTITY, Rule
    from .side import Side, rows_of
    from .stages import learn_partners, pair
    from .tensors.layout import layouts_between
    from .tensors.sampled import Elements, Matched, elements_of, holds_all, match_elements
    from .tensors.slots import split_slot
    from .weights.carry import carry
    from .weights.plan import plan_weights
    from .weights.weight_plan import WeightAlone, WeightPair, WeightPlan
    from .weights.weight_rules import ClassRule, forget_class, register_class

__all__ = [
    "IDENTITY",
    "Absence",
    "CallPair",
    "ClassRule",
    "Elements",
    "MapFile",
    "Matched",
    "ModulePair",
    "PairedBy",
    "Pairing",
    "RanksEntry",
    "RecordPair",
    "Rule",
    "RunPartners",
    "Side",
    "SideName",
    "UnmatchedRecord",
    "WeightAlone",
    "WeightPair",
    "WeightPlan",
    "carry",
    "elements_of",
    "forget_class",
    "holds_all",
    "kind_of",
    "layouts_between",
    "learn_partners",
    "match_elements",
    "pair",
    "plan_weights",
    "read_map",
    "register_class",
    "rows_of",
    "split_slot",
]

_HOMES = {
    "Absence": "result",
    "CallPair": "result",
    "ClassRule": "weights.weight_rules",
    "Elements": "tensors.sampled",
    "IDENTITY": "rule",
    "MapFile": "maps.mapfile",
    "RanksEntry": "maps.mapfile",
    "Matched": "tensors.sampled",
    "ModulePair": "result",
    "PairedBy": "result",
    "Pairing": "result",
    "RecordPair": "result",
    "Rule": "rule",
    "RunPartners": "learning",
    "Side": "side",
    "SideName": "result",
    "UnmatchedRecord": "result",
    "WeightAlone": "weights.weight_plan",
    "WeightPair": "weights.weight_plan",
    "WeightPlan": "weights.weight_plan",
    "carry": "weights.carry",
    "elements_of": "tensors.sampled",
    "forget_class": "weights.weight_rules",
    "holds_all": "tensors.sampled",
    "kind_of": "kinds",
    "layouts_between": "tensors.layout",
    "learn_partners": "stages",
    "match_elements": "tensors.sampled",
    "pair": "stages",
    "plan_weights": "weights.plan",
    "read_map": "maps.mapfile",
    "register_class": "weights.weight_rules",
    "rows_of": "side",
    "split_slot": "tensors.slots",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
