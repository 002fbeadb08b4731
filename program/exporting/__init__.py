"""A program as an ONNX model, for people and tools that read those."""

from __future__ import annotations

from .export import Exported, export_onnx

__all__ = ["Exported", "export_onnx"]
