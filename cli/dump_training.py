"""The options of ``padiff dump`` that are about training, and what they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import cloup

from padiff.dumpfile import ConfigError

from .dump_script import DEFAULT_STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.recording.recordsettings import StepPlan
    from padiff.dumper.runs.runsettings import TrainSettings
    from padiff.dumper.runs.target import Target

__all__ = ["step_plan", "train_settings", "training_options"]

_OPTIONS = (
    click.option(
        "--steps",
        metavar="N|STEPS",
        help="How many steps to run. '{step}' in the name of an --inputs or --label file is the "
        "step's number; a file without it serves all steps.  [default: 1]  With --script: the "
        "steps to record, such as 0,100.  [default: 0,1]",
    ),
    click.option(
        "--loss",
        metavar="MODULE:ATTR",
        help="A loss class of the framework, or a function of the model's output and the labels.  "
        "[default: the mean of the outputs]",
    ),
    click.option(
        "--outputs",
        metavar="NAME[,NAME]",
        help="Outputs that the default loss takes, such as logits or 0.  [default: those that the "
        "dump of --weights-from, --inputs-from or --feed has, too]",
    ),
    click.option(
        "--loss-arg",
        "loss_args",
        metavar="KEY=JSON",
        multiple=True,
        help="Keyword argument of the loss; may repeat.",
    ),
    click.option(
        "--label",
        "labels",
        metavar="[NAME=]FILE",
        multiple=True,
        help="What the loss takes beside the output, read like --inputs; may repeat.",
    ),
    click.option(
        "--optimizer",
        metavar="MODULE:ATTR",
        help="An optimizer class, or a function that takes the parameters (or the model, if its "
        "first parameter is called 'model') and returns an optimizer, or a function without "
        "arguments that changes the weights.",
    ),
    click.option(
        "--optimizer-arg",
        "optimizer_args",
        metavar="KEY=JSON",
        multiple=True,
        help="Keyword argument of the optimizer; may repeat.",
    ),
    click.option(
        "--lr-scheduler",
        "scheduler",
        metavar="MODULE:ATTR",
        help="A learning-rate schedule of the framework, or a function of the optimizer that "
        "returns one; it goes on after each step.",
    ),
    click.option(
        "--lr-scheduler-arg",
        "scheduler_args",
        metavar="KEY=JSON",
        multiple=True,
        help="Keyword argument of the schedule; may repeat.",
    ),
    click.option(
        "--clip-grad-norm",
        "largest_norm",
        metavar="NORM",
        type=float,
        help="Clip the gradients to this total norm before each update.",
    ),
    click.option("--no-dropout", is_flag=True, help="Switch all dropout off, with --train too."),
    click.option(
        "--record-steps",
        metavar="STEPS",
        help="Record only these of the steps, such as 0,10,100.  [default: all]",
    ),
    click.option(
        "--every",
        metavar="K",
        type=click.IntRange(min=1),
        help="Record step 0 and every K-th after it; adds to --record-steps.",
    ),
)


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    return cloup.option_group("Training", *_OPTIONS)(command)


def train_settings(options: dict[str, Any]) -> TrainSettings:
    """Give the settings that the options come to."""
    from padiff.dumper.runs.inputs import parse_input  # noqa: PLC0415
    from padiff.dumper.runs.outputs import parse_names  # noqa: PLC0415
    from padiff.dumper.runs.runsettings import TrainSettings  # noqa: PLC0415

    return TrainSettings(
        steps=_count(options["steps"]),
        loss=_target(options, "loss", "loss"),
        outputs=parse_names(options["outputs"]),
        labels=tuple(parse_input(text) for text in options["labels"]),
        optimizer=_target(options, "optimizer", "optimizer"),
        scheduler=_target(options, "scheduler", "schedule"),
        largest_norm=options["largest_norm"],
        no_dropout=options["no_dropout"],
    )


def step_plan(options: dict[str, Any]) -> StepPlan:
    """Give the steps to record; a script takes them by ``--steps`` too.

    Raises:
        ConfigError: The list is no list of numbers.
    """
    from padiff.dumper.recording.recordsettings import StepPlan  # noqa: PLC0415

    text, every = options["record_steps"], options["every"]
    if options["script"] is not None:
        if text is not None and options["steps"] is not None:
            raise ConfigError("cannot use --steps with --record-steps: both name steps to record")
        text = text or options["steps"] or (DEFAULT_STEPS if every is None else None)
    try:
        steps = None if text is None else frozenset(int(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(
            f"cannot read the steps {text!r}: expected numbers with commas between, such as 0,10"
        ) from error
    return StepPlan(steps=steps, every=every)


def _count(text: str | None) -> int:
    if text is not None and not text.isdecimal():
        raise ConfigError(
            f"cannot run {text!r} steps: expected a number",
            hint="--record-steps 0,10 names those to record" if "," in text else None,
        )
    return 1 if text is None else int(text)


def _target(options: dict[str, Any], name: str, noun: str) -> Target | None:
    from padiff.dumper.runs.target import parse_arguments, parse_target  # noqa: PLC0415

    text, arguments = options[name], parse_arguments(options[f"{name}_args"])
    if text is None and arguments:
        raise ConfigError(f"cannot pass arguments to the {noun}: there is none")
    return None if text is None else parse_target(text, arguments, noun=noun)
