"""Several faults at once in a model that is fed: each of them is named, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
import transformers

import padiff
from examples.resnet import paddle_model as resnet_paddle
from examples.resnet import torch_model as resnet_torch
from examples.transformer import paddle_model as transformer_paddle
from examples.transformer import torch_model as transformer_torch
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumper import adapters
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.feedphase import FeedPhase
from padiff.dumper.runs.steploop import LiveRun, record_steps
from padiff.dumper.weights.weights import load_weights
from padiff.dumpfile import Phase
from tests.support import planted_paddle, planted_torch

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).parents[2] / "examples"
BUILD: dict[tuple[str, str], Callable[[], Any]] = {
    ("resnet", "torch"): resnet_torch.build,
    ("resnet", "paddle"): resnet_paddle.build,
    ("transformer", "torch"): transformer_torch.build,
    ("transformer", "paddle"): transformer_paddle.build,
}
KEYWORDS = {("resnet", "torch"): "pixel_values", ("resnet", "paddle"): "x"}
PLANTED = {"torch": planted_torch.FAULTS, "paddle": planted_paddle.FAULTS}
STAGES = "resnet.encoder.stages"
PATHS = {
    "torch": {
        "epsilon": f"{STAGES}.2.layers.0.layer.1.normalization",
        "weight": f"{STAGES}.1.layers.1.layer.0.convolution",
        "padding": f"{STAGES}.2.layers.0.layer.0.convolution",
        "branch": f"{STAGES}.1.layers.0",
    },
    "paddle": {
        "epsilon": "layer3.0.bn2",
        "weight": "layer2.1.conv1",
        "padding": "layer3.0.conv1",
        "branch": "layer2.0",
    },
}
"""Modules of the ResNet; those of the encoder have the same names in both."""
LAYERS = "encoder.layers"


@pytest.fixture(params=["torch", "paddle"])
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Give a dump of each example in each framework, all with torch's weights."""
    out = tmp_path_factory.mktemp("references")
    found: dict[tuple[str, str], Path] = {}
    for example, framework in BUILD:
        weights = found.get((example, "torch"))
        found[example, framework] = record(example, framework, out / example, weights=weights)
    return found


def record(
    example: str,
    framework: str,
    out: Path,
    *,
    faults: tuple[str, ...] = (),
    weights: Path | None = None,
    feed: Path | None = None,
    phase: FeedPhase = FeedPhase.BOTH,
) -> Path:
    """Dump an example with faults that are planted after the weights were loaded."""
    model = BUILD[example, framework]()
    model.eval()
    if weights is not None:
        load_weights(model, adapters.find(model), weights)
    for fault in faults:
        PLANTED[framework][example][fault](model)
    array = np.load(EXAMPLES / example / ("x.npy" if example == "resnet" else "ids.npy"))
    tensor = torch.from_numpy(array) if framework == "torch" else paddle.to_tensor(array)
    run = LiveRun(
        model=model,
        inputs={KEYWORDS.get((example, framework), "ids"): tensor},
        loss=lambda output: getattr(output, "logits", output).square().mean(),
        feed=feed,
        feed_phase=phase,
    )
    return record_steps(run, RecordSettings(out=out, name=framework))


def fed(
    references: dict[tuple[str, str], Path],
    out: Path,
    sides: tuple[str, str],
    example: str,
    faults: tuple[str, ...],
    phase: FeedPhase = FeedPhase.BOTH,
) -> Comparison:
    """Compare the reference in one framework with a faulty candidate in another."""
    reference = references[example, sides[0]]
    candidate = record(
        example,
        sides[1],
        out,
        faults=faults,
        weights=references[example, "torch"],
        feed=reference,
        phase=phase,
    )
    return compare(reference, candidate, CompareSettings())


def named(found: Comparison, phase: Phase) -> set[str]:
    """Name the candidate's module of every origin in a phase."""
    pairs = [origin.pair for origin in found.origins if origin.phase is phase]
    return {pair.candidate.address.module for pair in pairs if pair.candidate is not None}


