"""Candidates that are wrong by construction, by the mechanism that may hide it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import padiff
from padiff.comparer import CompareSettings

from . import attacksruns
from .case import DIFFERENT, Case, Expected, Group
from .dumping import loss_of
from .nets import cut, net, scaled_gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["cases"]

HONEST = frozenset({"diverged", "inconclusive"})
BARE = CompareSettings(atol=0.0, rtol=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Two networks of which the second is wrong."""

    good: Callable[[], Any]
    bad: Callable[[], Any]
    inputs: Callable[[], tuple[Tensor, ...]]
    is_forward: bool = False
    """Whether the backward pass is left out."""
    content: str = "full"
    """How much of each value is recorded."""
    settings: CompareSettings = field(default_factory=CompareSettings)
    loss: Callable[[Any], Tensor] = loss_of
    verdicts: frozenset[str] = DIFFERENT
    note: str = ""


def _draw(*shape: int, size: float = 1.0) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(*shape, generator=torch.Generator().manual_seed(1)) * size,)


def _linear(ins: int = 8, outs: int = 8) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(ins, outs)


EYE = torch.eye(8, dtype=torch.bool)


def _one(good: Callable[..., Any], bad: Callable[..., Any], **other: Any) -> Attack:  # noqa: ANN401
    """Attack a network of one Linear ``a``; the functions get its result and its input."""
    shape = other.pop("shape", (8, 8))
    outs = other.pop("outs", 8)

    def build(function: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: net(lambda self, x: function(self.a(x), x), a=_linear(shape[-1], outs))

    other.setdefault("is_forward", True)
    return Attack(good=build(good), bad=build(bad), inputs=_draw(*shape), **other)


# -- 1: rounding relative to the largest element of a tensor


def _hidden(change: Callable[[Tensor], Tensor], *, value: float = -1e9) -> Attack:
    return _one(
        lambda a, _: a.masked_fill(EYE, value), lambda a, _: change(a).masked_fill(EYE, value)
    )


def _beside(large: float, change: Callable[[Tensor], Tensor]) -> Attack:
    """Put one large feature beside seven that the candidate gets wrong."""
    return _one(
        lambda a, _: torch.cat([a[:, :1] * large, a[:, 1:]], 1),
        lambda a, _: torch.cat([a[:, :1] * large, change(a[:, 1:])], 1),
    )


def _softmax(change: Callable[[Tensor], Tensor]) -> Attack:
    """Let scores beside -1e9 be wrong ahead of a softmax and a second layer."""

    def build(wrong: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            scores = self.mask(wrong(self.a(x)))
            mixed: Tensor = self.b(scores.softmax(-1) @ x)
            return mixed

        return net(
            forward,
            a=_linear(),
            b=_linear(),
            mask=lambda: net(lambda _, s: s.masked_fill(EYE, -1e9)),
        )

    return Attack(good=lambda: build(lambda s: s), bad=lambda: build(change), inputs=_draw(8, 8))


LARGEST = {
    "scores negated beside -1e9": _hidden(lambda a: -a),
    "scores halved beside -1e9": _hidden(lambda a: a / 2),
    "scores exchanged beside -1e9": _hidden(lambda a: a.roll(1, 0)),
    "scores constant beside -1e30": _hidden(torch.zeros_like, value=-1e30),
    "scores of a softmax negated": _softmax(lambda a: -a),
    "scores of a softmax scaled by 1.01": _softmax(lambda a: a * 1.01),
    "1 % beside a channel of 1e5": _beside(1e5, lambda a: a * 1.01),
    "1 % beside a channel of 1e6": _beside(1e6, lambda a: a * 1.01),
    "score beside a box in pixels": _beside(1e4, lambda a: a + 1e-3),
    "features beside a time stamp": _beside(1.7e9, lambda a: a * 1.1),
    "signs beside a time stamp": _beside(1.7e9, lambda a: -a),
}


# -- 2: gradients relative to the model's largest gradient


def _branch(change: Callable[[Tensor], Tensor], **other: Any) -> Attack:  # noqa: ANN401
    """Let the gradient of a branch behind a layer scale of 1e-6 be wrong."""

    def build(wrong: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            x = self.trunk(x)
            result: Tensor = x + 1e-6 * wrong(self.branch(x))
            return result

        return net(forward, trunk=_linear(), branch=_linear())

    return Attack(
        good=lambda: build(lambda x: x), bad=lambda: build(change), inputs=_draw(4, 8), **other
    )


def _noise(x: Tensor) -> Tensor:
    factors = torch.randn(x.shape, generator=torch.Generator().manual_seed(3))
    return scaled_gradient(x, 0.0) + (x - x.detach()) * factors


def _vanishing(factor: float) -> Attack:
    """Let the gradient of the first step of a recurrent net be wrong, which is small."""

    def build(wrong: float) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            hidden = scaled_gradient(self.first(x[:, 0]), wrong)
            for row in x[:, 1:].unbind(1):
                hidden = torch.tanh(self.cell(hidden) * 0.5 + row)
            result: Tensor = self.head(hidden)
            return result

        return net(forward, first=_linear(), cell=_linear(), head=_linear())

    return Attack(good=lambda: build(1.0), bad=lambda: build(factor), inputs=_draw(3, 25, 8))


def _layer_scale(size: float) -> Attack:
    def build(value: float) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            result: Tensor = x + self.gamma * self.branch(x)
            return result

        model = net(forward, branch=_linear())
        model.gamma = nn.Parameter(torch.full((8,), value))
        return model

    return Attack(good=lambda: build(1e-6), bad=lambda: build(size), inputs=_draw(4, 8))


GRADIENTS = {
    f"gradient of a small branch {name}{words}": _branch(change, **options)
    for words, options in (("", {}), (", no tolerance", {"settings": BARE}))
    for name, change in (
        ("negated", lambda x: scaled_gradient(x, -1.0)),
        ("doubled", lambda x: scaled_gradient(x, 2.0)),
        ("cut", cut),
        ("noise", _noise),
    )
} | {
    "vanishing gradient negated": _vanishing(-1.0),
    "vanishing gradient doubled": _vanishing(2.0),
    "vanishing gradient lost": _vanishing(0.0),
    "layer scale of 1e-6 given as 9e-6": _layer_scale(9e-6),
    "layer scale of 1e-6 given as -1e-6": _layer_scale(-1e-6),
}


# -- 3: kinks without a cap


def _kink(factor: float, *, kind: Callable[[Tensor], Tensor] = torch.relu) -> Attack:
    """Let rows of padding lie at 1e-7 or at 0 before a kink, and scale all gradients behind it."""

    def build(edge: float, wrong: float) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            rows = torch.ones(len(x), 1)
            rows[4:] = 0.0
            hidden = self.a(x) * rows + edge * (1 - rows)
            result: Tensor = self.b(scaled_gradient(self.act(hidden), wrong))
            return result

        return net(forward, a=_linear(), b=_linear(), act=lambda: net(lambda _, h: kind(h)))

    return Attack(good=lambda: build(1e-7, 1.0), bad=lambda: build(0.0, factor), inputs=_draw(8, 8))


KINKS = {
    "gradient lost behind a kink": _kink(0.0),
    "gradient halved behind a kink": _kink(0.5),
    "gradient negated behind a kink": _kink(-1.0),
    "gradient lost behind a relu6": _kink(0.0, kind=nn.functional.relu6),
    "gradient doubled behind a kink": _kink(2.0),
}


# -- 4: drift


def _drift(count: int, change: Callable[[Tensor], Tensor]) -> Attack:
    def build(wrong: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            return reduce(lambda h, layer: wrong(layer(h)), self.layers, x)

        model = net(forward, layers=lambda: nn.ModuleList(nn.Linear(16, 16) for _ in range(count)))
        for layer in model.layers:  # type: ignore[union-attr]
            nn.init.orthogonal_(layer.weight)
        return model

    return Attack(
        good=lambda: build(lambda x: x), bad=lambda: build(change), inputs=_draw(4, 16),
        is_forward=True,
    )  # fmt: skip


DRIFTS = {
    "200 layers each times 1 + 1e-6": _drift(200, lambda x: x * (1 + 1e-6)),
    "100 layers each times 1 + 2e-6": _drift(100, lambda x: x * (1 + 2e-6)),
    "50 layers each times 1 + 3e-6": _drift(50, lambda x: x * (1 + 3e-6)),
    "200 layers each plus 1e-6": _drift(200, lambda x: x + 1e-6),
    "100 layers each times 1 - 2e-6": _drift(100, lambda x: x * (1 - 2e-6)),
}


# -- 5: layout guessed at the root


def _picture(change: Callable[[Any, Tensor], Tensor], **other: Any) -> Attack:  # noqa: ANN401
    def build(function: Callable[[Any, Tensor], Tensor]) -> Any:  # noqa: ANN401
        return net(function, conv=lambda: nn.Conv2d(3, 3, 1))

    return Attack(
        good=lambda: build(lambda self, x: self.conv(x)), bad=lambda: build(change),
        inputs=_draw(2, 3, 6, 6), **other,
    )  # fmt: skip


LAYOUTS = {
    "(8, 8) returned as (4, 16)": _one(lambda a, _: a, lambda a, _: a.reshape(4, 16)),
    "(8, 8) returned flat": _one(lambda a, _: a, lambda a, _: a.reshape(64)),
    "(8, 8) returned turned": _one(lambda a, _: a, lambda a, _: a.T),
    "batch and time exchanged": _one(
        lambda a, _: a, lambda a, _: a.transpose(0, 1), shape=(6, 6, 8)
    ),
    "picture turned": _picture(lambda self, x: self.conv(x.mT)),
    "picture turned, without gradients": _picture(lambda self, x: self.conv(x.mT), is_forward=True),
    "result of a picture turned": _picture(lambda self, x: self.conv(x).mT, is_forward=True),
    "channels returned last": _picture(
        lambda self, x: self.conv(x).permute(0, 2, 3, 1), is_forward=True
    ),
    "two results exchanged": _one(lambda a, x: (a, x), lambda a, x: (x, a)),
}


# -- 6: a result that is no tensor


@dataclass
class _Posterior:
    mean: Any


class _Plain:
    def __init__(self, mean: object) -> None:
        self.mean = mean


def _object(make: Callable[[Tensor], object]) -> Attack:
    return _one(lambda a, _: make(a), lambda a, _: make(a * 3))


OBJECTS = {
    "dataclass": _object(_Posterior),
    "plain object": _object(_Plain),
    "distribution": _object(lambda a: torch.distributions.Normal(a, torch.ones_like(a))),
    "categorical distribution": _object(lambda a: torch.distributions.Categorical(logits=a)),
    "numpy array": _object(lambda a: a.detach().numpy()),
    "number": _object(lambda a: float(a.sum())),
    "list of numbers": _object(lambda a: a[0].tolist()),
    "string": _object(lambda a: f"{float(a.sum()):.3f}"),
    "object in a dict": _object(lambda a: {"posterior": _Posterior(a)}),
}


# -- 7: an absolute tolerance of 1e-5


ABSOLUTE = {
    "results of 1e-6 doubled": _one(lambda a, _: a * 1e-6, lambda a, _: a * 2e-6),
    "results of 1e-9 negated": _one(lambda a, _: a * 1e-9, lambda a, _: a * -1e-9),
    "probabilities at another temperature": _one(
        lambda a, _: a.softmax(-1), lambda a, _: (a / 1.3).softmax(-1), outs=128_000
    ),
    "probabilities of the wrong tokens": _one(
        lambda a, _: a.softmax(-1), lambda a, _: a.softmax(-1).roll(1, -1), outs=128_000
    ),
    "small sigmoids doubled": _one(
        lambda a, _: torch.sigmoid(a - 14), lambda a, _: torch.sigmoid(a - 14) * 2
    ),
    "a mean over many as a sum of squares": _one(
        lambda a, _: a.mean() * 1e-6, lambda a, _: a.square().mean() * 1e-6
    ),
}


# -- 9: headlines that claim more than was looked at


def _two(function: Callable[[Any, Tensor], Tensor]) -> Callable[[], Any]:
    return lambda: net(function, first=_linear(), second=_linear())


def _second(**other: Any) -> Attack:  # noqa: ANN401
    """Let a second layer be wrong that nothing looks at."""
    return Attack(
        good=_two(lambda self, x: self.second(self.first(x))),
        bad=_two(lambda self, x: self.second(self.first(x)) * 3),
        inputs=_draw(4, 8), verdicts=HONEST, **other,
    )  # fmt: skip


HEADLINES = {
    "only the first module is compared": _second(settings=CompareSettings(include=("first",))),
    "the wrong module is left out": _second(
        settings=CompareSettings(exclude=("second",), allow_missing=("second",))
    ),
    "the wrong order under equal statistics": Attack(
        good=_two(lambda self, x: self.first(x)),
        bad=_two(lambda self, x: self.first(x).flip(0)),
        inputs=_draw(4, 8), content="stats", verdicts=HONEST, is_forward=True,
    ),
}  # fmt: skip


# -- 11: skipped gradients


def _between(change: Callable[[Tensor], Tensor]) -> Attack:
    """Let the gradient of code between two layers be wrong."""
    return Attack(
        good=_two(lambda self, x: self.second(torch.sin(self.first(x)) * 2)),
        bad=_two(lambda self, x: self.second(change(torch.sin(self.first(x)) * 2))),
        inputs=_draw(4, 8),
    )


def _own_gradient(factor: float) -> Attack:
    """Let a layer's gradient of its input be wrong, those of its weights right."""

    def layer(wrong: float) -> Callable[[], Any]:
        return lambda: net(lambda self, x: self.a(scaled_gradient(x, wrong)), a=_linear())

    def build(wrong: float) -> Any:  # noqa: ANN401
        return net(
            lambda self, x: self.second(torch.sin(self.first(x)) * 2),
            first=_linear(),
            second=layer(wrong),
        )

    return Attack(good=lambda: build(1.0), bad=lambda: build(factor), inputs=_draw(4, 8))


SKIPPED = {
    "gradient between layers doubled": _between(lambda x: scaled_gradient(x, 2.0)),
    "gradient between layers times 1.001": _between(lambda x: scaled_gradient(x, 1.001)),
    "gradient between layers negated": _between(lambda x: scaled_gradient(x, -1.0)),
    "a layer's gradient of its input doubled": _own_gradient(2.0),
    "a layer's gradient of its input times 1.001": _own_gradient(1.001),
}


# -- 14: evidence by value is taken away where the fault is


def _turned(change: Callable[[Tensor], Tensor]) -> Attack:
    """Let a square picture be turned inside and stay so."""

    def build(wrong: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            result: Tensor = self.head(wrong(self.first(x)).flatten(1))
            return result

        return net(forward, first=lambda: nn.Conv2d(3, 3, 1), head=_linear(3 * 36, 5))

    return Attack(
        good=lambda: build(lambda x: x), bad=lambda: build(change), inputs=_draw(2, 3, 6, 6)
    )


VOTED = {
    "picture turned ahead of the head": _turned(lambda x: x.mT),
    "picture mirrored ahead of the head": _turned(lambda x: x.flip(-1)),
    "channels exchanged ahead of the head": _turned(lambda x: x.flip(1)),
}


# -- 17: a tie that any error would turn, and that both programs decide alike


def _tied(choose: Callable[[Tensor], Tensor]) -> Attack:
    """Scale the second layer wrongly, behind rows that a choice takes out of a table."""

    def build(scale: float) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            row = self.table(choose(x / 4)).mean(0)
            result: Tensor = row + self.b(self.a(row).tanh() * scale)
            return result

        return net(forward, table=lambda: nn.Embedding(8, 8), a=_linear(), b=_linear())

    return Attack(
        good=lambda: build(0.5),
        bad=lambda: build(0.5001),
        inputs=lambda: (torch.arange(4.0),),
        is_forward=True,
    )


class _Shift(nn.Module):
    """Adds a vector that begins with zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.by


def _handed(good: Callable[..., Tensor], bad: Callable[..., Tensor]) -> Attack:
    """Hand the gradient of equal elements on otherwise; some rows of the input are zero."""

    def build(choose: Callable[..., Tensor]) -> Any:  # noqa: ANN401
        def forward(self: Any, x: Tensor) -> Tensor:  # noqa: ANN401
            result: Tensor = self.b(choose(self.shift(self.a(x)), x @ self.a.weight.T))
            return result

        return net(
            forward,
            a=lambda: nn.Linear(8, 8, bias=False),
            b=_linear(),
            shift=_Shift,
        )

    return Attack(
        good=lambda: build(good),
        bad=lambda: build(bad),
        inputs=lambda: (torch.cat([*_draw(6, 8)(), torch.zeros(2, 8)]),),
    )


TIES = {
    "gradient of the larger of equal numbers to one of them": _handed(
        torch.maximum, lambda one, two: torch.stack([one, two]).max(0).values
    ),
    "gradient at the limit of a ReLU": _handed(
        lambda one, _: one.relu(), lambda one, _: one.clamp(min=0)
    ),
    "gradient at the limit of a choice": _handed(
        lambda one, _: torch.where(one > 0, one, 0.1 * one),
        lambda one, _: torch.where(one >= 0, one, 0.1 * one),
    ),
    "scale behind a search on its own grid": _tied(
        lambda x: torch.bucketize(x, torch.arange(0.25, 1, 0.25), right=True)
    ),
    "scale behind a comparison of equal numbers": _tied(lambda x: (x >= 0.25).long()),
    "scale behind whole numbers rounded down": _tied(lambda x: torch.floor(x * 4).long()),
    "scale behind the largest of equal numbers": _tied(
        lambda x: (x[:, None] * torch.ones(4)).argmax(-1)
    ),
}
ATTACKS: dict[int, Mapping[str, Attack]] = {
    1: LARGEST, 2: GRADIENTS, 3: KINKS, 4: DRIFTS, 5: LAYOUTS, 6: OBJECTS, 7: ABSOLUTE,
    9: HEADLINES, 11: SKIPPED, 14: VOTED, 17: TIES,
}  # fmt: skip
"""By the number of the mechanism; the others need more than one forward and backward pass."""


def cases() -> Iterator[Case]:
    """List the attacks as cases."""
    for mechanism, attacks in ATTACKS.items():
        for name, attack in attacks.items():
            yield _case(f"{mechanism:02}: {name}", attack)
    yield from attacksruns.cases()


def _case(name: str, attack: Attack) -> Case:
    def record(out: Path, side: str, build: Callable[[], Any]) -> Path:
        model = build()
        phase = "forward" if attack.is_forward else "backward"
        with padiff.record(model, name=side, out=out, phase=phase, content=attack.content) as dump:
            result = model(*attack.inputs())
            if not attack.is_forward:
                attack.loss(result).backward()  # type: ignore[no-untyped-call]
        return dump.path

    return Case(
        group=Group.ATTACKS,
        name=name,
        chunk=f"attacks {name[:2]}",
        reference=lambda out: record(out, "reference", attack.good),
        reference_key=name,
        candidate=lambda out, _: record(out, "candidate", attack.bad),
        expected=Expected(verdicts=attack.verdicts, note=attack.note),
        settings=attack.settings,
    )
