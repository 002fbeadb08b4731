"""Checks a dump and returns everything that is wrong with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from .contents import CONTENTS_LIMIT_BYTES, Contents
from .digest import digest_of
from .errors import DumpError, DumpFormatError, DumpNotFoundError
from .floor import FLOOR_NAME, read_floor
from .manifestcodec import MANIFEST_NAME, decode_manifest
from .problem import Problem, ProblemKind
from .schema import Content, FileInfo, Manifest, Statistics, ValueInfo
from .statistics import statistics_of
from .stepfile import StepFile
from .store import store_of

if TYPE_CHECKING:
    from .stepsource import StepSource
    from .store import Store

_RTOL = 1e-9  # of sums taken in another order

Problems = list[Problem]


def validate(path: Path | str, *, deep: bool) -> list[Problem]:
    """Find all problems of a dump.

    Args:
        path: The dump's directory or URL.
        deep: Whether to read every element, and recompute digests and statistics.

    Returns:
        All problems; ``loc`` starts with the file, relative to the dump. Empty if all is well.

    Raises:
        DumpNotFoundError: There is no dump.
    """
    directory = Path(path)
    store = store_of(path)
    try:
        data = store.manifest()
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
    problems.extend(store.strays({info.path for info in manifest.files}))
    for info in manifest.files:
        problems.extend(_file_problems(store, manifest, info, deep=deep))
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


def _file_problems(store: Store, manifest: Manifest, info: FileInfo, *, deep: bool) -> Problems:
    source, problems = store.opened_anyhow(info)
    if source is None:
        return problems
    path = Path(store.shown) / info.path
    try:
        with StepFile(path, framework=manifest.framework, source=source) as file:
            problems.extend(_within(info.path, problem) for problem in file.problems)
            if not file.problems:
                problems.extend(_index_problems(file, info, manifest))
                if deep:
                    problems.extend(_contents_problems(file, source, info))
                problems.extend(_value_problems(file, info.path, deep=deep))
                problems.extend(_within(info.path, problem) for problem in file.read_program()[1])
    except DumpError as error:
        problems.append(_problem(info.path, ProblemKind.SYNTAX, error.message))
    return problems


def _contents_problems(file: StepFile, source: StepSource, info: FileInfo) -> Problems:
    """Hold the table of contents against what HDF5 says, by which a local file is read."""
    loc = f"{info.path}: contents"
    if file.contents != info.contents and source.is_complete:
        message = f"expected it at {info.contents} as the manifest says, found {file.contents}"
        return [_problem(loc, ProblemKind.SIZE, message)]
    if info.contents is None or not source.is_complete:
        return []
    start, size = info.contents
    if size > CONTENTS_LIMIT_BYTES:
        return [_problem(loc, ProblemKind.SIZE, f"more than {CONTENTS_LIMIT_BYTES} bytes")]
    told = Contents(
        source.held[start : start + size],
        file_bytes=len(source.held),
        read=lambda start, size: source.held[start : start + size],
    )
    values = {(one.dataset, one.dtype) for one in file.index.values if one.dataset is not None}
    tables: set[tuple[str, str | None]] = {
        (f"/{group}/{name}", None)
        for group in source.members("") & {"index", "program"}
        for name in source.members(group)
    }
    problems: Problems = []
    for path, dtype in sorted(values | tables, key=str):
        try:
            expected = source.find(path, dtype)
        except DumpFormatError:
            continue  # that is said of its values
        try:
            is_like = told.find(path, dtype).is_like(expected)
        except DumpFormatError:
            is_like = False
        if not is_like:
            message = "expected what HDF5 says of where it lies, found something else"
            problems.append(_problem(f"{loc}: {path}", ProblemKind.UNEXPECTED, message))
    return problems


def _index_problems(file: StepFile, info: FileInfo, manifest: Manifest) -> Problems:
    index = file.index
    unknown = [
        _problem(
            f"{info.path}: meshes[{row}]",
            ProblemKind.MISSING,
            "expected a mesh of the manifest, found another one",
        )
        for row, mesh in enumerate(index.meshes)
        if mesh not in manifest.meshes
    ]
    stated = {
        "step": (info.step, index.step),
        "rank": (info.rank, index.rank),
        "calls": (info.calls, len(index.calls)),
        "records": (info.records, len(index.records)),
    }
    return unknown + [
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