@pytest.mark.parametrize("sides", [("torch", "torch"), ("torch", "paddle"), ("paddle", "torch")])
@pytest.mark.parametrize("example", ["resnet", "transformer"])
def test_a_right_model_matches_when_fed(
    references: dict[tuple[str, str], Path], tmp_path: Path, example: str, sides: tuple[str, str]
) -> None:
    found = fed(references, tmp_path, sides, example, ())

    assert (found.verdict, found.divergences) == (Verdict.MATCH, ())


@pytest.mark.parametrize("sides", [("torch", "torch"), ("torch", "paddle"), ("paddle", "torch")])
@pytest.mark.parametrize("phase", [FeedPhase.FORWARD, FeedPhase.BOTH])
def test_every_fault_in_a_resnet_is_named(
    references: dict[tuple[str, str], Path],
    tmp_path: Path,
    sides: tuple[str, str],
    phase: FeedPhase,
) -> None:
    faults = ("epsilon", "weight", "padding")

    found = fed(references, tmp_path, sides, "resnet", faults, phase)

    assert named(found, Phase.FORWARD) == {PATHS[sides[1]][fault] for fault in faults}
    assert named(found, Phase.BACKWARD) == set()


def test_every_fault_in_an_encoder_is_named(
    references: dict[tuple[str, str], Path], tmp_path: Path, framework: str
) -> None:
    faults = ("epsilon", "tanh GELU", "weight", "missing scale")

    found = fed(references, tmp_path, ("torch", framework), "transformer", faults)

    assert named(found, Phase.FORWARD) == {
        f"{LAYERS}.1.norm1",
        f"{LAYERS}.1",
        f"{LAYERS}.0.linear2",
        f"{LAYERS}.0.self_attn",
    }
    assert named(found, Phase.BACKWARD) == set()


@pytest.mark.parametrize("phase", [FeedPhase.BACKWARD, FeedPhase.BOTH])
def test_every_gradient_fault_in_a_resnet_is_named(
    references: dict[tuple[str, str], Path], tmp_path: Path, framework: str, phase: FeedPhase
) -> None:
    faults = ("epsilon, backward only", "detached branch")

    found = fed(references, tmp_path, ("torch", framework), "resnet", faults, phase)

    paths = PATHS[framework]
    assert named(found, Phase.FORWARD) == set()
    assert named(found, Phase.BACKWARD) == {paths["epsilon"], paths["branch"]}


def test_every_gradient_fault_in_an_encoder_is_named(
    references: dict[tuple[str, str], Path], tmp_path: Path, framework: str
) -> None:
    faults = ("tanh GELU, backward only", "query gradient", "detached value")

    found = fed(references, tmp_path, ("torch", framework), "transformer", faults)

    assert named(found, Phase.FORWARD) == set()
    assert named(found, Phase.BACKWARD) == {
        f"{LAYERS}.1",
        f"{LAYERS}.0.self_attn",
        f"{LAYERS}.1.self_attn",
    }


def test_replaced_activations_are_named_where_their_values_are_judged_elsewhere() -> None:
    """A module of another kind has no partner, so it runs unfed, and its value is its caller's."""
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        vocab_size=100,
    )
    torch.manual_seed(0)
    models: list[Any] = [transformers.BertForSequenceClassification(config) for _ in range(2)]
    for model in models:
        model.eval()
    right, wrong = models
    faulty = wrong.bert
    faulty.encoder.layer[0].output.LayerNorm.eps = 1e-2
    faulty.encoder.layer[2].intermediate.intermediate_act_fn = torch.nn.ReLU()
    faulty.pooler.activation = torch.nn.Identity()
    ids = np.arange(12).reshape(2, 6)

    found = padiff.auto_diff(right, wrong, ([ids], [ids]), single_step=True, quiet=True)

    ends = [(origin.phase, origin.pair.reference) for origin in found.origins]
    assert [(phase, end.address.module) for phase, end in ends if end is not None] == [
        (Phase.FORWARD, "bert.encoder.layer.0.output.LayerNorm"),
        (Phase.FORWARD, "bert.encoder.layer.2.intermediate.intermediate_act_fn"),
        (Phase.FORWARD, "bert.pooler.activation"),
    ]
