"""Trainings in torch and of ports to Paddle with other trees, and mistakes in the ports."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import Phase, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.dumper.runs.target import Target

__all__ = ["BY_HAND", "FAULTS", "PORTS", "STEPS", "Side", "dump", "write_batches"]

_FOLDER = Path(__file__).parent
STEPS = 5


@dataclass(frozen=True, kw_only=True)
class Side:
    """How one side trains."""

    optimizer: str = "sgd"
    options: Mapping[str, Any] = field(default_factory=dict)
    loss: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    schedule: Mapping[str, Any] | None = None
    clip: float | None = None
    steps: int = STEPS


def write_batches(folder: Path) -> None:
    """Write what each step of both models is fed."""
    random = np.random.default_rng(5)
    for step in range(STEPS):
        np.save(folder / f"image{step}.npy", random.standard_normal((6, 3, 12, 12), np.float32))
        np.save(folder / f"label{step}.npy", random.integers(0, 7, 6))
        np.save(folder / f"ids{step}.npy", random.integers(0, 17, (4, 9)))


def dump(folder: Path, framework: str, net: str, side: Side, weights: Path | None = None) -> Path:
    """Train one side and return its dump; torch's, which nothing writes to, once for all tests."""
    text = f"{framework} {net} {side}"
    name = "candidate" if weights else hashlib.sha256(text.encode()).hexdigest()[:16]
    path = folder / "dumps" / name
    if weights is None and path.exists():
        return path

    def target(name: str, arguments: Mapping[str, Any]) -> Target:
        return parse_target(f"{_FOLDER / f'training_trees_{framework}.py'}:{name}", dict(arguments))

    is_gpt = net == "GPT"
    plain = {"torch": "torch.nn:CrossEntropyLoss", "paddle": "paddle.nn:CrossEntropyLoss"}
    loss = target("next_token", side.loss) if is_gpt else parse_target(plain[framework])
    if side.loss and not is_gpt:
        loss = target("classes", side.loss)
    return run(
        RunSettings(
            model=target(net, side.model),
            inputs=(parse_input(str(folder / ("ids" if is_gpt else "image")) + "{step}.npy"),),
            training=True,
            weights_from=weights,
            record=RecordSettings(out=folder / "dumps", name=name, overwrite=True),
            train=TrainSettings(
                steps=side.steps,
                loss=loss,
                labels=(parse_input(str(folder / ("ids" if is_gpt else "label")) + "{step}.npy"),),
                optimizer=target(side.optimizer, side.options),
                scheduler=None if side.schedule is None else target("warm_cosine", side.schedule),
                largest_norm=side.clip,
            ),
        )
    )


