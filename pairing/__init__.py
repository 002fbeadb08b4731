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
from .side import Side
from .weight_plan import WeightAlone, WeightPair, WeightPlan

__all__ = [
    "IDENTITY",
    "Absence",
    "CallPair",
    "ClassRule",
    "MapFile",
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
    "forget_class",
    "kind_of",
    "pair",
    "plan_weights",
    "read_map",
    "register_class",
    "split_slot",
]
