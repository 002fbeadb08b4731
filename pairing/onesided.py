"""Modules whose inside one framework shows and the other hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .view import View

__all__ = ["OPAQUE", "hidden_reason"]

OPAQUE = frozenset(
    {
        "attention",
        "lstm",
        "gru",
        "rnn",
        "cell_runner",
        "cell_runner2",
        "fused_attention",
        "fused_feedforward",
        "fused_transformer",
    }
)
"""Kinds that one framework runs as one kernel and another through child modules.

torch's attention never calls ``out_proj`` as a module, Paddle's calls all four projections; the
cells of Paddle's RNN layers run only with a projection, torch's layers have none.
"""


def hidden_reason(view: View, call: int, partners: dict[int, int], other: View) -> str | None:
    """Say why a call may be one-sided: it runs inside a paired module that the other side hides.

    Args:
        view: The side of the call.
        call: A call without partner.
        partners: Partner of each paired call of this side.
        other: The other side.

    Returns:
        None if nothing explains it.
    """
    for outer in view.ancestors(call):
        if outer in partners:
            kind = view.kind(outer)
            partner = partners[outer]
            if kind in OPAQUE and other.kind(partner) == kind:
                return f"{other.path(partner) or '(root)'!r} computes this without calling a module"
            return None
    return None
