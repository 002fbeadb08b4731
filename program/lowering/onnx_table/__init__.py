"""The operators of ONNX (opset 13 and later): inputs by position, attributes by name.

A name is ``onnx.`` and the operator's type. ONNX's own node tests run on these rows: they hold
the primitives against cases that others made.
"""

from __future__ import annotations

from padiff.program.lowering.rules import Table

from . import elementwise, networks, quantized, shapes

__all__ = ["ONNX"]

ONNX = Table(
    framework="onnx",
    prefixes={"": "onnx."},
    rows=tuple(entry for room in (elementwise, shapes, networks, quantized) for entry in room.ROWS),
    aliases={},
)
