"""Gradients of activations: one hook for each distinct tensor, however often it is met."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.dumpfile import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place in the dump that waits for a gradient."""

    module: int
    call: int
    role: Role
    slot: str
    shape: tuple[int, ...]


@dataclass(slots=True)
class Watched:
    """A tensor whose gradient is awaited. Holds no tensor: its hook refers to it."""

    targets: list[Target] = field(default_factory=list)
    arrivals: int = 0
