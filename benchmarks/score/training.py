"""Trainings: ports that must match over all steps, and mistakes in them that must be named."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

import padiff
from tests.support.ports import training_torch, training_trees_torch
from tests.support.ports.training_trees import FAULTS, PORTS, STEPS, Side, dump, write_batches

from .architectures import seeded
from .case import DIFFERENT, SAME, Case, Expected, Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from padiff.dumpfile import Phase, Role

__all__ = ["cases"]

Model = Any


def cases() -> Iterator[Case]:
    """List the trainings as cases."""
    for net in ("ResNet", "GPT"):
        for name, (reference, candidate) in PORTS.items():
            yield _port(f"{net}: {name} in Paddle", net, reference, candidate or reference, None)
    for name, (net, reference, candidate, place, cause) in FAULTS.items():
        yield _port(f"{net}: {name} in Paddle", net, reference, candidate, (place, cause))
    for name, one in TRAININGS.items():
        yield _training(name, one)


def _port(
    name: str,
    net: str,
    reference: Side,
    candidate: Side,
    fault: tuple[tuple[int, Phase, Role], str] | None,
) -> Case:
    def first(out: Path) -> Path:
        write_batches(out)
        return dump(out, "torch", net, reference)

    def second(out: Path, known: Path) -> Path:
        write_batches(out)
        return dump(out, "paddle", net, candidate, known)

    mistake = None
    if fault is not None:
        mistake = Expected(verdicts=DIFFERENT, place=fault[0], words=re.escape(fault[1]))
    return Case(
        group=Group.TRAINING,
        name=name,
        chunk=f"training ports {net}",
        reference=first,
        reference_key=str(reference),
        candidate=second,
        expected=mistake or Expected(verdicts=SAME),
    )


# -- Trainings of torch against torch.


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """How one side of a pair trains."""

    optimizer: Callable[[Model], Any]
    model: Callable[[], Model]
    inputs: Callable[[int], tuple[torch.Tensor, torch.Tensor]]
    before: Callable[[Model], None] = lambda _: None
    """What is done to the gradients ahead of the update."""
    after: Callable[[Model], None] = lambda _: None
    """What is done to the weights behind it."""
    clear: int = 1
    """Gradients are cleared each that many steps."""
    schedule: Callable[[Any], Any] | None = None

    def record(self, out: Path, name: str) -> Path:
        """Train under the recorder."""
        model = self.model()
        optimizer = self.optimizer(model)
        schedule = None if self.schedule is None else self.schedule(optimizer)
        with padiff.record(model, name=name, out=out, optimizer=optimizer) as recorder:
            for step in range(STEPS):
                data, labels = self.inputs(step)
                logits = model(data)
                loss = torch.nn.functional.cross_entropy(
                    logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
                )
                loss.backward()  # type: ignore[no-untyped-call]
                self.before(model)
                optimizer.step()
                self.after(model)
                if schedule is not None:
                    schedule.step()
                if (step + 1) % self.clear == 0:
                    optimizer.zero_grad()
                recorder.step(loss=loss)
        return recorder.path


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A pair of trainings: options of both sides."""

    net: str
    reference: Mapping[str, Any]
    candidate: Mapping[str, Any]
    words: str = ""
    """Regular expression that names the mistake; empty for a correct pair."""
    origins: tuple[str, ...] = ()


