"""``padiff ops``: operators of two frameworks against each other, and against float64."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from padiff.dumpfile import ConfigError

from .command import Command
from .hints import CommandGroup
from .output import check_place, emit, emit_json, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.ops.searching import Pair, Searched, Tested


FRAMEWORKS = ("torch", "paddle")
_FILE = click.Path(path_type=Path)


@click.group(cls=CommandGroup)
def ops() -> None:
    """Test operators of two frameworks against each other.

    Each case runs in a process of its own per framework; the operator's float64 program says which
    of the two is wrong.
    """


@ops.command("list", cls=Command, examples="padiff ops list losses")
@click.argument("topic", required=False)
def list_(topic: str | None) -> int:
    """Print the table of operators, or those of TOPIC."""
    from padiff.ops.table import TABLE  # noqa: PLC0415 -- after the options

    topics = dict.fromkeys(map(TABLE.topic, TABLE))
    if topic is not None and topic not in topics:
        raise ConfigError(
            f"cannot list {topic!r}: expected a topic, found none of that name",
            hint=f"one of {', '.join(topics)}",
        )
    names = [name for name in TABLE if topic in (None, TABLE.topic(name))]
    widest = max(map(len, names))
    lines = []
    for name in names:
        calls = "  ".join(f"{one.name:<42}" for one in TABLE[name].frameworks.values())
        lines.append(f"{name:<{widest}}  {calls} {TABLE.topic(name)}".rstrip())
    emit("\n".join([*lines, f"{len(names)} operators", ""]))
    return 0


@ops.command(cls=Command, examples="padiff ops show cross_entropy")
@click.argument("operator")
def show(operator: str) -> int:
    """Print what is known of OPERATOR: names, arguments, differences by design."""
    from padiff.ops.reporting import shown  # noqa: PLC0415 -- after the options
    from padiff.ops.table import TABLE  # noqa: PLC0415

    emit(shown(TABLE.select((operator,))[0], TABLE.topic(operator)))
    return 0


def _side_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is run where."""
    options = [
        click.option("--reference", type=click.Choice(FRAMEWORKS), default="torch",
                     show_default=True, help="The framework held to be right."),
        click.option("--candidate", type=click.Choice(FRAMEWORKS), default="paddle",
                     show_default=True, help="The one that is judged."),
        click.option("--python-reference", metavar="PATH",
                     help="Interpreter of the reference's environment.  [default: this one]"),
        click.option("--python-candidate", metavar="PATH",
                     help="Interpreter of the candidate's environment.  [default: this one]"),
        click.option("--device", default="cpu", show_default=True,
                     help="Of all tensors: cpu, gpu."),
        click.option("--time-limit", type=click.FloatRange(min=0.1), default=20.0,
                     show_default=True, metavar="SECONDS", help="Of one case."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where the result goes."""
    options = [
        click.option("--known", type=_FILE, metavar="FILE",
                     help="TOML file with known differences and the reason of each."),
        click.option("--json", "json_file", type=_FILE, metavar="FILE",
                     help="Write the result as JSON; - for stdout."),
        click.option("--junit", type=_FILE, metavar="FILE", help="Write the result as JUnit XML."),
        click.option("--html", type=_FILE, metavar="FILE", help="Write the result as a page."),
        click.option("--programs", type=_FILE, metavar="DIRECTORY",
                     help="Write each finding as programs to run."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@ops.command(
    cls=Command,
    examples="""
    padiff ops test softmax --examples 200
    padiff ops test --reference torch --candidate paddle --seed 3 --save cases.json
    padiff ops test --replay cases.json --known known.toml --junit operators.xml
    padiff ops test --python-candidate ~/paddle/bin/python --html operators.html
    """,
)
@click.argument("operators", nargs=-1)
@_side_options
@click.option("--examples", type=click.IntRange(min=1), default=100, show_default=True,
              help="Cases to draw for each operator.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Another number draws other cases.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True,
              help="Operators that are tested at the same time.")  # fmt: skip
@click.option("--operators", "own", type=_FILE, metavar="FILE",
              help="Python file with operators of your own.")  # fmt: skip
@click.option("--save", type=_FILE, metavar="FILE", help="Write all cases that were drawn.")
@click.option("--replay", "stored", type=_FILE, metavar="FILE",
              help="Run the cases of a file instead of drawing any.")  # fmt: skip
@click.option("--profile", "repeats", type=click.IntRange(min=0), default=0, metavar="N",
              help="Time the largest case of each operator N times in both.")  # fmt: skip
@_report_options
def test(  # noqa: PLR0913 -- one per option
    operators: tuple[str, ...],
    *,
    reference: str,
    candidate: str,
    python_reference: str | None,
    python_candidate: str | None,
    device: str,
    time_limit: float,
    examples: int,
    seed: int,
    jobs: int,
    own: Path | None,
    save: Path | None,
    stored: Path | None,
    repeats: int,
    known: Path | None,
    **files: Path | None,
) -> int:
    """Draw arguments for OPERATORS, run them in both frameworks, judge by float64.

    Without a name all operators are tested. Exit code 0 if nothing new is found of the candidate,
    1 if something is, 2 if an operator could not be tested.
    """
    from padiff.ops.searching import (  # noqa: PLC0415 -- after the options
        Tested,
        hypothesis,
        read_known,
        replay,
        search,
        search_all,
        time_largest,
    )
    from padiff.ops.table import TABLE  # noqa: PLC0415

    _check_files(files)
    if save is not None:
        check_place(save, option="--save")
    mine = _own_rows(own)
    rows = TABLE.select(operators or mine)
    accepted = read_known(known) if known is not None else []
    cases = None if stored is None else [
        one for one in _read_cases(stored) if not operators or one.operator in operators
    ]  # fmt: skip
    if cases is None:
        hypothesis()
    start = time.monotonic()

    def started(stack: ExitStack) -> Pair:
        return _pair(
            stack,
            (reference, candidate),
            (python_reference, python_candidate),
            device=device,
            time_limit=time_limit,
        )

    with ExitStack() as stack:
        pair = started(stack)
        if cases is not None:
            found = replay(cases, TABLE, pair)
        elif jobs > 1:
            found = search_all(rows, started, examples=examples, seed=seed, jobs=jobs)
        else:
            found = [search(row, pair, examples=examples, seed=seed) for row in rows]
        for one in found if repeats else ():
            row = TABLE[one.operator]
            one.seconds.update(time_largest(row, one.examples, pair, repeats=repeats))
        versions = {name: worker.version for name, worker in pair.workers.items()}
    tested = Tested(
        reference=reference,
        candidate=candidate,
        versions=versions,
        seed=None if cases is not None else seed,
        elapsed_s=time.monotonic() - start,
        operators=found,
        known=accepted,
    )
    if save is not None:
        _write_cases(save, found)
    return _report(tested, files)


@ops.command(
    cls=Command,
    examples="""
    padiff ops generate --examples 200 -o cases.json
    padiff ops generate softmax cross_entropy -o cases.json
    """,
)
@click.argument("operators", nargs=-1)
@click.option("-o", "--output", type=_FILE, required=True, metavar="FILE", help="Write them here.")
@click.option("--examples", type=click.IntRange(min=1), default=100, show_default=True,
              help="Cases to draw for each operator.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Another number draws other cases.")  # fmt: skip
def generate(operators: tuple[str, ...], *, output: Path, examples: int, seed: int) -> int:
    """Draw cases for OPERATORS, or for all, and run none: no framework is needed."""
    from padiff.ops.cases import cases_to_json  # noqa: PLC0415 -- after the options
    from padiff.ops.searching import draw_cases  # noqa: PLC0415
    from padiff.ops.table import TABLE  # noqa: PLC0415

    check_place(output, option="--output")
    rows = TABLE.select(operators)
    cases = [one for row in rows for one in draw_cases(row, examples=examples, seed=seed)]
    write_json(output, cases_to_json(cases))
    emit(f"{len(cases)} cases of {len(rows)} operators in {output}\n")
    return 0


@ops.command(
    cls=Command,
    examples="""
    padiff ops run cases.json --framework torch -o torch.safetensors
    """,
)
@click.argument("cases", type=_FILE)
@click.option("--framework", type=click.Choice(FRAMEWORKS), required=True, help="Runs them.")
@click.option("-o", "--output", type=_FILE, required=True, metavar="FILE",
              help="Write the outcomes here.")  # fmt: skip
@click.option("--python", metavar="PATH",
              help="Interpreter of its environment.  [default: this one]")  # fmt: skip
@click.option("--device", default="cpu", show_default=True, help="Of all tensors: cpu, gpu.")
@click.option("--time-limit", type=click.FloatRange(min=0.1), default=20.0, show_default=True,
              metavar="SECONDS", help="Of one case.")  # fmt: skip
def run(
    cases: Path,
    *,
    framework: str,
    output: Path,
    python: str | None,
    device: str,
    time_limit: float,
) -> int:
    """Run stored CASES in one framework, for `padiff ops judge` on any machine."""
    from padiff.ops.searching import outcomes_of, write_outcomes  # noqa: PLC0415 -- after the options
    from padiff.ops.table import TABLE  # noqa: PLC0415
    from padiff.ops.workers import Worker  # noqa: PLC0415

    check_place(output, option="--output")
    stored = _read_cases(cases)
    rows = {one.operator: TABLE.select((one.operator,))[0] for one in stored}
    with Worker(framework, python=python, device=device, limit_s=time_limit) as worker:
        workers = {framework: worker}
        found = [outcomes_of(rows[one.operator], one, workers)[framework] for one in stored]
        write_outcomes(output, framework, worker.version, stored, found)
    emit(f"{len(found)} cases run in {framework} {worker.version}, in {output}\n")
    return 0


@ops.command(
    cls=Command,
    examples="""
    padiff ops judge torch.safetensors paddle.safetensors --html operators.html
    """,
)
@click.argument("reference", type=_FILE)
@click.argument("candidate", type=_FILE)
@_report_options
def judge(reference: Path, candidate: Path, *, known: Path | None, **files: Path | None) -> int:
    """Judge what two frameworks made of the same cases; no framework is needed.

    Exit codes as of `padiff ops test`. Nothing is shrunk: run `padiff ops test --replay` for that
    where both frameworks are.
    """
    from padiff.ops.cases import case_from_json  # noqa: PLC0415 -- after the options
    from padiff.ops.judging import judge as judge_case  # noqa: PLC0415
    from padiff.ops.searching import Tested, read_known, read_outcomes, searched_of  # noqa: PLC0415
    from padiff.ops.table import TABLE  # noqa: PLC0415

    _check_files(files)
    accepted = read_known(known) if known is not None else []
    sides = [read_outcomes(path) for path in (reference, candidate)]
    names = sides[0].framework, sides[1].framework
    if sides[0].cases != sides[1].cases or names[0] == names[1]:
        raise ConfigError(
            f"cannot judge {str(candidate)!r} against {str(reference)!r}: expected the same cases "
            f"of two frameworks, found {names[0]} and {names[1]} with "
            f"{len(sides[0].cases)} and {len(sides[1].cases)} cases"
        )
    start = time.monotonic()
    cases = [case_from_json(one, f"case {at}") for at, one in enumerate(sides[0].cases)]
    rows = {one.operator: TABLE.select((one.operator,))[0] for one in cases}
    outcomes = iter(zip(sides[0].outcomes, sides[1].outcomes, strict=True))
    found = searched_of(
        cases,
        lambda case: judge_case(
            rows[case.operator],
            case,
            dict(zip(names, next(outcomes), strict=True)),
            reference=names[0],
            candidate=names[1],
        ),
    )
    tested = Tested(
        reference=names[0],
        candidate=names[1],
        versions={one.framework: one.version for one in sides},
        seed=None,
        elapsed_s=time.monotonic() - start,
        operators=found,
        known=accepted,
    )
    return _report(tested, files)


def _own_rows(path: Path | None) -> tuple[str, ...]:
    """Add the rows of a user's file to the table; returns their names."""
    if path is None:
        return ()
    from padiff.ops.table import TABLE, read_operators  # noqa: PLC0415 -- after the options

    rows = read_operators(path)
    for row in rows:
        if row.name in TABLE:
            raise ConfigError(f"cannot add operator {row.name!r}: the table has one of that name")
        TABLE.add(row, "own")
    return tuple(row.name for row in rows)


def _pair(
    stack: ExitStack,
    frameworks: tuple[str, str],
    pythons: tuple[str | None, str | None],
    *,
    device: str,
    time_limit: float,
) -> Pair:
    """Start a worker for each side."""
    from padiff.ops.searching import Pair  # noqa: PLC0415 -- after the options
    from padiff.ops.workers import Worker  # noqa: PLC0415

    if frameworks[0] == frameworks[1]:
        raise ConfigError(
            f"cannot test {frameworks[0]} against itself: expected two frameworks",
            hint="--reference torch --candidate paddle, or the other way round",
        )
    started = [
        Worker(name, python=python, device=device, limit_s=time_limit)
        for name, python in zip(frameworks, pythons, strict=True)
    ]
    workers = {one.framework: stack.enter_context(one) for one in started}
    return Pair(reference=frameworks[0], candidate=frameworks[1], workers=workers)


def _read_cases(path: Path) -> list[Any]:
    from padiff.ops.cases import cases_from_json  # noqa: PLC0415 -- after the options

    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"cannot read {str(path)!r} as JSON: {error}") from error
    return cases_from_json(data, str(path))


def _write_cases(path: Path, found: list[Searched]) -> None:
    """Write the cases that were drawn, and the smallest of each finding."""
    from padiff.ops.cases import cases_to_json  # noqa: PLC0415 -- after the options

    cases = [case for one in found for case in one.examples]
    cases += [case for one in found for case, _ in one.findings.values()]
    write_json(path, cases_to_json(cases))


def _check_files(files: dict[str, Path | None]) -> None:
    for name, path in files.items():
        if path is not None and name != "programs" and str(path) != "-":
            check_place(path, option=f"--{name.removesuffix('_file')}")


def _report(tested: Tested, files: dict[str, Path | None]) -> int:
    """Write the report and return the exit code."""
    from padiff.ops.reporting import to_html, to_json, to_junit, to_text  # noqa: PLC0415
    from padiff.ops.table import TABLE  # noqa: PLC0415

    json_file, programs = files["json_file"], files["programs"]
    for name, render in (("junit", to_junit), ("html", to_html)):
        path = files[name]
        if path is not None:
            write_text(path, render(tested, TABLE))
    if programs is not None:
        _write_programs(tested, programs)
    if str(json_file) == "-":
        emit_json(to_json(tested, TABLE))
    else:
        if json_file is not None:
            write_json(json_file, to_json(tested, TABLE))
        emit(to_text(tested, TABLE))
    if tested.only_invalid:
        names = ", ".join(tested.only_invalid)
        raise ConfigError(
            f"cannot test {names}: both frameworks refuse 100 % of the cases, or do not end",
            hint="the strategy of the operator draws arguments that neither takes; a call may take "
            "longer with --time-limit",
        )
    return 0 if tested.is_candidate_right else 1


def _write_programs(tested: Tested, directory: Path) -> None:
    """Write a program for each finding, of both frameworks and of either alone."""
    from padiff.ops.reporting import program_of  # noqa: PLC0415 -- after the options
    from padiff.ops.table import TABLE  # noqa: PLC0415

    sides = (tested.reference, tested.candidate)
    for one in tested.operators:
        for place, (case, finding) in enumerate(one.findings.values()):
            for name, frameworks in (("", sides), *((f"_{side}", (side,)) for side in sides)):
                path = directory / f"{one.operator}_{place}{name}.py"
                write_text(path, program_of(TABLE[case.operator], case, finding, frameworks))
