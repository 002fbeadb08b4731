"""The options of ``padiff dump`` about graph files, scripts and training, and what they come to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
from click.core import ParameterSource

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.graphs import GraphSettings
    from padiff.dumper.recording.recordsettings import RecordSettings, StepPlan
    from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
    from padiff.dumper.runs.script import ScriptSettings
    from padiff.dumper.runs.target import Target

_ONLY_GRAPHS = ("optimization", "providers", "scopes_from")
_ALSO_GRAPHS = (
    "model", "inputs", "inputs_from", "phase", "content", "program", "no_run", "name", "out",
    "overwrite", "compress",
)  # fmt: skip
_GRAPH_OPTIONS = (
    click.option(
        "--optimization",
        type=click.Choice(["none", "basic", "all"]),
        default="none",
        show_default=True,
        help="How far ONNX Runtime rewrites it first.",
    ),
    click.option(
        "--provider",
        "providers",
        metavar="NAME",
        multiple=True,
        help="Execution provider; may repeat.  [default: CPU]",
    ),
    click.option(
        "--scopes-from",
        metavar="FILE.onnx",
        type=click.Path(path_type=Path),
        help="The exporter's file, if a tool rewrote it.",
    ),
)


def graph_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    return cloup.option_group("A model that is a file of ONNX", *_GRAPH_OPTIONS)(command)


def is_graph(options: dict[str, Any]) -> bool:
    """Return whether the model is a graph file."""
    from padiff.dumper.graphs import is_graph_file  # noqa: PLC0415 - few commands need it

    return options["model"] is not None and is_graph_file(options["model"])


def check_graph_options(options: dict[str, Any], given: set[str]) -> None:
    """Refuse options that belong to another kind of model.

    Raises:
        click.UsageError: One of them does not fit.
    """
    context = click.get_current_context()
    is_file = is_graph(options)
    is_backward = "phase" in given and options["phase"] != "forward"
    wrong = given - {*_ALSO_GRAPHS, *_ONLY_GRAPHS} if is_file else given & {*_ONLY_GRAPHS}
    for parameter in context.command.params:
        is_wrong = parameter.name in wrong
        if is_file and (is_wrong or (parameter.name == "phase" and is_backward)):
            raise click.UsageError(
                f"{parameter.opts[0]} cannot be used with a graph file: it runs forward, as it is.",
                context,
            )
        if is_wrong:
            raise click.UsageError(f"{parameter.opts[0]} needs --model FILE.onnx.", context)


def graph_settings(options: dict[str, Any], record: RecordSettings) -> GraphSettings:
    """Return the settings that the options come to.

    Raises:
        ConfigError: The options contradict each other.
    """
    from padiff.dumper.graphs import GraphSettings, Optimization  # noqa: PLC0415
    from padiff.dumper.runs.inputs import parse_input  # noqa: PLC0415

    return GraphSettings(
        model=Path(options["model"]),
        record=record,
        inputs=tuple(parse_input(text) for text in options["inputs"]),
        inputs_from=options["inputs_from"],
        scopes_from=options["scopes_from"],
        optimization=Optimization(options["optimization"]),
        providers=options["providers"],
        no_run=options["no_run"],
        command=("padiff", *sys.argv[1:]),
    )


DEFAULT_STEPS = "0,1"
"""Two iterations show a wrong update and a gradient that was not cleared."""

_ONLY_SCRIPT = ("model_class", "variable", "stop", "script_arguments")
_ALSO_SCRIPT = (
    "script",
    "name",
    "out",
    "overwrite",
    "seed",
    "phase",
    "include",
    "exclude",
    "depth",
    "compress",
    "content",
    "replicas",
    "no_dropout",
    "steps",
    "record_steps",
    "every",
    "rank_wait_s",
)  # fmt: skip
_GIVEN = (
    "weights_from",
    "map_file",
    "weights_strict",
    "inputs_from",
    "feed",
    "feed_phase",
    "keep_dtype",
)
"""What the model gets in place of the script's own."""