def _ids(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randint(0, 11, (4, 9), generator=torch.Generator().manual_seed(step))
    return drawn, drawn.roll(-1, 1)


def _images(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(6, 3, 10, 10, generator=generator), torch.randint(
        0, 5, (6,), generator=generator
    )


def _gpt() -> Model:
    torch.manual_seed(0)
    model = seeded(training_torch.Transformer()).train()  # type: ignore[no-untyped-call]
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def _cnn() -> Model:
    torch.manual_seed(0)
    return seeded(training_torch.CNN()).train()  # type: ignore[no-untyped-call]


def _deep() -> Model:
    torch.manual_seed(0)
    return seeded(training_trees_torch.GPT()).train()  # type: ignore[no-untyped-call]


NETS: dict[str, tuple[Callable[[], Model], Callable[[int], tuple[torch.Tensor, torch.Tensor]]]] = {
    "transformer": (_gpt, _ids),
    "CNN": (_cnn, _images),
    "encoder layers": (_deep, _ids),
}


def _adamw(**options: Any) -> Callable[[Model], Any]:  # noqa: ANN401
    return lambda model: torch.optim.AdamW(model.parameters(), **{"lr": 1e-3, **options})


def _adam(**options: Any) -> Callable[[Model], Any]:  # noqa: ANN401
    return lambda model: torch.optim.Adam(model.parameters(), **{"lr": 1e-3, **options})


def _sgd(**options: Any) -> Callable[[Model], Any]:  # noqa: ANN401
    return lambda model: torch.optim.SGD(
        model.parameters(), **{"lr": 0.05, "momentum": 0.9, **options}
    )


def _rmsprop(**options: Any) -> Callable[[Model], Any]:  # noqa: ANN401
    return lambda model: torch.optim.RMSprop(model.parameters(), **{"lr": 1e-3, **options})


def _rprop(**options: Any) -> Callable[[Model], Any]:  # noqa: ANN401
    return lambda model: torch.optim.Rprop(model.parameters(), **{"lr": 1e-3, **options})


def _clip(norm: float) -> Callable[[Model], None]:
    return lambda model: _ignore(torch.nn.utils.clip_grad_norm_(model.parameters(), norm))


def _clip_each(norm: float) -> Callable[[Model], None]:
    def clip(model: Model) -> None:
        for parameter in model.parameters():
            torch.nn.utils.clip_grad_norm_([parameter], norm)

    return clip


def _ignore(_: object) -> None:
    return None


def _scale(factor: float) -> Callable[[Model], None]:
    def scale(model: Model) -> None:
        for parameter in model.parameters():
            parameter.grad.mul_(factor)

    return scale


def _one(name: str, change: Callable[[torch.Tensor], object]) -> Callable[[Model], None]:
    """Change one weight in place behind the update."""

    def after(model: Model) -> None:
        with torch.no_grad():
            change(model.get_parameter(name))

    return after


def _stepped(factor: float) -> Callable[[Any], Any]:
    return lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, factor)


def _without(kind: str) -> Callable[[Model], Any]:
    """Leave weights out of the optimizer whose names end so."""
    return lambda model: torch.optim.AdamW(
        [weight for name, weight in model.named_parameters() if not name.endswith(kind)], lr=1e-3
    )


def _by_loop(optimizer: Callable[..., Callable[[Model], Any]]) -> dict[str, Any]:
    return {"optimizer": optimizer(foreach=False)}


def _pair(
    net: str, reference: Mapping[str, Any], candidate: Mapping[str, Any], words: str
) -> Training:
    return Training(net=net, reference=reference, candidate=candidate, words=words)


Options = dict[str, Any]
ADAMW: Options = {"optimizer": _adamw()}
ADAM: Options = {"optimizer": _adam()}
SGD: Options = {"optimizer": _sgd()}
RMSPROP: Options = {"optimizer": _rmsprop()}
RPROP: Options = {"optimizer": _rprop()}
KINDS = {"AdamW": _adamw, "Adam": _adam, "SGD": _sgd, "RMSprop": _rmsprop}
MISTAKES: dict[str, tuple[Options, Options, str]] = {
    "rate 1.1 times": (ADAMW, {"optimizer": _adamw(lr=1.1e-3)}, "rate"),
    "rate 1.0001 times": (SGD, {"optimizer": _sgd(lr=0.05 * 1.0001)}, "rate"),
    "first beta": (ADAMW, {"optimizer": _adamw(betas=(0.85, 0.999))}, "beta"),
    "second beta": (ADAM, {"optimizer": _adam(betas=(0.9, 0.99))}, "beta"),
    "epsilon 1e-6": (ADAMW, {"optimizer": _adamw(eps=1e-6)}, "eps"),
    "epsilon 1e-4": (ADAM, {"optimizer": _adam(eps=1e-4)}, "eps"),
    "decay 0.01 as 0.1": (ADAMW, {"optimizer": _adamw(weight_decay=0.1)}, "decay"),
    "decay 0.01 as 0.012": (
        ADAMW, {"optimizer": _adamw(weight_decay=0.012)}, "decay"
    ),
    "coupled decay": (ADAMW, {"optimizer": _adam(weight_decay=0.01)}, "decoupled|coupled"),
    "momentum": (SGD, {"optimizer": _sgd(momentum=0.95)}, "momentum"),
    "nesterov": (SGD, {"optimizer": _sgd(nesterov=True)}, "nesterov"),
    "dampening": (SGD, {"optimizer": _sgd(dampening=0.1)}, "dampening|momentum"),
    "amsgrad": (ADAM, {"optimizer": _adam(amsgrad=True)}, "amsgrad"),
    "alpha of RMSprop": (RMSPROP, {"optimizer": _rmsprop(alpha=0.95)}, "alpha|rho"),
    "etas of Rprop": (RPROP, {"optimizer": _rprop(etas=(0.4, 1.2))}, "etas|setitem"),
    "centred RMSprop": (RMSPROP, {"optimizer": _rmsprop(centered=True)}, "centered"),
    "clip left out": ({**SGD, "before": _clip(0.1)}, SGD, "clip|clamp"),
    "clip of each": (
        {**SGD, "before": _clip(0.1)}, {**SGD, "before": _clip_each(0.1)}, "clip|limit"
    ),
    "clip at another norm": (
        {**SGD, "before": _clip(0.1)}, {**SGD, "before": _clip(0.11)}, r"clip|limit|0\.11"
    ),
    "clip behind the update": (
        {**SGD, "before": _clip(0.1)},
        {**SGD, "after": _clip(0.1)},
        "clip|limit|reads the gradient .* where the reference has .*mul",
    ),
    "gradients scaled by 2": (SGD, {**SGD, "before": _scale(2.0)}, "scale|times"),
    "gradients scaled by 1.001": (SGD, {**SGD, "before": _scale(1.001)}, "scale|times"),
    "gradients not cleared": (ADAMW, {**ADAMW, "clear": 2}, "clear|earlier|accumul"),
    "schedule left out": (
        {**SGD, "schedule": _stepped(0.5)}, SGD, "rate.*(stays|schedule)|schedule"
    ),
    "schedule of another factor": (
        {**SGD, "schedule": _stepped(0.5)}, {**SGD, "schedule": _stepped(0.6)}, "rate"
    ),
    "biases left out": (ADAMW, {"optimizer": _without("bias")}, "not|left|missing|no "),
}  # fmt: skip
"""By name: the right options, the wrong ones, and what names the mistake."""
TRAININGS: dict[str, Training] = {
    **{
        f"{net}: {name} over all weights at once": Training(
            net=net,
            reference={"optimizer": kind(foreach=False)},
            candidate={"optimizer": kind(foreach=True)},
        )
        for net in NETS
        for name, kind in KINDS.items()
    },
    **{
        f"{net}: {name}": _pair(net, *mistake)
        for net in ("transformer", "CNN")
        for name, mistake in MISTAKES.items()
    },
    "transformer: one weight decays more": Training(
        net="transformer", reference=ADAMW, words="decay|times|weight",
        candidate={**ADAMW, "after": _one("blocks.0.up.weight", lambda w: w.mul_(1 - 1e-4))},
        origins=("blocks.0.up",),
    ),
    "CNN: one weight is limited": Training(
        net="CNN", reference=SGD, words="limit|clip|clamp",
        candidate={**SGD, "after": _one("conv2.weight", lambda w: w.clamp_(-0.3, 0.3))},
        origins=("conv2",),
    ),
}  # fmt: skip
"""By name; the words are empty where the pair is right."""


def _training(name: str, one: Training) -> Case:
    make, inputs = NETS[one.net]

    def loop(options: Mapping[str, Any]) -> Loop:
        return Loop(model=make, inputs=inputs, **options)

    expected = Expected(verdicts=SAME)
    if one.words:
        expected = Expected(verdicts=DIFFERENT, origins=one.origins, words=one.words)
    return Case(
        group=Group.TRAINING,
        name=name,
        chunk=f"training {one.net}",
        reference=lambda out: loop(one.reference).record(out, "reference"),
        reference_key=name,
        candidate=lambda out, _: loop(one.candidate).record(out, "candidate"),
        expected=expected,
    )