PORTS = {
    "SGD": (Side(options={"weight_decay": 0.01}, schedule={}), None),
    "Adam": (Side(optimizer="adam"), None),
    "AdamW": (Side(optimizer="adamw", schedule={}), None),
    "clipped": (Side(clip=1.0), Side(options={"clip": "global"})),
    "RMSprop": (
        Side(optimizer="rmsprop", options={"eps": 1e-16}),
        Side(optimizer="rmsprop", options={"epsilon": 1e-16}),
    ),
}
"""Torch's side and Paddle's, None if it has the same options."""
UPDATE, FORWARD, BACKWARD = Phase.UPDATE, Phase.FORWARD, Phase.BACKWARD
GROUP = "option 'weight_decay' of the optimizer: 0.0 on the reference, 0.1 on the candidate"
BY_HAND = {"convention": "mean"}
FAULTS = {
    "weight decay group": (
        "GPT", Side(optimizer="adamw"), Side(optimizer="adamw", options={"everywhere": True}),
        (0, UPDATE, Role.WEIGHT), GROUP + " for 18 of 29 weights",
    ),
    "place of epsilon": (
        "GPT", Side(optimizer="rmsprop", options={"eps": 1e-4}),
        Side(optimizer="rmsprop", options={"epsilon": 1e-4}),
        (0, UPDATE, Role.WEIGHT), "sqrt(v) + eps in torch, by sqrt(v + epsilon) in paddle",
    ),
    "place of epsilon, by hand": (
        "GPT", Side(optimizer="rmsprop", options={"eps": 1e-4}),
        Side(optimizer="rmsprop_by_hand"),
        (0, UPDATE, Role.WEIGHT),
        "__add__(0.0001), sqrt where the reference has sqrt, add_, plus 0.0001",
    ),
    "rate off by one": (
        "ResNet", Side(schedule={}), Side(schedule={"early": 1}),
        (0, UPDATE, Role.LR), "in each step the candidate has the rate of the reference's next",
    ),
    "schedule stepped twice too late": (
        "GPT", Side(schedule={}), Side(schedule={"early": -1}),
        (0, UPDATE, Role.LR), "in each step the reference has the rate of the candidate's next",
    ),
    "schedule forgotten": (
        "GPT", Side(schedule={}), Side(options={"lr": 0.05}),
        (1, UPDATE, Role.LR), "the candidate's rate stays at 0.05",
    ),
    "ten times the rate": (
        "GPT", Side(), Side(options={"lr": 1.0}),
        (0, UPDATE, Role.LR), "in all steps the candidate's rate is 10 times the reference's",
    ),
    "momentum as a mean": (
        "ResNet", Side(), Side(optimizer="by_hand", options=BY_HAND),
        (0, UPDATE, Role.WEIGHT), "too much: __rmul__(0.1)",
    ),
    "momentum left out": (
        "GPT", Side(), Side(optimizer="by_hand", options={"convention": "none"}),
        (1, UPDATE, Role.WEIGHT), "left out: mul_, times 0.9",
    ),
    "nesterov": (
        "GPT", Side(), Side(options={"use_nesterov": True}),
        (0, UPDATE, Role.WEIGHT), "option 'nesterov' of the optimizer: False on the reference",
    ),
    "beta1": (
        "GPT", Side(optimizer="adam"), Side(optimizer="adam", options={"beta1": 0.95}),
        (0, UPDATE, Role.OPTIMIZER_STATE), "proved: beta1 of adam_: 0.95 where",
    ),
    "beta2": (
        "ResNet", Side(optimizer="adam"), Side(optimizer="adam", options={"beta2": 0.99}),
        (0, UPDATE, Role.OPTIMIZER_STATE), "proved: beta2 of adam_: 0.99 where",
    ),
    "epsilon of Adam": (
        "ResNet", Side(optimizer="adam"), Side(optimizer="adam", options={"epsilon": 1e-4}),
        (0, UPDATE, Role.WEIGHT), "proved: epsilon of adam_: 0.0001 where the reference has 1e-08",
    ),
    "coupled decay": (
        "GPT", Side(optimizer="adamw"), Side(optimizer="adam", options={"weight_decay": 0.1}),
        (0, UPDATE, Role.OPTIMIZER_STATE), "option 'decoupled' of the optimizer: True on the",
    ),
    "decay left out": (
        "GPT", Side(options={"weight_decay": 0.01}), Side(),
        (0, UPDATE, Role.OPTIMIZER_STATE), "option 'weight_decay' of the optimizer: 0.01 on",
    ),
    "another optimizer": (
        "ResNet", Side(), Side(optimizer="adam"),
        (0, UPDATE, Role.LR), "in all steps the candidate's rate is 0.03 times",
    ),
    "clip by value": (
        "ResNet", Side(clip=1.0), Side(options={"clip": "value"}),
        (0, UPDATE, Role.WEIGHT_GRAD), "proved: clip(-0.05, 0.05)",
    ),
    "clip of each": (
        "ResNet", Side(clip=1.0), Side(options={"clip": "each"}),
        (0, UPDATE, Role.WEIGHT_GRAD), "candidate at paddle._C_ops.clip_by_norm of",
    ),
    "clip left out": (
        "ResNet", Side(clip=1.0), Side(),
        (0, UPDATE, Role.WEIGHT_GRAD), "the candidate recorded no clipped gradient",
    ),
    "BatchNorm's momentum": (
        "ResNet", Side(), Side(model={"momentum": 0.1}),
        (0, UPDATE, Role.BUFFER), "torch's 0.1 is paddle's 0.9",
    ),
    "label smoothing": (
        "ResNet", Side(), Side(loss={"label_smoothing": 0.1}),
        (0, FORWARD, Role.LOSS), "too much: label_smooth(0.1)",
    ),
    "sum for mean": (
        "GPT", Side(), Side(loss={"reduction": "sum"}),
        (0, FORWARD, Role.LOSS), "where the reference has cross_entropy",
    ),
    "loss scaled": (
        "GPT", Side(), Side(loss={"scale": 128.0}),
        (0, FORWARD, Role.LOSS), "too much: __mul__(128)",
    ),
}  # fmt: skip
"""The model, both sides, step, phase and role of the only origin, and what its evidence says."""
