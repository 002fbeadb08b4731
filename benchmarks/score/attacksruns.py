"""Attacks that need whole runs: updates, state, weights that are loaded, several processes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

import padiff
from padiff.dumper import RecordSettings
from padiff.dumper.runs.inputs import InputFile
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings
from padiff.dumper.runs.target import Target

from .case import DIFFERENT, SAME, Case, Expected, Group
from .nets import Net, net, scaled_gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

__all__ = ["cases"]

HONEST = frozenset({"diverged", "inconclusive"})
Model = Any
STEPS = 3


def cases() -> Iterator[Case]:
    """List the attacks as cases."""
    for name, (good, bad) in STATES.items():
        yield _case(f"08: {name}", good, bad)
    for name, (first, second) in UPDATES.items():
        yield _case(f"10: {name}", first, second)
    for name, faulty in REPAIRED.items():
        yield _repaired(f"12: {name}", {}, faulty, Expected(verdicts=DIFFERENT))
    for kept, other in permutations(KEPT, 2):
        name = f"12: {kept} kept, {other} on the candidate"
        form: dict[str, Any] = {"kept": other}
        yield _repaired(name, {"kept": kept}, ("rotary", form), Expected(verdicts=SAME))
        told = Expected(verdicts=DIFFERENT, words="500000 where the reference has 10000")
        wrong = "rotary", {**form, "theta": 5e5}
        yield _repaired(f"{name}, another base", {"kept": kept}, wrong, told)
    yield _case(
        "13: compiled into another function", _compiled(1.0), _compiled(2.0), note="compile|eager"
    )
    yield _case("15: norms that look alike are exchanged", _norms(), _norms(is_wrong=True))
    for name, faulty_rank in {
        "second rank scaled": 1.0 + 1e-4,
        "second rank negated": -1.0,
    }.items():
        yield _ranked(f"16: {name}", faulty_rank)


def _case(name: str, good: Run, bad: Run, *, note: str = "") -> Case:
    verdicts = HONEST if note else DIFFERENT
    return Case(
        group=Group.ATTACKS,
        name=name,
        chunk=f"attacks {name[:2]}",
        reference=lambda out: good.record(out, "reference"),
        reference_key=name,
        candidate=lambda out, _: bad.record(out, "candidate"),
        expected=Expected(verdicts=verdicts, note=note),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A model that is trained for some steps."""

    build: Callable[[], Model]
    inputs: Callable[[int], tuple[Tensor, ...]]
    optimizer: Callable[[Model], Any] | None = None
    """None runs one step without an update."""
    steps: int = STEPS
    is_training: bool = True
    after: Callable[[Model], None] = lambda _: None
    """What the loop does at the end of each step."""
    loss: Callable[[Any], Tensor] = lambda result: result.square().mean()
    options: Mapping[str, Any] = field(default_factory=dict)

    def record(self, out: Path, name: str) -> Path:
        """Train under the recorder."""
        model = self.build().train(self.is_training)
        optimizer = None if self.optimizer is None else self.optimizer(model)
        with padiff.record(
            model, name=name, out=out, optimizer=optimizer, **self.options
        ) as recorder:
            for step in range(1 if optimizer is None else self.steps):
                torch.manual_seed(step)
                loss = self.loss(model(*self.inputs(step)))
                loss.backward()  # type: ignore[no-untyped-call]
                if optimizer is not None:
                    optimizer.step()
                    optimizer.zero_grad()
                self.after(model)
                if optimizer is not None:
                    recorder.step(loss=loss)
        return recorder.path


def _images(step: int) -> tuple[Tensor, ...]:
    return (torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(step)),)


def _rows(step: int) -> tuple[Tensor, ...]:
    return (torch.randn(4, 8, generator=torch.Generator().manual_seed(step)),)


# -- 8: state after the step


def _normed(**options: float) -> Run:
    return Run(
        build=lambda: net(
            lambda self, x: self.head(self.norm(self.conv(x)).mean((2, 3))),
            conv=lambda: nn.Conv2d(3, 6, 3),
            norm=lambda: nn.BatchNorm2d(6, **options),  # type: ignore[arg-type]
            head=lambda: nn.Linear(6, 3),
        ),
        inputs=_images,
    )


def _averaged(sign: float, *, is_inside: bool) -> Run:
    """Keep a moving average of the activations in a buffer."""

    def update(model: Model, x: Tensor) -> None:
        model.average.mul_(0.9).add_(sign * 0.1 * x.detach().mean(0))

    def forward(self: Model, x: Tensor) -> Tensor:
        x = self.a(x)
        if is_inside:
            update(self, x)
        return x

    def build() -> Model:
        model = net(forward, a=lambda: nn.Linear(8, 8))
        model.register_buffer("average", torch.ones(8))
        return model

    outside: Callable[[Model], None] = lambda model: update(model, model.a.weight)  # noqa: E731
    return Run(build=build, inputs=_rows, after=(lambda _: None) if is_inside else outside)


