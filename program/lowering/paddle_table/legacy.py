"""Operators of Paddle's older interface that its own layers still call.

Attributes stand behind the tensors as pairs of a name and a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import activations as act
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Row, Rule, row

if TYPE_CHECKING:
    from collections.abc import Callable

_WITHOUT_MEANING = frozenset({"use_cudnn", "use_mkldnn", "use_quantizer"})


def _attributes(a: Arguments, *known: str) -> dict[str, Any]:
    """Return the attributes by name; those that choose a kernel are left away."""
    names, values = a.attributes[::2], a.attributes[1::2]
    found = dict(zip(names, values, strict=True))
    unknown = set(found) - _WITHOUT_MEANING - set(known)
    if unknown:
        raise NotLoweredError(f"attributes {sorted(unknown)}")
    return found


def _plain(function: Callable[[Builder, Term], Term]) -> Rule:
    def rule(b: Builder, a: Arguments) -> Term:
        _attributes(a)
        return function(b, a.x)

    return rule


def _gelu(b: Builder, a: Arguments) -> Term:
    approximate = _attributes(a, "approximate").get("approximate", False)
    return act.gelu_tanh(b, a.x) if approximate else act.gelu(b, a.x)


def _softmax(b: Builder, a: Arguments) -> Term:
    axis = _attributes(a, "axis").get("axis", -1)
    return b("softmax", a.x, axis=s.axis_of(b, axis, a.x.ndim))


def _added(b: Builder, a: Arguments) -> Term:
    """Add; the axes of the second value are those of the first from an axis on."""
    axis = _attributes(a, "axis").get("axis", -1)
    if axis == -1:
        return b("add", a.x, a.y)
    behind = a.x.ndim - axis - a.y.ndim
    return b("add", a.x, s.reshape(b, a.y, (*a.y.shape, *[1] * behind)))


ROWS: tuple[Row, ...] = (
    row("legacy.relu legacy.relu_", "x, *attributes", _plain(act.relu)),
    row("legacy.relu6", "x, *attributes", _plain(lambda b, x: act.clamp(b, x, 0.0, 6.0))),
    row("legacy.sigmoid", "x, *attributes", _plain(lambda b, x: b("sigmoid", x))),
    row("legacy.tanh", "x, *attributes", _plain(lambda b, x: b("tanh", x))),
    row("legacy.swish", "x, *attributes", _plain(act.silu)),
    row("legacy.gelu", "x, *attributes", _gelu),
    row("legacy.softmax", "x, *attributes", _softmax),
    row("legacy.elementwise_add", "x, y, *attributes", _added),
)
