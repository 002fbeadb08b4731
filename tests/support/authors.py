"""CNNs that transformers and paddle.vision wrote independently, small, and weights for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import torch
import transformers

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS: dict[str, Any] = {"num_labels": 10}


def resnet18() -> Any:  # noqa: ANN401 - untyped library
    """Build the model, with 10 labels."""
    sizes = [64, 128, 256, 512]
    config = transformers.ResNetConfig(
        embedding_size=64, hidden_sizes=sizes, depths=[2] * 4, layer_type="basic", **LABELS
    )
    return transformers.ResNetForImageClassification(config)


def mobilenet_v1() -> Any:  # noqa: ANN401 - untyped library
    """Build the model, with 10 labels."""
    config = transformers.MobileNetV1Config(tf_padding=False, layer_norm_eps=1e-5, **LABELS)
    return transformers.MobileNetV1ForImageClassification(config)


def mobilenet_v2() -> Any:  # noqa: ANN401 - untyped library
    """Build the model, with 10 labels."""
    config = transformers.MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5, **LABELS)
    return transformers.MobileNetV2ForImageClassification(config)


CANDIDATES: dict[str, Callable[..., Any]] = {
    name: getattr(paddle.vision.models, name)
    for name in ("resnet18", "mobilenet_v1", "mobilenet_v2")
}
"""Builders of paddle.vision, by name."""
REFERENCES: dict[str, Callable[[], Any]] = {
    "resnet18": resnet18,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
}
"""Builders of transformers, by name."""


def spread(model: Any) -> None:  # noqa: ANN401 - untyped library
    """Fill with values that neither library has by default, of a size that keeps signals alive."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "running_var" in name:
                tensor.uniform_(0.5, 1.5)
            elif tensor.ndim > 1:
                tensor.normal_(0.0, tensor[0].numel() ** -0.5)
            elif tensor.is_floating_point():
                tensor.normal_(1.0 if name.endswith("weight") else 0.0, 0.1)
