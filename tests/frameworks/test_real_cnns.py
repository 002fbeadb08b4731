"""CNNs of transformers against those of paddle.vision: whole comparisons without a map file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
import transformers

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumper import record
from padiff.dumper.weights import assign_weight

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

vision = paddle.vision.models
COVERAGE = 0.95
LABELS: dict[str, Any] = {"num_labels": 10}


def resnet18() -> Any:  # noqa: ANN401 - untyped library
    sizes = [64, 128, 256, 512]
    config = transformers.ResNetConfig(
        embedding_size=64, hidden_sizes=sizes, depths=[2] * 4, layer_type="basic", **LABELS
    )
    return transformers.ResNetForImageClassification(config)


def mobilenet_v1() -> Any:  # noqa: ANN401 - untyped library
    config = transformers.MobileNetV1Config(tf_padding=False, layer_norm_eps=1e-5, **LABELS)
    return transformers.MobileNetV1ForImageClassification(config)


def mobilenet_v2() -> Any:  # noqa: ANN401 - untyped library
    config = transformers.MobileNetV2Config(tf_padding=False, layer_norm_eps=1e-5, **LABELS)
    return transformers.MobileNetV2ForImageClassification(config)


PAIRS: dict[str, tuple[Callable[[], Any], Callable[..., Any], str]] = {
    "resnet18": (resnet18, vision.resnet18, "layer2.0.bn2"),
    "mobilenet_v1": (mobilenet_v1, vision.mobilenet_v1, "conv4_2._depthwise_conv.1"),
    "mobilenet_v2": (mobilenet_v2, vision.mobilenet_v2, "features.8.conv.1.1"),
}
"""Builders of both sides, and the candidate's BatchNorm that gets a wrong epsilon."""


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


def compared(name: str, folder: Path, *, fault: str | None = None) -> Comparison:
    """Record both sides of a pair, the candidate perhaps with a fault, and compare them."""
    build, other, _ = PAIRS[name]
    reference, candidate = build(), other(num_classes=10)
    spread(reference)
    reference.eval()
    candidate.eval()
    assign_weight(reference, candidate)
    if fault is not None:
        dict(candidate.named_sublayers())[fault]._epsilon = 1e-2
    image = np.random.default_rng(0).normal(size=(2, 3, 64, 64)).astype(np.float32)
    with record(reference, name="reference", out=folder) as known:
        reference(pixel_values=torch.tensor(image)).logits.mean().backward()
    with record(candidate, name="candidate", out=folder) as found:
        candidate(paddle.to_tensor(image)).mean().backward()
    return compare(known.path, found.path, CompareSettings(atol=1e-4))


@pytest.mark.parametrize("name", PAIRS)
def test_pair_of_authors_matches_without_a_map(name: str, tmp_path: Path) -> None:
    result = compared(name, tmp_path)

    assert result.verdict is Verdict.MATCH, result.reasons
    assert result.steps[0].coverage_reference.fraction >= COVERAGE
    assert result.steps[0].coverage_candidate.fraction >= COVERAGE


@pytest.mark.parametrize("name", PAIRS)
def test_a_wrong_epsilon_is_named_across_different_trees(name: str, tmp_path: Path) -> None:
    fault = PAIRS[name][2]

    result = compared(name, tmp_path, fault=fault)

    first = result.origins[0].pair.candidate
    assert result.verdict is Verdict.DIVERGED
    assert first is not None
    assert first.address.module == fault
