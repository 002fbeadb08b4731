"""``padiff dump --script``: record the model that someone's training script trains."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
from click.core import ParameterSource

from padiff.dumpfile import ConfigError

from .dump_graph import check_graph_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumper.runs.runsettings import RunSettings
    from padiff.dumper.runs.script import ScriptSettings

__all__ = ["DEFAULT_STEPS", "check_options", "is_given", "script_options", "script_settings"]

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
_OPTIONS = (
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
    return cloup.option_group("Recording a training script", *_OPTIONS, help=_BESIDE)(command)


def is_given(name: str) -> bool:
    """Tell whether an option stands on the command line, rather than having its default."""
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
    """Give the settings that the options come to.

    Args:
        options: Everything that the command was given.
        record: What is recorded, but for the steps.

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
        given=_given(options, record),
        command=("padiff", *sys.argv[1:]),
    )


def _given(options: dict[str, Any], record: RecordSettings) -> RunSettings | None:
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
