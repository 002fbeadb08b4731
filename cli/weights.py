"""``padiff weights``: plan, convert, compare and look at weights, without running a model."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.dumpfile import ConfigError

from .command import Command, both_sides
from .hints import CommandGroup
from .output import check_place, emit, render_to_text, write_text

if TYPE_CHECKING:
    from padiff.pairing.side import Side
    from padiff.pairing.weights.weight_plan import WeightPlan


_SOURCE = click.Path(path_type=Path)
_map_option = click.option("--map", "map_path", type=_SOURCE, help="Map file with pairs and rules.")


@click.group(cls=CommandGroup)
def weights() -> None:
    """Plan, convert, compare and look at weights of dumps and checkpoint files.

    Each side is a dump, packed or not, a .safetensors, a torch .pth, .pt or .bin state dict, or a
    Paddle .pdparams. A dump without a run (padiff dump --no-run) is enough.
    """


@weights.command(
    cls=Command,
    examples="""
    padiff weights plan model.pth model.pdparams -o map.toml
    """,
)
@both_sides
@_map_option
@click.option("-o", "--output", type=_SOURCE, help="Write the plan as a map file to edit.")
def plan(reference: Path, candidate: Path, map_path: Path | None, output: Path | None) -> int:
    """Print which weight of CANDIDATE is made of which of REFERENCE, and by which rule.

    Exit code 1 if something is missing or ambiguous.
    """
    from padiff.pairing.weights.weight_text import plan_to_toml  # noqa: PLC0415 -- when needed

    from .weights_text import draw_plan  # noqa: PLC0415

    with ExitStack() as stack:
        sides, made = _planned(stack, reference, candidate, map_path)
        if output is not None:
            write_text(output, plan_to_toml(made, *sides))
        emit(render_to_text(lambda console: draw_plan(console, made, *sides)))
    return 1 if made.missing or made.ambiguous else 0


@weights.command(
    cls=Command,
    examples="""
    padiff weights convert model.pth --to model.pdparams --like padiff_dump/paddle
    padiff weights convert model.pth --to port.pdparams --model port.py:Net --map map.toml
    """,
)
@click.argument("source", type=_SOURCE)
@click.option("--to", "destination", type=_SOURCE, required=True, help="File to write.")
@click.option("--like", type=_SOURCE, help="Dump or file of the target model.")
@click.option(
    "--model",
    "model",
    metavar="MODULE:ATTR|FILE.py:ATTR",
    help="The target model itself, instead of --like: a factory, a class or a model.",
)
@click.option(
    "--model-arg",
    "model_args",
    metavar="KEY=JSON",
    multiple=True,
    help="Keyword argument of the factory or class; may repeat.",
)
@_map_option
@click.option(
    "--weights-strict/--no-weights-strict",
    "strict",
    default=True,
    help="Whether a weight without partner is an error.  [default: --weights-strict]",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
def convert(  # noqa: PLR0913 - one per option
    source: Path,
    *,
    destination: Path,
    like: Path | None,
    model: str | None,
    model_args: tuple[str, ...],
    map_path: Path | None,
    strict: bool,
    overwrite: bool,
) -> int:
    """Write the weights of SOURCE as a checkpoint for another model.

    The other model is that of a dump or file (--like), or is built here (--model).
    """
    check_place(destination, option="--to")
    if destination.exists() and not overwrite:
        raise ConfigError(
            f"cannot write {str(destination)!r}: it exists", hint="--overwrite replaces it"
        )
    from padiff.dumper.weights.checkpoint import open_source, write_arrays  # noqa: PLC0415 -- when needed
    from padiff.dumper.weights.convert import convert as convert_weights  # noqa: PLC0415
    from padiff.pairing import plan_weights, read_map  # noqa: PLC0415
    from padiff.pairing.weights.settled import settled_by_content  # noqa: PLC0415

    from .weights_text import draw_conversion  # noqa: PLC0415

    with ExitStack() as stack:
        target = _target(stack, like, model, model_args)
        sides = stack.enter_context(open_source(source)), target
        made = plan_weights(*sides, map_file=None if map_path is None else read_map(map_path))
        made = settled_by_content(made, *sides)
        task = f"cannot convert {str(source)!r}"
        found = convert_weights(made, *sides, task=task, strict=strict)
        destination.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(destination, found.arrays)
        emit(render_to_text(lambda console: draw_conversion(console, found, made, *sides)))
    return 0


def _target(
    stack: ExitStack, like: Path | None, model: str | None, model_args: tuple[str, ...]
) -> Side:
    from padiff.dumper.weights.checkpoint import open_source  # noqa: PLC0415 -- when needed

    if (like is None) == (model is None):
        raise ConfigError(
            "cannot tell the model to convert for: expected either --like or --model",
            hint="--like DUMP_OR_FILE, or --model FILE.py:ATTR",
        )
    if like is not None:
        return stack.enter_context(open_source(like))
    from padiff.dumper.recording.live import build_side  # noqa: PLC0415 - the other way needs no model
    from padiff.dumper.runs.target import parse_arguments, parse_target  # noqa: PLC0415

    return build_side(parse_target(model or "", parse_arguments(model_args)))


@weights.command(
    cls=Command,
    examples="""
    padiff weights compare model.pth model.pdparams --atol 1e-6
    """,
)
@both_sides
@_map_option
@click.option(
    "--atol",
    type=float,
    help="Absolute tolerance; without --rtol it only loosens. [default: by dtype]",
)
@click.option("--rtol", type=float, help="Relative tolerance. [default: by dtype]")
@click.option("--verbose", is_flag=True, help="List what matches, too.")
def compare(
    reference: Path,
    candidate: Path,
    *,
    map_path: Path | None,
    atol: float | None,
    rtol: float | None,
    verbose: bool,
) -> int:
    """Compare the values of two sets of weights through the plan. Exit codes as padiff compare."""
    from padiff.comparer.weights import WeightTolerance, compare_weights  # noqa: PLC0415 -- when needed

    from .weights_text import draw_comparison  # noqa: PLC0415

    with ExitStack() as stack:
        sides, made = _planned(stack, reference, candidate, map_path)
        judged = compare_weights(*sides, made, WeightTolerance(atol=atol, rtol=rtol))
        emit(
            render_to_text(
                lambda console: draw_comparison(console, judged, made, *sides, verbose=verbose)
            )
        )
    is_match = all(one.is_match for one in judged) and not made.missing
    return 0 if is_match else 1


@weights.command(
    cls=Command,
    examples="""
    padiff weights stats padiff_dump/torch padiff_dump/paddle --max-rows 20
    """,
)
@click.argument("reference", type=_SOURCE)
@click.argument("candidate", type=_SOURCE, required=False)
@_map_option
@click.option("--max-rows", type=click.IntRange(min=0), default=0, help="Rows; 0: all.")
def stats(reference: Path, candidate: Path | None, map_path: Path | None, max_rows: int) -> int:
    """Print mean, std, min, max and norm of every weight; of two sides ranked by difference.

    For checking initialisation, where values differ but distributions should not.
    """
    from padiff.dumper.weights.checkpoint import open_source  # noqa: PLC0415 -- when needed

    from .weights_text import draw_statistics  # noqa: PLC0415

    with ExitStack() as stack:
        if candidate is None:
            side = stack.enter_context(open_source(reference))
            text = render_to_text(lambda console: draw_statistics(console, (side,), None, max_rows))
        else:
            sides, made = _planned(stack, reference, candidate, map_path)
            text = render_to_text(lambda console: draw_statistics(console, sides, made, max_rows))
    emit(text)
    return 0


def _planned(
    stack: ExitStack, reference: Path, candidate: Path, map_path: Path | None
) -> tuple[tuple[Side, Side], WeightPlan]:
    from padiff.dumper.weights.checkpoint import open_source  # noqa: PLC0415 -- when needed
    from padiff.pairing import plan_weights, read_map  # noqa: PLC0415
    from padiff.pairing.weights.settled import settled_by_content  # noqa: PLC0415

    sides = (
        stack.enter_context(open_source(reference)),
        stack.enter_context(open_source(candidate)),
    )
    entries = None if map_path is None else read_map(map_path)
    return sides, settled_by_content(plan_weights(*sides, map_file=entries), *sides)
