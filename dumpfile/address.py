"""Where a record stands: the words ``phase`` and ``role``, and the address built from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """When within a step a record was made."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


class Role(StrEnum):
    """What a record is to its call or module."""

    INPUT = "input"
    OUTPUT = "output"
    GRAD_INPUT = "grad_input"
    GRAD_OUTPUT = "grad_output"
    WEIGHT = "weight"
    WEIGHT_GRAD = "weight_grad"
    BUFFER = "buffer"
    LOSS = "loss"
    LR = "lr"
    NAMED = "named"
    OPTIMIZER_STATE = "optimizer_state"
    RESULT = "result"
    """A part of what the model gives that is no tensor: a number, a text, an object's attribute."""


CALL_ROLES = frozenset({Role.INPUT, Role.OUTPUT, Role.GRAD_INPUT, Role.GRAD_OUTPUT})
"""The roles that belong to a call; all others belong to a module (or, at the root, to the step)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The full name of one record.

    ``str(address)`` gives ``step 0 encoder.0.attn#1 output[0]``; the rank is printed only when
    it is not 0 and the root module prints as ``(root)``.
    """

    step: int
    """Iteration, counted from 0."""
    rank: int
    """Index of the process, counted from 0."""
    module: str
    """Dotted module path; ``""`` is the root."""
    class_name: str
    """Short class name of the module."""
    call: int | None
    """Execution of the module within the step, from 0; None for roles outside ``CALL_ROLES``."""
    phase: Phase
    """When the record was made."""
    role: Role
    """What the record is."""
    slot: str
    """Place in the nested value (``""``, ``[1]``, ``.hidden_states[3]``, ``['mask']``); for
    weights, their gradients and buffers a dot and the parameter's name (``.weight``), for what an
    optimizer keeps for a weight its name behind that (``.weight['exp_avg']``)."""

    @property
    def name(self) -> str:
        """The name of a weight or buffer, or of what an optimizer keeps for it, in the model."""
        return f"{self.module}{self.slot}".lstrip(".")

    def __str__(self) -> str:
        """Print the address on one line."""
        rank = f"rank {self.rank} " if self.rank else ""
        call = "" if self.call is None else f"#{self.call}"
        return f"step {self.step} {rank}{self.module or '(root)'}{call} {self.role}{self.slot}"
