"""Executes the recorded operators of a dump in the other framework."""

from __future__ import annotations

from .replay import Replayed, ReplayedOperator, Status, case_of, replay_dump, rows_by_name

__all__ = ["Replayed", "ReplayedOperator", "Status", "case_of", "replay_dump", "rows_by_name"]
