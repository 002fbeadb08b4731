"""Calls of operators as data: tensors by fill and seed, written to JSON and read from it."""

from __future__ import annotations

from padiff.dumpfile import Dtype

from .case import (
    Argument,
    Case,
    Fill,
    HeldTensor,
    Layout,
    Tensor,
    case_from_json,
    case_to_json,
    cases_from_json,
    cases_to_json,
    rounded,
    tensors_of,
)
from .elements import signs

__all__ = [
    "Argument",
    "Case",
    "Dtype",
    "Fill",
    "HeldTensor",
    "Layout",
    "Tensor",
    "case_from_json",
    "case_to_json",
    "cases_from_json",
    "cases_to_json",
    "rounded",
    "signs",
    "tensors_of",
]
