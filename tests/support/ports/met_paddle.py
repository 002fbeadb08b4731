"""Ports of the nets in ``met_torch``, each deliberately written another way."""

from __future__ import annotations

import paddle
from paddle import Tensor, nn
from paddle.nn import functional

WIDTH, HEADS, EXPERTS = 8, 2, 4


class Deep(nn.Layer):
    """Twelve flat blocks; functions for activations."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, 3)
        for name, (rows, columns) in {"up": (WIDTH, 12), "down": (12, WIDTH)}.items():
            setattr(self, name, nn.LayerList([nn.Linear(rows, columns) for _ in range(12)]))
        self.norms = nn.LayerList([nn.LayerNorm(WIDTH) for _ in range(12)])

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 3)."""
        for norm, up, down in zip(self.norms, self.up, self.down, strict=True):
            x = x + down(functional.gelu(up(norm(x))))
        return self.head(x)


class SharedPool(nn.Layer):
    """Three instances of each."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.LayerList(
            [
                nn.Sequential(nn.Conv2D(3, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2D(3, 1, 1))
                for _ in range(3)
            ]
        )
        self.unused = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 3, height, width) to its own shape."""
        for part in self.parts:
            x = part(x)
        return x


class ShortcutFirst(nn.Layer):
    """The shortcut is defined last and runs first."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(3, 6, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(6),
            nn.ReLU(),
            nn.Conv2D(6, 6, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(6),
        )
        self.down_norm = nn.BatchNorm2D(6)
        self.down_conv = nn.Conv2D(3, 6, 1, bias_attr=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 3, height, width) to (batch, 6, height, width)."""
        short = self.down_norm(self.down_conv(x))
        return functional.relu(self.body(x) + short)


class Activated(nn.Layer):
    """Norms that apply the ReLU themselves."""

    def __init__(self) -> None:
        super().__init__()
        for place in range(3):
            conv = nn.Conv2D(3, 3, 3, padding=1, bias_attr=False)
            self.add_sublayer(f"part{place}", nn.Sequential(conv, nn.BatchNorm(3, act="relu")))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 3, height, width) to its own shape."""
        return self.part2(self.part1(self.part0(x)))


class Stages(nn.Layer):
    """Merging layers in a list of their own, run between the stages."""

    def __init__(self) -> None:
        super().__init__()
        self.mergers = nn.LayerList([nn.Linear(8, 12), nn.Linear(12, 16)])
        self.stages = nn.LayerList(
            [nn.LayerList([nn.Linear(size, size) for _ in range(2)]) for size in (8, 12, 16)]
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 8) to (batch, 16)."""
        for place, stage in enumerate(self.stages):
            x = x if place == 0 else self.mergers[place - 1](x)
            for block in stage:
                x = x + paddle.tanh(block(x))
        return x


class MergeStage(nn.Layer):
    """A stage that begins with the merging."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.merge = nn.Linear(before, width) if before != width else None
        self.layers = nn.Sequential(*[MergeBlock(width) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, before) to (batch, width)."""
        return self.layers(x if self.merge is None else self.merge(x))


class MergeBlock(nn.Layer):
    """One block of a stage."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to its own shape."""
        return x + paddle.tanh(self.fc(x))


class MergeFirst(nn.Layer):
    """Merging is the first child of the next stage."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((8, 8), (8, 12), (12, 16))
        self.stages = nn.LayerList([MergeStage(*size) for size in sizes])

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, 8) to (batch, 16)."""
        for stage in self.stages:
            x = stage(x)
        return x


class Rotary(nn.Layer):
    """Angles for every row of the batch, half of them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Give cosine and sine, (batch, seq, half the head width)."""
        half = WIDTH // HEADS // 2
        rates = 0.5 ** paddle.arange(half, dtype="float32")
        angles = paddle.arange(x.shape[1], dtype="float32").reshape([1, -1, 1]) * rates
        angles = angles.expand([x.shape[0], x.shape[1], half])
        return angles.cos(), angles.sin()


