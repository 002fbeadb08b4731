"""``padiff dump``: run a model and record what every module does."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from padiff.comparer.report.escape import printable
from padiff.dumpfile import ConfigError, Phase, RecordError

from .command import command
from .dump_options import (
    check_options,
    graph_options,
    graph_settings,
    is_given,
    is_graph,
    script_options,
    script_settings,
    step_plan,
    train_settings,
    training_options,
)

if TYPE_CHECKING:
    from padiff.dumper import RecordSettings
    from padiff.dumper.runs.repeat import RepeatSettings
    from padiff.dumper.runs.runsettings import Progress, RunSettings

    from .watcher import Blackbox


OUR_FOLDER = str(Path(__file__).absolute().parents[1] / "dumper")
KIBI = 1024


@command(
    examples="""
    padiff dump --model net.py:build --inputs x.npy --name reference
    padiff dump --model port.py:Net --inputs-from padiff_dump/reference \\
                --weights-from padiff_dump/reference --name candidate
    padiff dump --script train.py --steps 0,1 --stop -- --epochs 1
    """,
    pages={"training": ("Training",), "script": ("Recording a training script",)},
)
@cloup.option_group(
    "The model",
    click.option(
        "--model",
        metavar="MODULE:ATTR|FILE.py:ATTR|FILE.onnx",
        help="A factory, a class or a model; the current directory is importable.",
    ),
    click.option(
        "--model-arg",
        "model_args",
        metavar="KEY=JSON",
        multiple=True,
        help="Keyword argument of the factory or class; may repeat.",
    ),
    click.option(
        "--framework",
        "frameworks",
        metavar="NAME",
        multiple=True,
        help="torch, paddle, mindspore, jax [default: by model]",
    ),
    click.option(
        "--device", metavar="DEVICE", help="cpu, cuda:0, gpu:0 …  [default: where the model is]"
    ),
    click.option("--dtype", metavar="DTYPE", help="Cast the model: float32, float64, bfloat16 …"),
    click.option(
        "--train/--eval",
        "training",
        default=False,
        help="Training flag of the model.  [default: --eval]",
    ),
    click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        help="Seeds Python, numpy and the framework; one that is given also asks for deterministic "
        "kernels.",
    ),
)
@cloup.option_group(
    "Its inputs and weights",
    click.option(
        "--inputs",
        metavar="[NAME=]FILE",
        multiple=True,
        help="A .npy, .npz or .safetensors file, or a draw as auto:2x3 or auto:2x3:int64:0:9; for "
        "the next position or one keyword; may repeat. Names in a file that are parameters of "
        "forward go by keyword.",
    ),
    click.option(
        "--inputs-from",
        metavar="DUMP",
        type=click.Path(path_type=Path),
        help="Feed what another dump recorded as the inputs of its root call; in order where "
        "forward knows none of the names.",
    ),
    click.option("--keep-dtype", is_flag=True, help="Feed floating inputs in their own dtype."),
    click.option(
        "--weights-from",
        metavar="SOURCE",
        type=click.Path(path_type=Path),
        help="Load weights and buffers first: a dump, a .safetensors, a torch .pth, .pt or .bin, "
        "or a Paddle .pdparams.",
    ),
    click.option(
        "--weights-strict/--no-weights-strict",
        default=True,
        help="Whether a weight without partner is an error.  [default: --weights-strict]",
    ),
    click.option(
        "--map",
        "map_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Map file that says which module is which, for --weights-from and --feed.",
    ),
    click.option(
        "--feed",
        metavar="DUMP",
        type=click.Path(path_type=Path),
        help="Let each call hand on what this dump recorded of its partner, so that each module is "
        "judged by itself; also gives the inputs.",
    ),
    click.option(
        "--feed-phase",
        type=click.Choice(["forward", "backward", "both"]),
        default="both",
        show_default=True,
        help="Feed outputs, the gradients of outputs, or both.",
    ),
)
@cloup.option_group(
    "What is recorded",
    click.option(
        "--phase",
        type=click.Choice([str(Phase.FORWARD), str(Phase.BACKWARD)]),
        default=str(Phase.BACKWARD),
        show_default=True,
        help="The last phase to run and record.",
    ),
    click.option(
        "--include",
        metavar="PATTERN",
        multiple=True,
        help="Only these modules and what is inside: a glob of module paths or type:CLASS, with "
        "@self or @sublayers; may repeat.",
    ),
    click.option(
        "--exclude", metavar="PATTERN", multiple=True, help="Do not record these; it wins."
    ),
    click.option(
        "--depth", type=int, help="Deepest level whose calls are recorded; the root is 0."
    ),
    click.option(
        "--content",
        metavar="operators|full|sample=N|program|stats|digest",
        default="full",
        show_default=True,
        help="How much to write: what every operator made; what modules take and give; N (4096) "
        "elements of each tensor; what it takes to compute the rest again; statistics; digests.",
    ),
    click.option(
        "--program",
        type=click.Choice(["operators", "none"]),
        default="operators",
        show_default=True,
        help="Record every operator of the forward pass and the loss, or modules alone.",
    ),
    click.option(
        "--no-run",
        is_flag=True,
        help="Write structure, weights and buffers only; needs no inputs.",
    ),
)
@cloup.option_group(
    "Where it is written",
    click.option(
        "--name", metavar="NAME", help="Name of the dump.  [default: the class name, or the file's]"
    ),
    click.option(
        "--out",
        metavar="FOLDER",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("padiff_dump"),
        show_default=True,
        help="Folder of all dumps.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace a dump of that name."),
    click.option(
        "--compress",
        metavar="LEVEL",
        type=click.IntRange(1, 9),
        help="Deflate the values; smaller, but slower to write and compare.",
    ),
    click.option(
        "--rank-wait",
        "rank_wait_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0),
        help="How long the processes of one run wait for each other at the end.  [default: 300]",
    ),
)
@cloup.option_group(
    "The noise floor",
    click.option(
        "--repeat",
        metavar="N",
        type=click.IntRange(min=1),
        help="Run N more times and store how far every record moves.",
    ),
    click.option(
        "--perturb",
        type=click.Choice(["none", "ulp"]),
        default="ulp",
        show_default=True,
        help="What --repeat changes: nothing, or inputs and weights by rounding.",
    ),
)
@graph_options
@training_options
@script_options
def dump(**options: Any) -> None:  # noqa: ANN401 - one per option above
    """Run a model and record what every module does.

    The model runs forward, then backward from the loss, and everything that its modules take and
    give goes to FOLDER/NAME; with --optimizer also what the update makes of the weights. A dump
    that an option names may be packed.
    """
    started_s = time.perf_counter()
    check_options(options)
    try:
        path = _recorded(options)
    except RecordError as error:
        _show_cause(error)
        raise
    from padiff.dumper.recording.ranks import is_first_rank  # noqa: PLC0415

    if is_first_rank():  # of one dump, one line is enough
        _say_where(path, options["out"] / path.name, elapsed_s=time.perf_counter() - started_s)


def _recorded(options: dict[str, Any]) -> Path:
    """Record what the options name: a model, a graph file or a script."""
    if options["script"] is not None:
        return _run_script(options)
    return _run_graph(options) if is_graph(options) else _run(options)


def _run_graph(options: dict[str, Any]) -> Path:
    settings = graph_settings(options, _record_settings(options))
    from padiff.dumper.graphs import dump_graph  # noqa: PLC0415 - after the options proved right

    return dump_graph(settings)


def _run(options: dict[str, Any]) -> Path:
    settings = _settings(options)
    from padiff.dumper.runs.run import run  # noqa: PLC0415 - after the options proved right

    with _progress() as progress:
        return run(settings, progress=_noted(progress))


def _run_script(options: dict[str, Any]) -> Path:
    settings = script_settings(options, _record_settings(options))
    from padiff.dumper.runs.script import run_script  # noqa: PLC0415 - after the options proved right

    return run_script(settings)


def _settings(options: dict[str, Any]) -> RunSettings:
    from padiff.dumper.runs.feedphase import FeedPhase  # noqa: PLC0415
    from padiff.dumper.runs.inputs import parse_input  # noqa: PLC0415
    from padiff.dumper.runs.runsettings import RunSettings  # noqa: PLC0415
    from padiff.dumper.runs.target import parse_arguments, parse_target  # noqa: PLC0415

    return RunSettings(
        model=parse_target(options["model"], parse_arguments(options["model_args"])),
        inputs=tuple(parse_input(text) for text in options["inputs"]),
        framework=_one_framework(options["frameworks"]),
        command=("padiff", *sys.argv[1:]),
        record=_record_settings(options),
        train=train_settings(options),
        feed_phase=FeedPhase(options["feed_phase"]),
        repeat=_repeat_settings(options),
        deterministic=is_given("seed"),
        **{
            key: options[key]
            for key in (
                "inputs_from",
                "feed",
                "device",
                "dtype",
                "training",
                "seed",
                "keep_dtype",
                "weights_from",
                "map_file",
                "weights_strict",
                "no_run",
            )
        },
    )


def _record_settings(options: dict[str, Any]) -> RecordSettings:
    from padiff.dumper import RecordSettings  # noqa: PLC0415
    from padiff.dumper.recording.recordsettings import parse_ranks  # noqa: PLC0415
    from padiff.dumpfile import Keep  # noqa: PLC0415

    return RecordSettings(
        out=options["out"],
        name=options["name"],
        phase=Phase(options["phase"]),
        include=options["include"],
        exclude=options["exclude"],
        depth=options["depth"],
        overwrite=options["overwrite"],
        compression=options["compress"],
        content=Keep.parse(options["content"]),
        replicas=() if options["replicas"] is None else parse_ranks(options["replicas"]),
        program=options["program"] == "operators",
        **_running(),
        plan=step_plan(options),
        rank_wait_s=options["rank_wait_s"],
    )


def _repeat_settings(options: dict[str, Any]) -> RepeatSettings | None:
    from padiff.dumper.runs.repeat import Perturb, RepeatSettings  # noqa: PLC0415

    if options["repeat"] is None:
        return None
    return RepeatSettings(count=options["repeat"], perturb=Perturb(options["perturb"]))


def _one_framework(given: tuple[str, ...]) -> str | None:
    """Take the one framework that was named, however often."""
    named = {name.strip() for text in given for name in text.split(",")}
    if len(named) > 1:
        both = " and ".join(sorted(named))
        raise ConfigError(
            f"cannot use the frameworks {both} at once: a dump is of one model in one framework",
            hint="run padiff dump once for each, then padiff compare",
        )
    return named.pop() if named else None


def _progress() -> AbstractContextManager[Any]:
    """Draw on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        return nullcontext()
    from .dump_progress import TerminalProgress  # noqa: PLC0415 - rich only where it is seen

    return TerminalProgress()


