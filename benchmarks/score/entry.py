"""Build a model of the corpus by name; what ``padiff dump`` is pointed at."""

from __future__ import annotations

from typing import Any

from benchmarks.score.architectures import ARCHITECTURES


def build(architecture: str, **options: Any) -> Any:  # noqa: ANN401 - untyped library
    """Build a model with seeded weights and settings of its configuration."""
    model = ARCHITECTURES[architecture].build()
    for module in model.modules():
        config = getattr(module, "config", None)
        if module is model or getattr(config, "is_decoder", False):
            for name, value in options.items():
                setattr(config, name, value)
    return model
