"""``padiff replay``: the recorded operators of a dump in the other framework."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from .command import command, which_rank, which_step
from .output import emit, emit_json


@command(
    examples="""
    padiff replay padiff_dump/torch --framework paddle
    padiff replay padiff_dump/torch --framework paddle --python ~/paddle/bin/python --json
    """
)
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--framework", type=click.Choice(["paddle"]), required=True, help="Runs them.")
@click.option("--python", metavar="PATH",
              help="Interpreter of its environment.  [default: this one]")  # fmt: skip
@click.option("--device", default="cpu", show_default=True, help="Of all tensors: cpu, gpu.")
@click.option("--time-limit", type=click.FloatRange(min=0.1), default=60.0, show_default=True,
              metavar="SECONDS", help="Of one operator.")  # fmt: skip
@which_step
@which_rank
@click.option("--profile", "repeats", type=click.IntRange(min=0), default=0, metavar="N",
              help="Time each operator N times in both frameworks, and print the sums of the "
              "medians and their ratio.")  # fmt: skip
@click.option("--python-reference", metavar="PATH",
              help="Interpreter of torch's environment; --profile needs it.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def replay(  # noqa: PLR0913 -- one per option
    dump: Path,
    *,
    framework: str,
    python: str | None,
    python_reference: str | None,
    device: str,
    time_limit: float,
    step: int,
    rank: int,
    repeats: int,
    as_json: bool,
) -> int:
    """Execute the operators of DUMP in another framework, each from its recorded inputs.

    Errors do not add up: each operator is judged by its float64 program, and so are the recorded
    elements. Exit code 0 if all operators of the table agree, 1 if one does not, 2 if none is
    known.
    """
    from padiff.dumpfile import CompareError, open_dump  # noqa: PLC0415 -- after the options
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415
    from padiff.ops.replaying import replay_dump  # noqa: PLC0415
    from padiff.ops.reporting.replay_text import replay_to_json, replay_to_text  # noqa: PLC0415
    from padiff.ops.table import TABLE  # noqa: PLC0415
    from padiff.ops.workers import Worker  # noqa: PLC0415

    with ExitStack() as stack:
        file = stack.enter_context(open_dump(stack.enter_context(unpacked(dump))).open(step, rank))

        def started(name: str, interpreter: str | None) -> Worker:
            worker = Worker(name, python=interpreter, device=device, limit_s=time_limit)
            return stack.enter_context(worker)

        worker = started(framework, python)
        recording = started(file.framework, python_reference) if repeats else None
        found = replay_dump(file, worker, TABLE, recording=recording, repeats=repeats)
    if not found.operators:
        names = ", ".join(found.unknown) or "none"
        raise CompareError(
            f"cannot replay {str(dump)!r}: the table knows none of its operators: {names}"
        )
    if as_json:
        emit_json(replay_to_json(found, framework=framework, version=worker.version))
    else:
        emit(replay_to_text(found, framework=framework, version=worker.version))
    return 1 if any(one.is_bad for one in found.operators) else 0
