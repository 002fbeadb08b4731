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

_MODULES = {
    "kinds": "kind_of",
    "learning": "RunPartners",
    "maps.mapfile": "MapFile RanksEntry read_map",
    "result": "Absence CallPair ModulePair PairedBy Pairing RecordPair SideName UnmatchedRecord",
    "rule": "IDENTITY Rule",
    "side": "Side rows_of",
    "stages": "learn_partners pair",
    "tensors.layout": "layouts_between",
    "tensors.sampled": "Elements Matched elements_of holds_all match_elements",
    "tensors.slots": "split_slot",
    "weights.carry": "carry",
    "weights.plan": "plan_weights",
    "weights.weight_plan": "WeightAlone WeightPair WeightPlan",
    "weights.weight_rules": "ClassRule forget_class register_class",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
