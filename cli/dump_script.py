"""``padiff dump --script``: record the model that someone's training script trains."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumper.runs.script import ScriptSettings

__all__ = ["DEFAULT_STEPS", "check_options", "is_given", "script_options", "script_settings"]

DEFAULT_STEPS = "0,1"
"""Two iterations show a wrong update and a gradient that was not cleared."""

_ONLY_SCRIPT = ("model_class", "variable", "stop", "script_arguments")
_ALSO_SCRIPT = (
    "script", "name", "out", "overwrite", "seed", "phase", "include", "exclude", "depth",
    "compress", "content", "no_dropout", "steps", "record_steps", "every", "rank_wait_s",
)  # fmt: skip

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
    click.option("--stop", is_flag=True, help="End the script after the last recorded step."),
    click.argument(
        "script_arguments", metavar="[-- ARGS]", nargs=-1, type=click.UNPROCESSED
    ),
)  # fmt: skip


def script_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


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
    wrong = given - set(_ALSO_SCRIPT) - set(_ONLY_SCRIPT) if is_script else given & {*_ONLY_SCRIPT}
    for parameter in context.command.params:
        if parameter.name in wrong:
            named = "ARGS" if parameter.name == "script_arguments" else parameter.opts[0]
            raise click.UsageError(
                f"{named} cannot be used with --script: the script decides that."
                if is_script
                else f"{named} needs --script.",
                context,
            )


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
        command=("padiff", *sys.argv[1:]),
    )