STATES = {
    "momentum of a BatchNorm 0.1 as 0.2": (_normed(), _normed(momentum=0.2)),
    "momentum of a BatchNorm 0.1 as 0.9": (_normed(), _normed(momentum=0.9)),
    "average with the wrong sign": (
        _averaged(1.0, is_inside=True),
        _averaged(-1.0, is_inside=True),
    ),
    "average behind the step with the wrong sign": (
        _averaged(1.0, is_inside=False),
        _averaged(-1.0, is_inside=False),
    ),
}


# -- 10: updates


def _decoder(optimizer: Callable[[Model], Any], *, tiny: float = 1.0) -> Run:
    """Train a net with a branch whose gradients are small."""

    def forward(self: Model, x: Tensor) -> Tensor:
        x = torch.tanh(self.a(x))
        result: Tensor = self.b(x) + 1e-4 * scaled_gradient(self.branch(x), tiny)
        return result

    return Run(
        build=lambda: net(
            forward, a=lambda: nn.Linear(8, 8), b=lambda: nn.Linear(8, 8),
            branch=lambda: nn.Linear(8, 8),
        ),
        inputs=_rows,
        optimizer=optimizer,
    )  # fmt: skip


def _adamw(**options: Any) -> Callable[[Model], Any]:  # noqa: ANN401
    return lambda model: torch.optim.AdamW(model.parameters(), **{"lr": 1e-3, **options})


def _sgd(**options: Any) -> Callable[[Model], Any]:  # noqa: ANN401
    return lambda model: torch.optim.SGD(model.parameters(), **{"lr": 0.1, **options})


UPDATES = {
    "small gradients the other way, Adam": (_decoder(_adamw()), _decoder(_adamw(), tiny=-1.0)),
    "small gradients the other way, SGD": (_decoder(_sgd()), _decoder(_sgd(), tiny=-1.0)),
    "epsilon of AdamW 1e-8 as 1e-7": (_decoder(_adamw()), _decoder(_adamw(eps=1e-7))),
    "epsilon of AdamW 1e-8 as 1e-6": (_decoder(_adamw()), _decoder(_adamw(eps=1e-6))),
    "weight decay 0.01 as 0.011": (_decoder(_adamw()), _decoder(_adamw(weight_decay=0.011))),
    "weight decay 0 as 1e-5": (_decoder(_sgd()), _decoder(_sgd(weight_decay=1e-5))),
    "second beta 0.999 as 0.9991": (_decoder(_adamw()), _decoder(_adamw(betas=(0.9, 0.9991)))),
    "rate 0.1 as 0.100001": (_decoder(_sgd()), _decoder(_sgd(lr=0.100001))),
}


# -- 12: weights that are loaded repair the candidate


KEPT = ("frequencies", "cosines", "nothing")
"""What a rotary embedding keeps: the rest is computed in each call."""


def rotary(*, theta: float = 1e4, kept: str = "frequencies") -> nn.Module:
    """Build a net with frequencies that are not saved, or with their cosines, or with neither."""

    def frequencies() -> Tensor:
        result: Tensor = theta ** -(torch.arange(4) / 4)
        return result

    def cosines(count: int, inverse: Tensor) -> Tensor:
        return torch.outer(torch.arange(count), inverse).repeat(1, 2).cos()

    def forward(self: Model, x: Tensor) -> Tensor:
        if kept == "cosines":
            table = self.table[: len(x)]
        else:
            table = cosines(len(x), self.inv_freq if kept == "frequencies" else frequencies())
        result: Tensor = self.a(x) * table
        return result

    model = net(forward, a=lambda: nn.Linear(8, 8))
    if kept == "frequencies":
        model.register_buffer("inv_freq", frequencies(), persistent=False)
    elif kept == "cosines":
        model.register_buffer("table", cosines(32, frequencies()), persistent=False)
    return model


def relative(*, shift: int = 0) -> nn.Module:
    """Build a net with a table of relative positions that is not saved."""

    def forward(self: Model, x: Tensor) -> Tensor:
        result: Tensor = self.a(x) + self.table.weight[self.index[: len(x)]]
        return result

    model = net(forward, a=lambda: nn.Linear(8, 8), table=lambda: nn.Embedding(20, 8))
    model.register_buffer("index", (torch.arange(16) + shift) % 20, persistent=False)
    return model


