"""The primitives of JAX (``jax.lax``): operands by position, parameters by name.

Functions with a derivative of their own at a kink are recorded whole, as ``jax.nn``'s.
"""

from __future__ import annotations

from padiff.program.lowering.rules import Table

from . import elementwise, networks, shapes

__all__ = ["JAX"]

JAX = Table(
    framework="jax",
    prefixes={"": "jax.lax.", "nn.": "jax.nn."},
    rows=tuple(entry for room in (elementwise, shapes, networks) for entry in room.ROWS),
    aliases={},
)