class RotaryAttention(nn.Layer):
    """One fused projection, norms before the heads move, a rotary module of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.rope = Rotary()
        self.norm_k, self.norm_q = (nn.LayerNorm(WIDTH // HEADS) for _ in range(2))
        for name in ("wo", "wv", "wk", "wq"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH, bias_attr=False))

    def forward(self, x: Tensor) -> Tensor:
        """Attend over (batch, seq, width)."""
        split = [*x.shape[:2], HEADS, WIDTH // HEADS]
        query = self.norm_q(self.wq(x).reshape(split))
        key = self.norm_k(self.wk(x).reshape(split))
        value = self.wv(x).reshape(split)
        cosine, sine = (angle.unsqueeze(2) for angle in self.rope(x))
        turned = []
        for each in (query, key):
            first, second = each.chunk(2, axis=-1)
            parts = [first * cosine - second * sine, second * cosine + first * sine]
            turned.append(paddle.concat(parts, axis=-1))
        mixed = functional.scaled_dot_product_attention(*turned, value)
        return self.wo(mixed.reshape(x.shape))


class RotaryNet(nn.Layer):
    """A rotary module for each layer; a head of its own; a tuple comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.LayerList([RotaryAttention() for _ in range(2)])
        self.words = nn.Embedding(11, WIDTH)
        self.head = nn.Linear(WIDTH, 11, bias_attr=False)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Map (batch, seq) to logits (batch, seq, 11)."""
        x = self.words(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x), x


class Positions(nn.Layer):
    """Position embeddings for every row of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.where, self.what = nn.Embedding(9, WIDTH), nn.Embedding(11, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        """Map (batch, seq) to (batch, seq, width)."""
        places = paddle.arange(ids.shape[1]).unsqueeze(0).expand(ids.shape)
        return self.norm(self.where(places) + self.what(ids))


class Expert(nn.Layer):
    """One expert of three Linears."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, 6, bias_attr=False)
        self.up_proj = nn.Linear(WIDTH, 6, bias_attr=False)
        self.down_proj = nn.Linear(6, WIDTH, bias_attr=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens (count, width)."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class MixtureBlock(nn.Layer):
    """A list of experts, called where tokens go there."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.LayerList([Expert() for _ in range(EXPERTS)])
        self.gate = nn.Linear(WIDTH, EXPERTS, bias_attr=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (count, width)."""
        share = functional.softmax(self.gate(tokens)[:, : EXPERTS - 1])
        weights, chosen = share.max(-1), share.argmax(-1)
        made = tokens
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().flatten()
            if len(rows):
                found = expert(tokens[rows]) * weights[rows].unsqueeze(-1)
                made = paddle.scatter(made, rows, tokens[rows] + found)
        return made


class Mixture(nn.Layer):
    """The same between other names."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.moe = MixtureBlock()

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, width) to its own shape."""
        return self.norm(self.moe(self.linear(x).reshape([-1, WIDTH])).reshape(x.shape))


class BareFirst(nn.Layer):
    """The first layer as parameters of the root, (in, out), used by matmul."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([WIDTH, 6])
        self.bias = self.create_parameter([6], is_bias=True)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 5, bias_attr=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 5)."""
        return self.head(self.norm(paddle.matmul(x, self.weight) + self.bias))


class BareHead(nn.Layer):
    """The head as a parameter that lies as torch keeps it, (out, in)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 6)
        self.norm = nn.LayerNorm(6)
        self.head_weight = self.create_parameter([5, 6])

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 5)."""
        return paddle.matmul(self.norm(self.first(x)), self.head_weight, transpose_y=True)


class Towers(nn.Layer):
    """The right tower first."""

    def __init__(self) -> None:
        super().__init__()
        self.towers = nn.LayerList(
            [nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, WIDTH)) for _ in range(2)]
        )
        self.out = nn.Linear(2 * WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 3)."""
        right, left = self.towers[1](x), self.towers[0](x)
        return self.out(paddle.concat([left, right], -1))


class Digits(nn.Layer):
    """Other names, activations of their own, no spare layer but another one."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("5x5", "1x1", "3x3"):
            self.add_sublayer(name, nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()))
        self.spare = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to its own shape."""
        layers = dict(self.named_children())
        for name in ("3x3", "1x1", "5x5"):
            x = layers[name](x)
        return x


class Packed(nn.Layer):
    """Three Linears and a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, 3)
        self.norm = nn.LayerNorm(WIDTH)
        for name in ("query", "key", "value", "proj"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, seq, width) to (batch, seq, 3)."""
        normed = self.norm(x)
        split = [*x.shape[:2], HEADS, WIDTH // HEADS]
        layers = (self.query, self.key, self.value)
        heads = [layer(normed).reshape(split) for layer in layers]
        mixed = functional.scaled_dot_product_attention(*heads).reshape(x.shape)
        return self.out(x + self.proj(mixed))


class Checkpointed(nn.Layer):
    """The same blocks, run once."""

    def __init__(self) -> None:
        super().__init__()
        for number in range(3):
            setattr(self, f"layer{number}", nn.Linear(WIDTH, WIDTH))
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, width) to (batch, 2)."""
        for layer in (self.layer0, self.layer1, self.layer2):
            x = paddle.tanh(layer(x))
        return self.out(x)
