"""Audits one dump: is what each operator recorded what its program says?"""

from __future__ import annotations

from .audit import audit, audit_dump
from .result import Audit, AuditedValue, Check, Soundness
from .sharing import Answers

__all__ = ["Answers", "Audit", "AuditedValue", "Check", "Soundness", "audit", "audit_dump"]
