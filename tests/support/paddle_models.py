"""Real models of Paddle, small: those of its own vision package, and others that people write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional
from paddle.vision import models as vision

from benchmarks.gpt_paddle import GPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LARGE", "SMALL", "tensors"]

Thing = Any


def tensors(thing: Thing) -> Iterator[paddle.Tensor]:
    """Find the tensors in what a model returned."""
    if isinstance(thing, paddle.Tensor):
        yield thing
    elif isinstance(thing, tuple | list):
        for part in thing:
            yield from tensors(part)


class _Translator(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(50, 32), nn.Embedding(50, 32)
        self.body = nn.Transformer(32, 4, 2, 2, 64, dropout=0.1, activation="gelu")
        self.head = nn.Linear(32, 50)

    def forward(self, source: paddle.Tensor, target: paddle.Tensor) -> Thing:
        mask = self.body.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.body(self.source(source), self.target(target), tgt_mask=mask))


class _Recurrent(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 6, num_layers=2, direction="bidirect", dropout=0.1)
        self.gru = nn.GRU(12, 5, time_major=False)
        self.cells = nn.RNN(nn.SimpleRNNCell(5, 4))
        self.head = nn.Linear(4, 3)

    def forward(self, ids: paddle.Tensor) -> Thing:
        values, (hidden, _) = self.lstm(self.words(ids))
        values, _ = self.gru(values)
        values, _ = self.cells(values)
        return self.head(values[:, -1]), hidden


class _Decoder(nn.Layer):
    """A layer as decoders have: rotary positions, grouped queries, a gated unit, experts."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 16)
        self.value, self.out = nn.Linear(32, 16), nn.Linear(32, 32)
        self.scale = self.create_parameter([32])
        self.router = nn.Linear(32, 4)
        self.experts = nn.LayerList([nn.Linear(32, 32) for _ in range(4)])
        steps = paddle.arange(0, 8, 2, dtype="float32") / 8
        self.register_buffer("frequencies", 1e4**-steps)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = x + self._attend(x * paddle.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))
        return x + self._mix(x * self.scale)

    def _attend(self, x: paddle.Tensor) -> Thing:
        batch, length = x.shape[:2]
        query, key, value = (
            one(x).reshape([batch, length, -1, 8]) for one in (self.query, self.key, self.value)
        )
        query, key = self._turned(query, length), self._turned(key, length)
        key, value = (paddle.repeat_interleave(one, 2, axis=2) for one in (key, value))
        made = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(made.reshape([batch, length, -1]))

    def _turned(self, x: paddle.Tensor, length: int) -> paddle.Tensor:
        angles = paddle.outer(paddle.arange(length).astype("float32"), self.frequencies)
        angles = paddle.concat([angles, angles], axis=-1)[None, :, None]
        first, second = paddle.chunk(x, 2, axis=-1)
        return x * angles.cos() + paddle.concat([-second, first], axis=-1) * angles.sin()

    def _mix(self, x: paddle.Tensor) -> paddle.Tensor:
        flat = x.flatten(0, 1)
        weights, chosen = paddle.topk(functional.softmax(self.router(flat)), 2)
        result = paddle.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, places = paddle.nonzero(chosen == number, as_tuple=True)
            rows, places = rows.flatten(), places.flatten()
            if rows.shape[0]:
                parts = functional.silu(expert(flat[rows])) * weights[rows, places].unsqueeze(-1)
                result = paddle.index_add(result, rows, 0, parts)
        return result.reshape(x.shape)


class _Segmenter(nn.Layer):
    """An encoder and decoder of images, with what such models use."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2D(3, 8, 3, stride=2, padding=1)
        self.norm, self.instance = nn.GroupNorm(2, 8), nn.InstanceNorm2D(8)
        self.up = nn.Conv2DTranspose(8, 4, 2, stride=2)
        self.head = nn.Conv2D(7, 2, 1)
        self.slope = nn.PReLU()

    def forward(self, x: paddle.Tensor) -> Thing:
        y = self.slope(self.norm(self.down(x)))
        y = functional.interpolate(self.instance(y), scale_factor=2, mode="bilinear")
        y = functional.max_pool2d(
            functional.pad(y, [1, 1, 1, 1], mode="reflect"), 2, ceil_mode=True
        )
        y = paddle.concat([self.up(y)[:, :, :16, :16], x], axis=1)
        y = paddle.where(y > 0, y, y.clip(-1, 0))
        y[:, 0] = y[:, 1] * 2
        return self.head(y)


def _ids(*shape: int) -> paddle.Tensor:
    return paddle.to_tensor(np.arange(np.prod(shape)).reshape(shape) % 17)


def _image(name: str, size: int, channels: int = 3) -> Callable[[], tuple[nn.Layer, Thing]]:
    build = getattr(vision, name)
    return lambda: (build(num_classes=5), (paddle.randn([1, channels, size, size]),))


SMALL: dict[str, Callable[[], tuple[nn.Layer, Thing]]] = {
    "LeNet": _image("LeNet", 28, 1),
    "resnet18": _image("resnet18", 32),
    "mobilenet_v1": _image("mobilenet_v1", 32),
    "mobilenet_v2": _image("mobilenet_v2", 32),
    "mobilenet_v3_small": _image("mobilenet_v3_small", 32),
    "shufflenet_v2_x0_25": _image("shufflenet_v2_x0_25", 32),
    "squeezenet1_1": _image("squeezenet1_1", 64),
    "densenet121": _image("densenet121", 32),
    "inception_v3": _image("inception_v3", 96),
    "nn.Transformer": lambda: (_Translator(), (_ids(2, 5), _ids(2, 4))),
    "recurrent": lambda: (_Recurrent(), (_ids(2, 6),)),
    "decoder with experts": lambda: (_Decoder(), (paddle.randn([2, 5, 32]),)),
    "segmenter": lambda: (_Segmenter(), (paddle.randn([1, 3, 16, 16]),)),
    "gpt": lambda: (GPT(layers=2, width=16, heads=2, vocabulary=30), (_ids(2, 6),)),
}
LARGE = {
    "alexnet": _image("alexnet", 224),
    "vgg11": _image("vgg11", 32),
    "googlenet": _image("googlenet", 224),
    "resnext50_32x4d": _image("resnext50_32x4d", 32),
    "wide_resnet50_2": _image("wide_resnet50_2", 32),
    "mobilenet_v3_large": _image("mobilenet_v3_large", 32),
}
