"""How many processes measure large tensors where nobody says."""

from __future__ import annotations

import os

__all__ = ["MOST_JOBS", "default_jobs"]

MOST_JOBS = 4
"""More than that wait for memory, not for each other."""


def default_jobs() -> int:
    """Return the processor's cores, at most ``MOST_JOBS``."""
    return min(MOST_JOBS, os.cpu_count() or 1)
