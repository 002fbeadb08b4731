"""The models that are recorded: one plain step of forward and backward, by framework and name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from .scale import Scale

FRAMEWORKS = ("torch", "paddle")
MODELS = ("resnet", "gpt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model and a function that runs it forward and backward once."""

    model: Any
    step: Callable[[], None]
    description: str
    inputs: Any
    """The array that it takes."""


def build(framework: str, name: str, *, scale: Scale) -> Workload:
    """Build a model of realistic size with its input; imports the framework.

    Args:
        framework: One of ``FRAMEWORKS``.
        name: One of ``MODELS``, or ``small gpt`` or ``deep gpt``, whose sizes are always the same.
        scale: How large it and its inputs are.
    """
    module = importlib.import_module(framework)
    module.manual_seed(0) if framework == "torch" else module.seed(0)
    model, inputs, description = _RECIPES[name](framework, scale)
    model.eval()  # running statistics would drift from round to round
    clear = model.zero_grad if framework == "torch" else partial(model.clear_gradients, False)  # noqa: FBT003
    tensor = module.from_numpy(inputs) if framework == "torch" else module.to_tensor(inputs)

    def step() -> None:
        clear()
        output = model(tensor)
        getattr(output, "logits", output).mean().backward()

    return Workload(model=model, step=step, description=description, inputs=inputs)


def _resnet(framework: str, scale: Scale) -> tuple[Any, Any, str]:
    shape, layers = scale.pick(
        full=((8, 3, 224, 224), 50), quick=((2, 3, 96, 96), 18), tiny=((1, 3, 32, 32), 18)
    )
    images = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    model = _torch_resnet(layers) if framework == "torch" else _paddle_resnet(layers)
    return model, images, f"ResNet-{layers}, input {'x'.join(map(str, shape))}"


def _torch_resnet(layers: int) -> Any:  # noqa: ANN401 - a framework's model
    if layers == 18:
        return importlib.import_module("examples.resnet.torch_model").build()
    transformers = importlib.import_module("transformers")
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000))


def _paddle_resnet(layers: int) -> Any:  # noqa: ANN401 - a framework's model
    return getattr(importlib.import_module("paddle.vision.models"), f"resnet{layers}")()


def _gpt(framework: str, scale: Scale) -> tuple[Any, Any, str]:
    layers, width, batch, length = scale.pick(
        full=(12, 768, 4, 128), quick=(2, 128, 2, 64), tiny=(1, 64, 1, 8)
    )
    # At full size of bytes: what is measured is the blocks.
    vocabulary = scale.pick(full=256, quick=8192, tiny=256)
    kind = importlib.import_module(f"benchmarks.gpt_{framework}").GPT
    model = kind(layers=layers, width=width, heads=width // 64, vocabulary=vocabulary)
    ids = np.random.default_rng(0).integers(0, vocabulary, (batch, length))
    return model, ids, f"GPT, {layers} layers of {width}, {batch}x{length} ids"


def _small_gpt(framework: str, _scale: Scale, *, layers: int = 4) -> tuple[Any, Any, str]:
    """Build a model of many operators with next to no elements."""
    kind = importlib.import_module(f"benchmarks.gpt_{framework}").GPT
    model = kind(layers=layers, width=32, heads=4, vocabulary=64)
    ids = np.random.default_rng(0).integers(0, 64, (2, 8))
    return model, ids, f"GPT, {layers} layers of 32, 2x8 ids"


_RECIPES: dict[str, Callable[[str, Scale], tuple[Any, Any, str]]] = {
    "resnet": _resnet,
    "gpt": _gpt,
    "small gpt": _small_gpt,
    "deep gpt": partial(_small_gpt, layers=16),
}
