"""Which part of the reference is which of the candidate, and by which layout rule."""

from .kinds import kind_of
from .maps.mapfile import MapFile, read_map
from .pair import pair
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
from .side import Side
from .tensors.sampled import Elements, Matched, elements_of, holds_all, match_elements
from .weights.carry import carry
from .weights.class_rule import ClassRule, forget_class, register_class
from .weights.optimizer_state import split_slot
from .weights.plan import plan_weights
from .weights.weight_plan import WeightAlone, WeightPair, WeightPlan

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
    "RecordPair",
    "Rule",
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
    "match_elements",
    "pair",
    "plan_weights",
    "read_map",
    "register_class",
    "split_slot",
]
