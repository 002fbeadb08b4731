"""Checks a dump and returns everything that is wrong with it."""

from __future__ import annotations

import math
from pathlib import Path

from .digest import digest_of
from .directory import linked_steps, read_manifest, step_files
from .errors import DumpError, DumpFormatError, DumpNotFoundError
from .floor import FLOOR_NAME, read_floor
from .manifestcodec import MANIFEST_NAME, decode_manifest
from .plainfile import LINK, check_plain_file
from .problem import Problem, ProblemKind
from .schema import Content, FileInfo, Manifest, Statistics, ValueInfo
from .statistics import statistics_of
from .stepfile import StepFile

_RTOL = 1e-9  # of sums taken in another order

Problems = list[Problem]


def validate(path: Path | str, *, deep: bool) -> list[Problem]:
    """Find all problems of a dump.

    Args:
        path: The dump's directory.
        deep: Whether to read every element, and recompute digests and statistics.

    Returns:
        All problems; ``loc`` starts with the file, relative to the dump. Empty if all is well.

    Raises:
        DumpNotFoundError: There is no dump.
    """
    directory = Path(path)
    try:
        data = read_manifest(directory)
    except DumpNotFoundError:
        raise
    except DumpFormatError as error:
        found = _problem(MANIFEST_NAME, ProblemKind.INCOMPLETE, error.message)
        return [found]
    manifest, problems = decode_manifest(data)
    problems = [_within(MANIFEST_NAME, problem) for problem in problems]
    if manifest is None:
        return problems
    if manifest.incomplete:
        steps = ", ".join(str(step) for step in sorted({info.step for info in manifest.files})[:20])
        message = (
            f"the recording did not finish: {manifest.incomplete}; whole are the steps {steps}"
        )
        problems.append(_problem(MANIFEST_NAME, ProblemKind.INCOMPLETE, message))
    listed = {info.path for info in manifest.files}
    for name in step_files(directory):
        if name not in listed:
            problems.append(_problem(name, ProblemKind.UNEXPECTED, "no entry in the manifest"))
    for name in linked_steps(directory):
        if not any(path.startswith(f"{name}/") for path in listed):
            problems.append(_problem(name, ProblemKind.FORBIDDEN, f"it {LINK}"))
    for info in manifest.files:
        problems.extend(_file_problems(directory, manifest, info, deep=deep))
    problems.extend(_floor_problems(directory, manifest))
    return problems


def _floor_problems(directory: Path, manifest: Manifest) -> Problems:
    """Look at the noise floor, if there is one."""
    try:
        floor = read_floor(directory)
    except DumpFormatError as error:
        return [_problem(FLOOR_NAME, ProblemKind.SYNTAX, error.message)]
    if floor is None:
        return []
    expected = {(info.step, info.rank): info.records for info in manifest.files}
    return [
        _problem(
            f"{FLOOR_NAME}: step {step} rank {rank}",
            ProblemKind.SIZE,
            f"expected as many rows as records, {expected.get((step, rank), 0)}, found {len(rows)}",
        )
        for (step, rank), rows in floor.records.items()
        if len(rows) != expected.get((step, rank))
    ]


def _problem(loc: str, kind: ProblemKind, message: str) -> Problem:
    return Problem(loc=loc, kind=kind, message=message)


def _within(file: str, problem: Problem) -> Problem:
    loc = f"{file}: {problem.loc}" if problem.loc else file
    return _problem(loc, problem.kind, problem.message)


def _file_problems(directory: Path, manifest: Manifest, info: FileInfo, *, deep: bool) -> Problems:
    path = directory / info.path
    try:
        check_plain_file(path)
    except DumpFormatError as error:
        return [_problem(info.path, ProblemKind.FORBIDDEN, error.message)]
    if not path.is_file():
        return [_problem(info.path, ProblemKind.MISSING, "expected the file, found none")]
    problems: Problems = []
    found = path.stat().st_size
    if found != info.size_bytes:
        message = f"expected {info.size_bytes} bytes, found {found}"
        problems.append(_problem(info.path, ProblemKind.SIZE, message))
    try:
        with StepFile(path, framework=manifest.framework) as file:
            problems.extend(_within(info.path, problem) for problem in file.problems)
            if not file.problems:
                problems.extend(_index_problems(file, info))
                problems.extend(_value_problems(file, info.path, deep=deep))
                problems.extend(_within(info.path, problem) for problem in file.read_program()[1])
    except DumpError as error:
        problems.append(_problem(info.path, ProblemKind.SYNTAX, error.message))
    return problems


def _index_problems(file: StepFile, info: FileInfo) -> Problems:
    index = file.index
    stated = {
        "step": (info.step, index.step),
        "rank": (info.rank, index.rank),
        "calls": (info.calls, len(index.calls)),
        "records": (info.records, len(index.records)),
    }
    return [
        _problem(
            f"{info.path}: {name}",
            ProblemKind.SIZE,
            f"expected {expected} as the manifest says, found {found}",
        )
        for name, (expected, found) in stated.items()
        if expected != found
    ]


def _value_problems(file: StepFile, name: str, *, deep: bool) -> Problems:
    problems: Problems = []
    seen: dict[tuple[str, str], int] = {}
    for value in file.index.values:
        loc = f"{name}: values[{value.id}]"
        first = seen.setdefault((value.dtype, value.digest), value.id)
        if first != value.id and value.content is file.index.values[first].content:
            message = f"the same content as values[{first}]"
            problems.append(_problem(f"{loc}.digest", ProblemKind.UNEXPECTED, message))
        if value.content in (Content.DIGEST, Content.STATS):
            continue
        try:
            if value.content is Content.SAMPLE:
                file.sample(value)
            elif deep:
                problems.extend(_deep_problems(file, value, loc))
            else:
                file.stored_array(value)
        except DumpFormatError as error:
            problems.append(_problem(loc, ProblemKind.MISSING, error.message))
    return problems


def _deep_problems(file: StepFile, value: ValueInfo, loc: str) -> Problems:
    problems: Problems = []
    array = file.stored_array(value)
    digest = digest_of(array)
    if digest != value.digest:
        message = f"expected {value.digest}, found {digest}"
        problems.append(_problem(f"{loc}.digest", ProblemKind.DIGEST, message))
    found = statistics_of(array)
    for name in _differing(value.statistics, found, value.size):
        message = f"expected {getattr(value.statistics, name)}, found {getattr(found, name)}"
        problems.append(_problem(f"{loc}.{name}", ProblemKind.STATISTICS, message))
    return problems


def _differing(stated: Statistics, found: Statistics, size: int) -> list[str]:
    """Name the numbers that differ by more than another order of summation explains."""
    exact = ("minimum", "maximum", "nan", "posinf", "neginf", "zeros")
    names = [name for name in exact if getattr(stated, name) != getattr(found, name)]
    spread = (found.l2 or 0.0) / math.sqrt(max(size, 1))
    for name in ("mean", "l2"):
        expected, measured = getattr(stated, name), getattr(found, name)
        if expected is None or measured is None:
            is_equal = expected is measured
        else:
            is_equal = math.isclose(expected, measured, rel_tol=_RTOL, abs_tol=_RTOL * spread)
        if not is_equal:
            names.append(name)
    return names
