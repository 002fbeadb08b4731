"""What a traced program is made of: leaves, layers, calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.ops.cases import Argument, Tensor
    from padiff.ops.table import Call, Layer, Row


class StoppedError(Exception):
    """A call that ended a side, or made something else there: what follows cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A leaf: an input, a parameter, a buffer, a number."""

    value: int
    name: str
    tensor: Tensor
    layer: str = ""
    """Whose parameter or buffer it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A layer."""

    name: str
    row: Layer
    calls: Mapping[str, Call]
    """Of its class, by framework."""
    arguments: Mapping[str, Argument]
    state: Mapping[str, str]
    """Paddle's attribute by torch's."""
    values: Mapping[str, int]
    """Its parameters and buffers, by torch's attribute."""
    is_training: bool = True
    outputs: tuple[int, ...] = ()
    """As of a step: building makes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call."""

    name: str
    """Of the row, or of the layer's class."""
    row: Row | None
    calls: Mapping[str, Call]
    outputs: tuple[int, ...] = ()
    """Values; none where the call ended the program."""
    is_one: Mapping[str, bool] = field(default_factory=dict)
    """By framework, whether the result is a tensor and no list of some."""
    index: str = ""
    """Of a part of a tensor, as Python."""
