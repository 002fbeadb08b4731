"""Audits one dump: is what each operator recorded what its program says?"""

from __future__ import annotations

from .audit import audit, audit_dump
from .backward import Readers, measure_gradient
from .forward import Measured, measure_value
from .limits import UNDERFLOW
from .result import Audit, AuditedValue, Check, Reason, Soundness
from .sharing import Answers
from .slices import KnownProgram

__all__ = [
    "UNDERFLOW",
    "Answers",
    "Audit",
    "AuditedValue",
    "Check",
    "KnownProgram",
    "Measured",
    "Readers",
    "Reason",
    "Soundness",
    "audit",
    "audit_dump",
    "measure_gradient",
    "measure_value",
]