def _notes() -> Blackbox | None:
    """Return what outlives a crash, where the command is watched."""
    found: Blackbox | None = click.get_current_context().obj
    return found


def _running() -> dict[str, Any]:
    notes = _notes()
    return {} if notes is None else {"running": notes}


def _noted(progress: Progress | None) -> Progress | None:
    """Let the stages be noted, too."""
    notes = _notes()
    if notes is None:
        return progress
    from .dump_notes import NotedProgress  # noqa: PLC0415

    return NotedProgress(notes, progress)


def _show_cause(error: RecordError) -> None:
    """Print the traceback of the user's exception without the lines that are padiff's."""
    cause = error.__cause__
    if cause is None:
        return
    shown = traceback.TracebackException.from_exception(cause)
    one: traceback.TracebackException | None = shown
    while one is not None:
        own = [frame for frame in one.stack if not _is_ours(frame)]
        one.stack = traceback.StackSummary.from_list(own or one.stack)
        one = one.__cause__ or one.__context__
    click.echo("".join(shown.format()).rstrip(), err=True)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    """Return whether a line is padiff's, or of what it runs the user's code by."""
    return frame.filename.startswith((OUR_FOLDER, "<frozen importlib", contextlib.__file__))


def _say_where(path: Path, shown: Path, *, elapsed_s: float) -> None:
    from padiff.dumpfile import open_dump  # noqa: PLC0415 -- after the run
    from padiff.dumpfile.manifestcodec import RECORDING  # noqa: PLC0415

    manifest = open_dump(path).manifest
    files = manifest.files
    calls = sum(file.calls for file in files)
    records = sum(file.records for file in files)
    size = _readable(sum(file.size_bytes for file in files))
    click.echo(
        f"dump at {printable(str(shown))}: {calls} calls, {records} records, {size}, "
        f"{elapsed_s:.1f} s",
        err=True,
    )
    for note in manifest.notes:
        if note.startswith(("weights: ", "inputs: ", "loss: ", "no backward pass: ", RECORDING)):
            click.echo(f"note: {printable(note)}", err=True)


def _readable(size_bytes: int) -> str:
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= KIBI and len(units) > 1:
        size, units = size / KIBI, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"
