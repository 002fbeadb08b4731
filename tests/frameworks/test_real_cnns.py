"""CNNs of transformers against those of paddle.vision: whole comparisons without a map file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumper.weights.weights import assign_weight
from tests.support.authors import CANDIDATES, REFERENCES, spread
from tests.support.leaves import layers_that_ran, paired_layers

if TYPE_CHECKING:
    from pathlib import Path

COVERAGE = 0.95
FAULTS = {
    "resnet18": "layer2.0.bn2",
    "mobilenet_v1": "conv4_2._depthwise_conv.1",
    "mobilenet_v2": "features.8.conv.1.1",
}
"""The candidate's BatchNorm that gets a wrong epsilon."""


def compared(name: str, folder: Path, *, fault: str | None = None) -> Comparison:
    """Record both sides of a pair, the candidate perhaps with a fault, and compare them."""
    reference, candidate = REFERENCES[name](), CANDIDATES[name](num_classes=10)
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


@pytest.mark.parametrize("name", FAULTS)
def test_pair_of_authors_matches_without_a_map(name: str, tmp_path: Path) -> None:
    result = compared(name, tmp_path)

    assert result.verdict is Verdict.MATCH, result.reasons
    assert result.steps[0].coverage_reference.fraction >= COVERAGE
    assert result.steps[0].coverage_candidate.fraction >= COVERAGE
    for side in ("reference", "candidate"):
        layers = layers_that_ran(tmp_path / side)
        assert layers
        assert layers <= paired_layers(result, side)


def test_a_wrong_epsilon_is_named_across_different_trees(tmp_path: Path) -> None:
    fault = FAULTS["mobilenet_v1"]

    result = compared("mobilenet_v1", tmp_path, fault=fault)

    first = result.origins[0].pair.candidate
    assert result.verdict is Verdict.DIVERGED
    assert first is not None
    assert first.address.module == fault
