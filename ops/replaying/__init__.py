"""Executes the recorded operators of a dump in the other framework."""

from __future__ import annotations

from .recordedcase import case_of, rows_by_name
from .replay import Replayed, ReplayedOperator, Status, replay_dump

__all__ = ["Replayed", "ReplayedOperator", "Status", "case_of", "replay_dump", "rows_by_name"]
