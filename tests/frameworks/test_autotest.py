"""The user's own code as a test: the same text in torch and Paddle, all of it judged by float64."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import padiff
from padiff.dumpfile import ConfigError
from padiff.ops import nothing
from padiff.ops.table import LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.ops import Drawing
    from padiff.ops.autotest import Framework


@padiff.autotest(n=10)
def test_code_that_is_the_same_agrees(torch: Framework, draw: Drawing) -> object:
    batch, channels = draw.integer(1, 3), 2 * draw.integer(1, 2)
    x = draw.tensor(batch, channels, 5, 5)
    kernel, padding = draw.integer(1, 3), draw.one_of(1, "valid", nothing())
    convolution = torch.nn.Conv2d(channels, 4, kernel, padding=padding)
    norm = torch.nn.GroupNorm(2, 4, eps=draw.one_of(1e-3, nothing()))
    hidden = torch.nn.functional.gelu(norm(convolution(x)), approximate="tanh")
    pooled = 1 - hidden.flatten(start_dim=2).mean(dim=-1) / 2
    weight = draw.tensor(3, 4, dtype="float32")
    logits = torch.nn.functional.linear(pooled, weight, nothing())
    assert logits.shape == (batch, 3)
    return torch.nn.CrossEntropyLoss()(logits, draw.index(batch, high=3)), logits[:, 1:]


_IMAGE = {"1d": (2, 4, 6), "2d": (2, 4, 6, 5), "3d": (1, 4, 4, 5, 4)}
_BUILT: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Conv": ((4, 6, 2), {"stride": 2, "padding": 1, "groups": 2}),
    "ConvTranspose": ((4, 6, 2), {"stride": 2, "bias": False}),
    "BatchNorm": ((4,), {"eps": 1e-3, "momentum": 0.3}),
    "InstanceNorm": ((4,), {"affine": True}),
    "MaxPool": ((2,), {"stride": 1}),
    "AvgPool": ((2,), {"padding": 1}),
    "AdaptiveAvgPool": ((2,), {}),
    "AdaptiveMaxPool": ((2,), {}),
    "Linear": ((5, 3), {}),
    "LayerNorm": ((5,), {"eps": 1e-3}),
    "GroupNorm": ((2, 4), {}),
    "Embedding": ((6, 3), {}),
    "PReLU": ((4,), {}),
    "GELU": ((), {"approximate": "tanh"}),
    "LeakyReLU": ((0.3,), {}),
    "Softmax": ((1,), {}),
    "LogSoftmax": ((), {"dim": -1}),
    "Hardtanh": ((-0.5, 0.5), {}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_its_operator_with_the_weights_carried_over(name: str) -> None:
    family = name[:-2] if name[-2:] in _IMAGE else name
    positional, keywords = _BUILT.get(family, ((), {}))

    @padiff.autotest(n=2)
    def layer(torch: Framework, draw: Drawing) -> object:
        built = getattr(torch.nn, name)(*positional, **keywords)
        if name == "Embedding":
            return built(draw.index(2, 3, high=6))
        if name in ("NLLLoss", "CrossEntropyLoss"):
            return built(draw.tensor(3, 4), draw.index(3, high=4))
        if name.endswith("Loss"):
            target = draw.tensor(3, 4, low=0.1, high=0.9, requires_grad=False)
            return built(draw.tensor(3, 4, low=0.1, high=0.9), target)
        shape = _IMAGE.get(name[-2:], (2, 4, 5) if name == "PReLU" else (3, 4, 5))
        x = draw.tensor(*shape[:-1], 6) if name == "GLU" else draw.tensor(*shape)
        if name != "BatchNorm2d":
            return built(x)
        trained = built(x)
        return trained, built.eval()(x)  # with the buffers that the first call changed

    layer()


def test_a_defect_ends_in_a_program_that_shows_it(tmp_path: Path) -> None:
    @padiff.autotest(n=60)
    def product(torch: Framework, draw: Drawing) -> object:
        return (draw.tensor(*draw.shape(1, 2)) + 1).prod()

    with pytest.raises(AssertionError) as found:
        product()

    text = str(found.value)
    assert text.startswith("prod: candidate wrong gradient[add], v2 of this program")
    assert "tensor 1" in text
    path = tmp_path / "product.py"
    path.write_text(text.partition("\n\n")[2])
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=True, timeout=300
    )
    assert "torch gradient v2" in done.stdout
    assert "nan" in done.stdout.partition("paddle gradient v2")[2]


def test_a_known_difference_is_no_failure(tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text('[[known]]\noperator = "prod"\nreason = "the gradient of a zero"\n')

    @padiff.autotest(n=60, known=known)
    def product(torch: Framework, draw: Drawing) -> object:
        return (draw.tensor(*draw.shape(1, 2)) + 1).prod()

    product()


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (lambda torch, x: torch.sofmax(x, dim=0), "softmax"),
        (lambda torch, x: torch.nn.LSTM(3, 3)(x), "no such layer"),
        (lambda torch, x: torch.nn.Linear(3, 3, depth=2)(x), "expected arguments among"),
        (lambda torch, x: x.detach(), "no row"),
        (lambda torch, x: torch.add(x, object()), "expected a tensor, a number"),
        (lambda torch, x: x[1.5], "cannot take an index"),
        (lambda torch, x: torch.mm(x, x), "refuse 100 %"),
        (lambda torch, x: 3, "expected tensors"),
    ],
)
def test_what_cannot_be_tested_is_an_error_and_no_failure(
    called: Callable[..., object], told: str
) -> None:
    @padiff.autotest(n=3)
    def wrong(torch: Framework, draw: Drawing) -> object:
        return called(torch, draw.tensor(3))

    with pytest.raises(ConfigError) as found:
        wrong()

    assert told in f"{found.value} {found.value.hint}"


def test_an_error_of_the_users_own_comes_through() -> None:
    @padiff.autotest(n=3)
    def wrong(torch: Framework, draw: Drawing) -> object:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        wrong()


class TestMethods:
    """Tests that are methods take self, and nothing that looks like a fixture."""

    @padiff.autotest(n=3)
    def test_a_method_is_a_test(self, torch: Framework, draw: Drawing) -> object:
        assert isinstance(self, TestMethods)
        return torch.relu(draw.tensor(2))
