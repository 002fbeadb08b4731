"""``padiff dump --model FILE.onnx``: record a model that is a graph in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.graphs import GraphSettings
    from padiff.dumper.recording.recordsettings import RecordSettings

__all__ = ["check_graph_options", "graph_options", "graph_settings", "is_graph"]

_ONLY_GRAPHS = ("optimization", "providers", "scopes_from")
_ALSO_GRAPHS = (
    "model", "inputs", "inputs_from", "phase", "content", "program", "no_run", "name", "out",
    "overwrite", "compress",
)  # fmt: skip
_OPTIONS = (
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
    return cloup.option_group("A model that is a file of ONNX", *_OPTIONS)(command)


def is_graph(options: dict[str, Any]) -> bool:
    """Return whether the model is a graph file."""
    from padiff.dumper.graphs import is_graph_file  # noqa: PLC0415 - few commands need it

    return options["model"] is not None and is_graph_file(options["model"])


def check_graph_options(options: dict[str, Any], given: set[str]) -> None:
    """Refuse options that belong to another kind of model.

    Args:
        options: Everything that the command was given.
        given: The names of those that stand on the command line.

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

    Args:
        options: Everything that the command was given.
        record: What is recorded.

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
