"""A port of Qwen2 to Paddle, as somebody writes it by hand: other names, one class for a layer."""

import paddle
from paddle import nn
from paddle.nn import functional


class RMSNorm(nn.Layer):
    """Divide by the root mean square of the last axis, scale by a weight."""

    def __init__(self, width: int, epsilon: float = 1e-6) -> None:
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=nn.initializer.Constant(1))
        self.epsilon = epsilon

    def forward(self, hidden: paddle.Tensor) -> paddle.Tensor:
        """Return a tensor of the same shape."""
        mean = hidden.square().mean(-1, keepdim=True)
        return hidden * paddle.rsqrt(mean + self.epsilon) * self.weight


def rotate(hidden: paddle.Tensor, cos: paddle.Tensor, sin: paddle.Tensor) -> paddle.Tensor:
    """Turn pairs of (batch, heads, seq, size) by angles that grow with the position."""
    first, second = hidden.chunk(2, -1)
    return hidden * cos + paddle.concat([-second, first], -1) * sin


class DecoderLayer(nn.Layer):
    """Grouped-query attention and a gated MLP, each behind a norm and with a residual."""

    def __init__(self, width: int, inner: int, heads: int, groups: int, *, repeat: str) -> None:
        super().__init__()
        self.heads, self.groups, self.size, self.repeat = heads, groups, width // heads, repeat
        self.norm1 = RMSNorm(width)
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, groups * self.size)
        self.v = nn.Linear(width, groups * self.size)
        self.o = nn.Linear(width, width, bias_attr=False)
        self.norm2 = RMSNorm(width)
        self.gate = nn.Linear(width, inner, bias_attr=False)
        self.up = nn.Linear(width, inner, bias_attr=False)
        self.down = nn.Linear(inner, width, bias_attr=False)

    def forward(self, hidden: paddle.Tensor, *tables: paddle.Tensor) -> paddle.Tensor:
        """Map (batch, seq, width) to the same shape; tables are those of ``rotate``."""
        hidden = hidden + self.attend(self.norm1(hidden), *tables)
        normed = self.norm2(hidden)
        return hidden + self.down(functional.silu(self.gate(normed)) * self.up(normed))

    def attend(self, hidden: paddle.Tensor, *tables: paddle.Tensor) -> paddle.Tensor:
        """Let each position look at itself and at those before it."""
        batch, length, width = hidden.shape
        query = self.split(self.q(hidden), self.heads)
        key = self.split(self.k(hidden), self.groups)
        value = self.split(self.v(hidden), self.groups)
        query, key = rotate(query, *tables), rotate(key, *tables)
        key, value = self.spread(key), self.spread(value)
        scores = query @ key.transpose([0, 1, 3, 2]) / self.size**0.5
        mask = paddle.triu(paddle.full([length, length], -1e9), 1)
        mixed = functional.softmax(scores + mask, axis=-1) @ value
        return self.o(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, width]))

    def split(self, hidden: paddle.Tensor, heads: int) -> paddle.Tensor:
        """Make (batch, heads, seq, size) of (batch, seq, heads * size)."""
        batch, length, _ = hidden.shape
        return hidden.reshape([batch, length, heads, self.size]).transpose([0, 2, 1, 3])

    def spread(self, hidden: paddle.Tensor) -> paddle.Tensor:
        """Give each head of queries the keys or values of its group."""
        times = self.heads // self.groups
        if self.repeat == "tile":  # the planted fault: groups in turn, 0 1 0 1 …, not 0 0 … 1 1
            return hidden.tile([1, times, 1, 1])
        return hidden.repeat_interleave(times, axis=1)


class CausalLM(nn.Layer):
    """Embedding, decoder layers, norm, head."""

    def __init__(self, *, repeat: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(200, 64)
        self.layers = nn.LayerList([DecoderLayer(64, 176, 8, 2, repeat=repeat) for _ in range(3)])
        self.norm = RMSNorm(64)
        frequencies = 1.0 / 10000.0 ** (paddle.arange(0, 8, 2, dtype="float32") / 8)
        self.register_buffer("frequencies", frequencies, persistable=False)
        self.head = nn.Linear(64, 200, bias_attr=False)

    def forward(self, input_ids: paddle.Tensor) -> paddle.Tensor:
        """Map ids (batch, seq) to logits (batch, seq, 200)."""
        hidden = self.embedding(input_ids)
        positions = paddle.arange(input_ids.shape[1], dtype="float32")
        angles = paddle.outer(positions, self.frequencies)
        angles = paddle.concat([angles, angles], -1)
        for layer in self.layers:
            hidden = layer(hidden, angles.cos(), angles.sin())
        return self.head(self.norm(hidden))


def build() -> nn.Layer:
    """Build the port."""
    return CausalLM(repeat="interleave")


def build_faulty() -> nn.Layer:
    """Build the port with one planted fault: heads of queries get the keys of other groups."""
    return CausalLM(repeat="tile")
