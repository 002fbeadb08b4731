"""Which part of the reference is which of the candidate, and by which layout rule."""

from .carry import carry
from .class_rule import ClassRule, forget_class, register_class
from .kinds import kind_of
from .mapfile import MapFile, read_map
from .optimizer_state import split_slot
from .pair import pair
from .plan import plan_weights
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
from .sampled import Elements, Matched, elements_of, holds_all, match_elements
from .side import Side
from .weight_plan import WeightAlone, WeightPair, WeightPlan

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
