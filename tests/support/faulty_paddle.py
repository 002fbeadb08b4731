"""The CNN and the transformer of ``faulty_torch`` in paddle, with the same planted faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional

if TYPE_CHECKING:
    import torch

Tensor = Any


class ResidualBlock(nn.Layer):
    def __init__(self, channels: int, fault: str) -> None:
        super().__init__()
        spread = 2 if fault == "stride" else 1
        self.conv1 = nn.Conv2D(channels, channels, 3, padding=spread, dilation=spread)
        self.bn1 = nn.BatchNorm2D(channels, epsilon=1e-2 if fault == "eps" else 1e-5)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2D(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2D(channels)
        self.planted = {fault}  # a set: the recorder takes it for no attribute

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if "detached branch" in self.planted:
            hidden = hidden.detach()
        if "detached skip" in self.planted:
            x = x.detach()
        return self.relu(hidden + x)


class Cnn(nn.Layer):
    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__()
        self.stem = nn.Conv2D(3, 6, 3, stride=2, padding=1)
        kernel, padding = (2, 0) if faults.get("pool") == "stride" else (3, 1)
        self.pool = nn.AvgPool2D(kernel, stride=2, padding=padding, exclusive=True)
        self.block1 = ResidualBlock(6, faults.get("block1", ""))
        self.block2 = ResidualBlock(6, faults.get("block2", ""))
        self.head = nn.Linear(6, 5)

    def forward(self, image: Tensor) -> Tensor:
        hidden = self.block2(self.block1(self.pool(self.stem(image))))
        return self.head(hidden.mean([2, 3]))


class Attention(nn.Layer):
    def __init__(self, width: int, heads: int, fault: str) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.heads = heads
        self.planted = {fault}  # a set: the recorder takes it for no attribute

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = [batch, length, self.heads, width // self.heads]
        query, key, value = (
            layer(x).reshape(split).transpose([0, 2, 1, 3])
            for layer in (self.query, self.key, self.value)
        )
        scale = 1.0 if "scale" in self.planted else (width // self.heads) ** -0.5
        if "detached value" in self.planted:
            value = value.detach()
        weights = functional.softmax(query @ key.transpose([0, 1, 3, 2]) * scale, axis=-1)
        mixed = (weights @ value).transpose([0, 2, 1, 3]).reshape([batch, length, width])
        return self.out(mixed)


class TransformerBlock(nn.Layer):
    def __init__(self, width: int, fault: str) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, 2, fault)
        self.norm2 = nn.LayerNorm(width, epsilon=1e-3 if fault == "eps" else 1e-5)
        self.fc1 = nn.Linear(width, 2 * width)
        self.act = nn.GELU(approximate=fault == "gelu")
        self.fc2 = nn.Linear(2 * width, width)
        self.planted = {fault}  # a set: the recorder takes it for no attribute

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attention(self.norm1(x))
        x = x + (attended.detach() if "detached branch" in self.planted else attended)
        hidden = self.fc1(self.norm2(x))
        is_functional = "functional gelu" in self.planted
        hidden = functional.gelu(hidden, approximate=True) if is_functional else self.act(hidden)
        skip = x.detach() if "detached skip" in self.planted else x
        return skip + self.fc2(hidden)


class Transformer(nn.Layer):
    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        blocks = [TransformerBlock(8, faults.get(f"blocks.{place}", "")) for place in range(3)]
        self.blocks = nn.LayerList(blocks)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.tokens(ids)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))


MODELS = {"cnn": Cnn, "transformer": Transformer}


def build(name: str, faults: dict[str, str], source: torch.nn.Module) -> nn.Layer:
    """Build a model with the weights of its torch counterpart.

    Args:
        name: ``cnn`` or ``transformer``.
        faults: What is wrong, by module path; a perturbed weight comes with ``source``.
        source: The same model in torch.
    """
    model: nn.Layer = MODELS[name](faults)
    model.eval()
    state = source.state_dict()
    layers = dict(model.named_sublayers())
    for path, tensor in model.state_dict().items():
        owner, _, local = path.rpartition(".")
        local = {"_mean": "running_mean", "_variance": "running_var"}.get(local, local)
        array = np.array(state[f"{owner}.{local}"].numpy())
        is_linear = isinstance(layers[owner], nn.Linear) and array.ndim > 1
        tensor.set_value(paddle.to_tensor(array.T.copy() if is_linear else array))
    return model
