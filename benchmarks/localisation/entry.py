"""What ``padiff dump`` is pointed at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.localisation import models

if TYPE_CHECKING:
    from torch import nn


def build(kind: str, fault: str = "", depth: int = 0, style: str = "") -> nn.Module:
    """Build a model; see ``models.build``."""
    return models.build(kind, fault=fault, depth=depth, style=style)
