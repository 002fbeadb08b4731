"""Exported programs run in ONNX's own evaluator and give what the framework gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.nn import functional

import padiff
from padiff.cli.main import main
from tests.support.planted_authors import MODELS

if TYPE_CHECKING:
    from pathlib import Path


class _Convolutional(nn.Module):
    """Convolution, norm, pooling, an in-place operator, a flattened head."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.two, self.head = nn.Conv2d(8, 8, 3, stride=2, groups=4), nn.Linear(8 * 9, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.norm(self.one(x)), inplace=True), 2)
        y: torch.Tensor = self.head(self.two(x).flatten(1))
        return y.log_softmax(-1)


class _Attention(nn.Module):
    """Embedding, a causal mask, attention, norm, gelu."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(20, 16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.words(ids)
        q, k, v = self.qkv(self.norm(x)).view(2, 7, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        z = functional.gelu(self.out(y.transpose(1, 2).flatten(2))) + x
        return z, z.argmax(-1)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 9), nn.SiLU(), nn.Dropout(), nn.Linear(9, 4), nn.Softmax(-1))


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


SMALL: dict[str, tuple[Any, dict[str, torch.Tensor]]] = {
    "mlp": (_mlp, {"input": draw(3, 6)}),
    "cnn": (_Convolutional, {"x": draw(2, 3, 15, 15)}),
    "attention": (_Attention, {"ids": torch.arange(14).reshape(2, 7)}),
}


def exported(model: nn.Module, inputs: dict[str, Any], folder: Path, *words: str) -> Path:
    """Record a model and export its program."""
    with padiff.record(model, name="model", out=folder, phase="forward") as recorder:
        model(**inputs)
    file = folder / "model.onnx"
    assert main(["export", str(recorder.path), "-o", str(file), *words]) == 0
    return file


def run(file: Path, inputs: dict[str, Any]) -> list[Any]:
    """Check a model strictly and run it."""
    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    given = [inputs[one.name].numpy() for one in model.graph.input]
    feeds = {one.name: array for one, array in zip(model.graph.input, given, strict=True)}
    with np.errstate(all="ignore"):  # T5 casts a logarithm of 0, and takes another element then
        found: Any = ReferenceEvaluator(model).run(None, feeds)
    return list(found)


def assert_within_rounding(found: Any, expected: torch.Tensor, *, depth: int) -> None:
    """Compare, allowing each of so many operators to round in float32."""
    expected = expected.detach()
    assert found.shape == tuple(expected.shape)
    if not expected.is_floating_point():
        np.testing.assert_array_equal(found, expected.numpy())
        return
    allowed = 16 * depth * float(np.finfo(np.float32).eps) * float(expected.abs().max())
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=allowed)


@pytest.mark.parametrize("name", SMALL)
def test_small_models_run_elsewhere(name: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    make, inputs = SMALL[name]
    model = make().eval()
    expected = model(**inputs)

    found = run(exported(model, inputs, tmp_path), inputs)

    results = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, results, strict=True):
        assert_within_rounding(one, other, depth=10)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_of_transformers_run_elsewhere(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model = model.eval()
    expected = model(**inputs)[0]

    found = run(exported(model, inputs, tmp_path), inputs)

    assert_within_rounding(found[0], expected, depth=100)


def test_weights_may_be_inputs(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, inputs = _mlp().eval(), {"input": draw(3, 6)}

    file = exported(model, inputs, tmp_path, "--no-weights", "--dtype", "float64")

    named = {one.name: one.type.tensor_type for one in onnx.load(file).graph.input}
    assert set(named) == {"input", "0.weight", "0.bias", "3.weight", "3.bias"}
    assert {one.elem_type for one in named.values()} == {onnx.TensorProto.DOUBLE}
    weights = {name: parameter.detach().double() for name, parameter in model.named_parameters()}
    (found,) = run(file, weights | {"input": inputs["input"].double()})
    assert_within_rounding(found, model(inputs["input"]), depth=10)


def test_an_operator_without_a_rule_is_a_node_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = torch.linalg.pinv(torch.special.erfcx(x)) + 1
            return y

    file = exported(Net(), {"x": draw(3, 3)}, tmp_path)

    model = onnx.load(file)
    onnx.checker.check_model(model)
    foreign = {(node.domain, node.op_type) for node in model.graph.node if node.domain}
    assert foreign == {
        ("padiff.opaque", "torch.linalg.pinv"),
        ("padiff.opaque", "torch.special.erfcx"),
    }
    assert "nodes that only padiff knows: padiff.opaque.torch" in capsys.readouterr().out
