"""Models of different authors get equal weights without a map file, and then agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
import transformers

from padiff.dumper.weights import assign_weight

if TYPE_CHECKING:
    from collections.abc import Callable

vision = paddle.vision.models
TOLERANCE = 1e-4
LABELS: dict[str, Any] = {"num_labels": 10}


def _resnet() -> Any:  # noqa: ANN401 - untyped library
    config = transformers.ResNetConfig(
        embedding_size=64,
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        **LABELS,
    )
    return transformers.ResNetForImageClassification(config)


def _mobilenet1() -> Any:  # noqa: ANN401 - untyped library
    config = transformers.MobileNetV1Config(tf_padding=False, layer_norm_eps=1e-5, **LABELS)
    return transformers.MobileNetV1ForImageClassification(config)


def _mobilenet2() -> Any:  # noqa: ANN401 - untyped library
    config = transformers.MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5, **LABELS)
    return transformers.MobileNetV2ForImageClassification(config)


PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "resnet18": (_resnet, lambda: vision.resnet18(num_classes=10)),
    "mobilenet_v1": (_mobilenet1, lambda: vision.mobilenet_v1(num_classes=10)),
    "mobilenet_v2": (_mobilenet2, lambda: vision.mobilenet_v2(num_classes=10)),
}


def _randomize(model: Any) -> None:  # noqa: ANN401 - untyped library
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


@pytest.mark.parametrize("name", PAIRS)
def test_pair_of_authors_agrees_without_a_map(name: str) -> None:
    reference, candidate = (build() for build in PAIRS[name])
    _randomize(reference)
    reference.eval()
    candidate.eval()
    image = np.random.default_rng(0).normal(size=(2, 3, 64, 64)).astype(np.float32)

    plan = assign_weight(reference, candidate)

    assert not plan.ambiguous
    with torch.no_grad(), paddle.no_grad():
        expected = reference(pixel_values=torch.tensor(image)).logits.numpy()
        found = candidate(paddle.to_tensor(image)).numpy()
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
