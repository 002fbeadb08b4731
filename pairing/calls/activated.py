"""Layers that apply an activation themselves, such as ``paddle.nn.BatchNorm(act="relu")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from padiff.pairing.view import View

__all__ = ["has_activations", "output_call", "values_before"]

_REACH = 64
"""So many calls after a layer its activation is looked for."""


def has_activations(view: View) -> bool:
    """Tell whether any module of a side may apply an activation by configuration."""
    return any(module.attributes.get("act") for module in view.modules)


def output_call(
    view: View, call: int, other: View, partner: int, paired: Container[int]
) -> int | None:
    """Give the call whose output does the job of the partner's output.

    Args:
        view: The side of the call.
        call: A paired call.
        other: The other side.
        partner: The partner of the call.
        paired: The paired calls of this side.

    Returns:
        The call itself, unless the partner's module applies an activation that this one does
        not; then the call of the activation that takes its output, None if no module does.
    """
    if not _activation(other, partner) or _activation(view, call):
        return call
    handed = {record.value for record in view.select(call, Role.OUTPUT)} - {None}
    for later in range(call + 1, min(call + _REACH, len(view.calls))):
        if later in paired or view.inner[later] or view.weights[view.calls[later].module]:
            continue
        if any(record.value in handed for record in view.select(later, Role.INPUT)):
            return later
    return None


def values_before(view: View, other: View, partners: Mapping[int, int]) -> dict[int, str]:
    """Give the values that only this side has, because the other's layers go on to activate them.

    Args:
        view: The side.
        other: The other side.
        partners: Partner of each paired call of this side.

    Returns:
        By value: why the other side does not have it.
    """
    found: dict[int, str] = {}
    for call, partner in partners.items() if has_activations(other) else ():
        if not _activation(other, partner) or _activation(view, call):
            continue
        module = other.modules[other.calls[partner].module]
        name = f"{module.class_name}(act={module.attributes.get('act')!r})"
        reason = f"before the activation that {name} applies itself, and so hides"
        for role in (Role.OUTPUT, Role.GRAD_OUTPUT):
            for record in view.select(call, role):
                if record.value is not None:
                    found.setdefault(record.value, reason)
    return found


def _activation(view: View, call: int) -> bool:
    """Tell whether the layer of a call has an activation of its own by configuration."""
    module = view.calls[call].module
    if not view.weights[module] or view.inner[call]:
        return False
    name = view.modules[module].attributes.get("act")
    return isinstance(name, str) and bool(name)
