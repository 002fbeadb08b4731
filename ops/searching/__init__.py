"""Draws cases, runs them in both frameworks, and shrinks what differs."""

from __future__ import annotations

from .drawn import HypothesisDraw, cases_of, hypothesis
from .parallel import search_all
from .replay import replay, searched_of
from .running import Pair, outcomes_of, run_case, time_largest
from .search import Searched, draw_cases, search
from .stored import Stored, read_outcomes, write_outcomes
from .tested import Known, Tested, read_known

__all__ = [
    "HypothesisDraw",
    "Known",
    "Pair",
    "Searched",
    "Stored",
    "Tested",
    "cases_of",
    "draw_cases",
    "hypothesis",
    "outcomes_of",
    "read_known",
    "read_outcomes",
    "replay",
    "run_case",
    "search",
    "search_all",
    "searched_of",
    "time_largest",
    "write_outcomes",
]
