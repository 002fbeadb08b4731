"""What frameworks call the tensors that an optimizer keeps for a weight.

Measured on torch 2.13 and paddle 3.3: after a step of the same optimizer the tensors named in one
row hold the same values (docs/training.md).
"""

from __future__ import annotations

import ast

__all__ = ["is_counter", "is_same_state", "split_slot"]

_SAME = (
    frozenset({"exp_avg", "moment1", "moment"}),
    frozenset({"exp_avg_sq", "moment2"}),
    frozenset({"max_exp_avg_sq", "moment2_max"}),
    frozenset({"momentum_buffer", "velocity"}),
    frozenset({"square_avg", "mean_square", "avg_squared_grad"}),
    frozenset({"grad_avg", "mean_grad"}),
    frozenset({"sum", "moment"}),
    frozenset({"acc_delta", "avg_squared_update"}),
    frozenset({"exp_inf", "inf_norm"}),
)
"""``moment`` is Adamax's first moment in Paddle and Adagrad's sum."""

_COUNTERS = frozenset(
    {"step", "beta1_pow_acc", "beta2_pow_acc", "mu_product", "eta", "mu", "ax", "master_weight"}
    | {"momentum", "beta1_pow", "beta2_pow", "momentum_decay_pow", "rho"}
)
"""What one framework keeps and the other computes anew, or keeps elsewhere. Paddle's RMSProp keeps
its last update as ``momentum``, learning rate included, also where it has no momentum."""


def split_slot(slot: str) -> tuple[str, str]:
    """Take a slot of role ``optimizer_state`` apart.

    >>> split_slot(".weight['exp_avg']")
    ('.weight', 'exp_avg')
    """
    weight, bracket, rest = slot.rpartition("[")
    try:
        name = ast.literal_eval(rest.removesuffix("]"))
    except (ValueError, SyntaxError):
        name = rest
    return (weight, str(name)) if bracket else (slot, "")


def is_same_state(one: str, two: str) -> bool:
    """Tell whether two names mean the same tensor of an optimizer.

    >>> is_same_state("exp_avg", "moment1"), is_same_state("exp_avg", "moment2")
    (True, False)
    """
    one, two = one.strip("_"), two.strip("_")
    return one == two or any(one in names and two in names for names in _SAME)


def is_counter(name: str) -> bool:
    """Tell whether the other framework is known to keep no such thing."""
    return name.strip("_") in _COUNTERS
