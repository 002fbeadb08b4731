"""Faults planted in the bundled examples are located exactly, in torch and across frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from examples.resnet import paddle_model as resnet_paddle
from examples.resnet import torch_model as resnet_torch
from examples.transformer import paddle_model as transformer_paddle
from examples.transformer import torch_model as transformer_torch
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumper import adapters
from padiff.dumper.weights.weights import load_weights
from padiff.dumpfile import Phase
from tests.support import planted_paddle, planted_torch

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE_NAMES = ("resnet", "transformer")
EXAMPLES = Path(__file__).parents[2] / "examples"
BUILD: dict[tuple[str, str], Callable[[], Any]] = {
    ("resnet", "torch"): resnet_torch.build,
    ("resnet", "paddle"): resnet_paddle.build,
    ("transformer", "torch"): transformer_torch.build,
    ("transformer", "paddle"): transformer_paddle.build,
}
FAULTS = {"torch": planted_torch.FAULTS, "paddle": planted_paddle.FAULTS}
STAGES = "resnet.encoder.stages"

FORWARD = [
    ("resnet", "epsilon", f"{STAGES}.2.layers.0.layer.1.normalization", "layer3.0.bn2"),
    ("resnet", "weight", f"{STAGES}.1.layers.1.layer.0.convolution", "layer2.1.conv1"),
    ("resnet", "padding", f"{STAGES}.2.layers.0.layer.0.convolution", "layer3.0.conv1"),
    ("resnet", "stride", f"{STAGES}.2.layers.0.layer.0.convolution", "layer3.0.conv1"),
    ("transformer", "epsilon", "encoder.layers.1.norm1", "encoder.layers.1.norm1"),
    ("transformer", "tanh GELU", "encoder.layers.1", "encoder.layers.1"),
    ("transformer", "weight", "encoder.layers.0.linear2", "encoder.layers.0.linear2"),
    ("transformer", "missing scale", "encoder.layers.0.self_attn", "encoder.layers.0.self_attn"),
]
"""Example, fault, the module that holds it in torch and in paddle."""

BACKWARD = [
    ("resnet", "epsilon, backward only", *FORWARD[0][2:]),
    ("resnet", "detached branch", f"{STAGES}.1.layers.0", "layer2.0"),
    ("transformer", "tanh GELU, backward only", "encoder.layers.1", "encoder.layers.1"),
    ("transformer", "query gradient", "encoder.layers.0.self_attn", "encoder.layers.0.self_attn"),
    ("transformer", "detached value", "encoder.layers.1.self_attn", "encoder.layers.1.self_attn"),
    ("transformer", "detached branch", "encoder.layers.1", "encoder.layers.1"),
]
"""Faults that leave the forward pass as it is, bit by bit."""


SECOND = {
    ("resnet", "stride"): (f"{STAGES}.2.layers.0.layer.1.convolution", "layer3.0.conv2"),
}
"""The second layer of faults that change two: a stride that moved from one to the next."""


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("references")
    return {example: record(example, "torch", out / example) for example in EXAMPLE_NAMES}


@pytest.fixture(params=["torch", "paddle"])
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def record(
    example: str,
    framework: str,
    out: Path,
    *,
    fault: str | None = None,
    weights: Path | None = None,
) -> Path:
    """Dump an example, with a fault that is planted after the weights were loaded."""
    model = BUILD[example, framework]()
    model.eval()
    if weights is not None and framework == "paddle":
        load_weights(model, adapters.find(model), weights)
    if fault is not None:
        FAULTS[framework][example][fault](model)
    array = np.load(EXAMPLES / example / ("x.npy" if example == "resnet" else "ids.npy"))
    tensor = torch.from_numpy(array) if framework == "torch" else paddle.to_tensor(array)
    with padiff.record(model, name=framework, out=out) as recorder:
        output = model(tensor)
        loss = getattr(output, "logits", output).square().mean()
        recorder.loss(loss)
        loss.backward()
    return recorder.path


def compare_faulty(
    references: dict[str, Path], out: Path, framework: str, example: str, fault: str
) -> Comparison:
    reference = references[example]
    candidate = record(example, framework, out, fault=fault, weights=reference)
    return compare(reference, candidate, CompareSettings())


def located(found: Comparison, phase: Phase) -> list[tuple[str, str]]:
    """Name the modules of both sides of every origin in a phase, each once."""
    pairs = [origin.pair for origin in found.origins if origin.phase is phase]
    names = [
        (pair.reference.address.module, pair.candidate.address.module)
        for pair in pairs
        if pair.reference is not None and pair.candidate is not None
    ]
    assert len(names) == len(pairs)
    return list(dict.fromkeys(names))


@pytest.mark.parametrize("example", EXAMPLE_NAMES)
def test_without_a_fault_the_same_machinery_matches(
    example: str, framework: str, references: dict[str, Path], tmp_path: Path
) -> None:
    found = compare_faulty(references, tmp_path, framework, example, "none")

    assert (found.verdict, found.divergences) == (Verdict.MATCH, ())


@pytest.mark.parametrize(("example", "fault", "torch_path", "paddle_path"), FORWARD)
def test_forward_fault_is_located_exactly(
    example: str,
    fault: str,
    torch_path: str,
    paddle_path: str,
    references: dict[str, Path],
    tmp_path: Path,
) -> None:
    """In a port; faults of one framework's two sides are cases of the score."""
    found = compare_faulty(references, tmp_path, "paddle", example, fault)

    more = [SECOND[example, fault]] if (example, fault) in SECOND else []
    assert located(found, Phase.FORWARD) == [(torch_path, paddle_path), *more]
    assert located(found, Phase.BACKWARD) == []
    assert found.origins[0].phase is Phase.FORWARD


@pytest.mark.parametrize(("example", "fault", "torch_path", "paddle_path"), BACKWARD)
def test_gradient_only_fault_is_located_exactly(
    example: str,
    fault: str,
    torch_path: str,
    paddle_path: str,
    framework: str,
    references: dict[str, Path],
    tmp_path: Path,
) -> None:
    found = compare_faulty(references, tmp_path, framework, example, fault)

    candidate_path = torch_path if framework == "torch" else paddle_path
    assert located(found, Phase.FORWARD) == []
    assert located(found, Phase.BACKWARD) == [(torch_path, candidate_path)]
