"""The recorders that run in this process: what is recorded by name from anywhere goes to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recorder import Recorder

recorders: list[Recorder] = []
"""In the order in which they began."""