_BESIDE = (
    "The script decides how the model runs. Beside these go --name, --out, --overwrite, --seed, "
    "--phase, --include, --exclude, --depth, --compress, --content, --replicas, --rank-wait and, "
    "of training, --steps, --record-steps, --every and --no-dropout; --weights-from, --inputs-from "
    "and --feed, with --map, give the model another's weights, inputs and outputs in the recorded "
    "steps."
)
_SCRIPT_OPTIONS = (
    click.option(
        "--script",
        metavar="FILE.py",
        type=click.Path(path_type=Path),
        help="Run this training script, with what follows '--' as its arguments, and record the "
        "model that it trains; instead of --model. The script needs no change.",
    ),
    click.option(
        "--model-class",
        metavar="NAME",
        help="Class of the script's model.  [default: the first root module that is called]",
    ),
    click.option(
        "--model-variable",
        "variable",
        metavar="NAME",
        help="Variable of the script that holds its model, such as model or trainer.net.",
    ),
    click.option(
        "--replicas",
        metavar="RANKS",
        help="Of several processes, those that hold the same weights as others (1- with plain data "
        "parallelism): write digests, statistics and inputs of them, no other elements.",
    ),
    click.option("--stop", is_flag=True, help="End the script after the last recorded step."),
)  # fmt: skip


def script_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, and what the script is given, to a command."""
    command = click.argument(
        "script_arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED
    )(command)
    return cloup.option_group("Recording a training script", *_SCRIPT_OPTIONS, help=_BESIDE)(
        command
    )


def is_given(name: str) -> bool:
    """Return whether an option stands on the command line, rather than having its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def check_options(options: dict[str, Any]) -> None:
    """Refuse options that belong to the other way of running a model.

    Raises:
        click.UsageError: One of them was given, or neither a model nor a script.
    """
    context = click.get_current_context()
    given = {name for name in options if is_given(name)}
    is_script = options["script"] is not None
    if not is_script and options["model"] is None:
        raise click.UsageError("Missing option '--model' (or '--script').", context)
    wrong = (
        given - {*_ALSO_SCRIPT, *_ONLY_SCRIPT, *_GIVEN} if is_script else given & {*_ONLY_SCRIPT}
    )
    for parameter in context.command.params:
        if parameter.name in wrong:
            named = "ARGS" if parameter.name == "script_arguments" else parameter.opts[0]
            raise click.UsageError(
                f"{named} cannot be used with --script: the script decides that."
                if is_script
                else f"{named} needs --script.",
                context,
            )
    check_graph_options(options, given)


def script_settings(options: dict[str, Any], record: RecordSettings) -> ScriptSettings:
    """Return the settings that the options come to.

    Raises:
        ConfigError: The options contradict each other.
    """
    from padiff.dumper.runs.script import ScriptSettings  # noqa: PLC0415
    from padiff.dumper.runs.scriptmodel import Choice  # noqa: PLC0415

    if options["model_class"] is not None and options["variable"] is not None:
        raise ConfigError("cannot use --model-class with --model-variable: give one of them")
    return ScriptSettings(
        script=options["script"],
        arguments=options["script_arguments"],
        record=record,
        choice=Choice(class_name=options["model_class"], variable=options["variable"]),
        stop=options["stop"],
        seed=options["seed"] if is_given("seed") else None,
        no_dropout=options["no_dropout"],
        given=_replacing(options, record),
        command=("padiff", *sys.argv[1:]),
    )


def _replacing(options: dict[str, Any], record: RecordSettings) -> RunSettings | None:
    """Return the sources that the model gets in place of the script's; None without any."""
    if not any(map(is_given, _GIVEN)):
        return None
    from padiff.dumper.runs.feedphase import FeedPhase  # noqa: PLC0415
    from padiff.dumper.runs.runsettings import RunSettings  # noqa: PLC0415
    from padiff.dumper.runs.target import Target  # noqa: PLC0415

    sources = {name: options[name] for name in _GIVEN}
    sources["feed_phase"] = FeedPhase(sources["feed_phase"])
    model = Target(place=str(options["script"]), attribute="")
    return RunSettings(model=model, record=record, **sources)


_TRAINING_OPTIONS = (
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
    return cloup.option_group("Training", *_TRAINING_OPTIONS)(command)


def train_settings(options: dict[str, Any]) -> TrainSettings:
    """Return the settings that the options come to."""
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
    """Return the steps to record; a script takes them by ``--steps`` too.

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
