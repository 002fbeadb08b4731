"""The table of each framework, by the name that stands in a dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .onnx_table import ONNX
from .paddle_table import PADDLE
from .torch_table import TORCH

if TYPE_CHECKING:
    from .rules import Table

__all__ = ["TABLES"]

TABLES: dict[str, Table] = {table.framework: table for table in (TORCH, PADDLE, ONNX)}