def masked(*, diagonal: int = 0) -> nn.Module:
    """Build a net with a mask that is not saved."""

    def forward(self: Model, x: Tensor) -> Tensor:
        scores = (self.a(x) @ x.T).masked_fill(self.mask[: len(x), : len(x)], -100.0)
        result: Tensor = scores.softmax(-1) @ x
        return result

    model = net(forward, a=lambda: nn.Linear(8, 8))
    model.register_buffer("mask", torch.ones(16, 16).triu(1 + diagonal).bool(), persistent=False)
    return model


REPAIRED: dict[str, tuple[str, dict[str, Any]]] = {
    "another base of rotary frequencies": ("rotary", {"theta": 5e5}),
    "relative positions off by one": ("relative", {"shift": 1}),
    "mask off by one": ("masked", {"diagonal": 1}),
}


def _repaired(
    name: str, right: dict[str, Any], other: tuple[str, dict[str, Any]], expected: Expected
) -> Case:
    attribute, options = other

    def record(out: Path, side: str, arguments: dict[str, Any], weights: Path | None) -> Path:
        (data,) = _rows(0)
        np.save(out / "x.npy", data.numpy())
        return run(
            RunSettings(
                model=Target(place=__name__, attribute=attribute, arguments=arguments),
                record=RecordSettings(out=out, name=side),
                inputs=(InputFile(path=out / "x.npy"),),
                framework="torch",
                weights_from=weights,
            )
        )

    return Case(
        group=Group.ATTACKS,
        name=name,
        chunk="attacks 12",
        reference=lambda out: record(out, "reference", right, None),
        reference_key=name,
        candidate=lambda out, reference: record(out, "candidate", options, reference),
        expected=expected,
    )


# -- 13: the tool changes what it measures


def _compiled(factor: float) -> Run:
    """Compile a net with a backend that computes something else."""

    def backend(graph: Any, _: object) -> Callable[..., Any]:  # noqa: ANN401
        return lambda *inputs: tuple(one * factor for one in graph(*inputs))

    def build() -> Model:
        model = net(lambda self, x: self.a(x), a=lambda: nn.Linear(8, 8))
        return torch.compile(model, backend=backend)

    return Run(build=build, inputs=_rows)


# -- 15: steps are paired anew


def _norms(*, is_wrong: bool = False) -> Run:
    """Train norms that start equal; the wrong one updates one with the gradient of the other."""

    def build() -> Model:
        def forward(self: Model, x: Tensor) -> Tensor:
            for linear, norm in zip(self.linears, self.norms, strict=True):
                x = norm(x + linear(x))
            return x

        return net(
            forward,
            linears=lambda: nn.ModuleList(nn.Linear(8, 8) for _ in range(3)),
            norms=lambda: nn.ModuleList(nn.LayerNorm(8) for _ in range(3)),
        )

    def optimizer(model: Model) -> Any:  # noqa: ANN401
        if is_wrong:
            first, second = model.norms[0].weight, model.norms[1].weight

            def exchange(_: Tensor) -> None:
                if second.grad is not None:
                    first.grad.copy_(second.grad)

            first.register_post_accumulate_grad_hook(exchange)
        return torch.optim.AdamW(model.parameters(), lr=1e-2)

    return Run(build=build, inputs=_rows, optimizer=optimizer)


# -- 16: state of one rank loosens another


def _ranked(name: str, factor: float) -> Case:
    """Train on two ranks; the candidate's second rank has a wrong gradient."""

    def forked(out: Path, side: str, wrong: float) -> Path:
        processes = [_fork(rank, out, side, wrong if rank else 1.0) for rank in (0, 1)]
        for process in processes:
            _, status = os.waitpid(process, 0)
            if status:
                raise RuntimeError(f"a rank ended with {status}")
        return out / side

    return Case(
        group=Group.ATTACKS,
        name=name,
        chunk="attacks 16",
        reference=lambda out: forked(out, "reference", 1.0),
        reference_key="ranks",
        candidate=lambda out, _: forked(out, "candidate", factor),
        expected=Expected(verdicts=DIFFERENT),
    )


def _fork(rank: int, out: Path, side: str, factor: float) -> int:
    """Fork a process that trains one rank; return its id."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": "29511"}
        _rank_run(rank, factor).record(out, side)
        status = 0
    finally:
        os._exit(status)


def _rank_run(rank: int, factor: float) -> Run:
    def forward(self: Net, x: Tensor) -> Tensor:
        result: Tensor = self.b(scaled_gradient(torch.tanh(self.a(x)), factor))  # type: ignore[operator]
        return result

    return Run(
        build=lambda: net(forward, a=lambda: nn.Linear(8, 8), b=lambda: nn.Linear(8, 8)),
        inputs=lambda step: _rows(10 * step + rank),
        optimizer=_sgd(),
        steps=2,
    )
