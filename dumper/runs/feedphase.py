"""In which phases a candidate is fed what the reference recorded."""

from __future__ import annotations

from enum import StrEnum


class FeedPhase(StrEnum):
    """In which phases calls are fed."""

    FORWARD = "forward"
    BACKWARD = "backward"
    BOTH = "both"
