"""The manifest as strict JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, cast

from .address import Phase
from .digest import DIGEST_PATTERN
from .dtypes import DTYPE_NAMES, MOST_AXES
from .indexrelations import mesh_problems
from .problem import Problem, ProblemKind
from .schema import FORMAT_VERSION, JSON, FileInfo, InputInfo, Manifest, Mesh
from .strictjson import StrictJSONError, from_json, is_plain, plain, to_json

MANIFEST_NAME = "manifest.json"
"""Name of the manifest within a dump."""

BEGUN_NAME = "begun.json"
"""Name of the manifest without files that a recording writes when it begins, and removes."""

LOADED = "loaded"
"""Setting: by the name of each weight that was loaded, the names of what it was made of."""
UNSAVED = "unsaved"
"""Key of a manifest's settings: full names of the buffers that are not saved with weights."""

FOLDED = "folded"
"""Setting: full names of the weights that an exporter computed other leaves from, or left out."""

RUN = "run"
"""Setting: False where no framework ran the model."""

RECORDING = "recording: "
"""How notes of a manifest begin that say what recording changed in the run."""

FORMAT_NAME = "padiff-dump"
"""What the key ``format`` of a manifest says."""

_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)")
_INT_LIMIT = 2**62

Check = tuple[str, Callable[[Any], bool]]  # what is expected in words, and whether it is that

_STRING: Check = ("a string", lambda found: type(found) is str)
_COUNT: Check = (
    "an integer >= 0",
    lambda found: type(found) is int and 0 <= found < _INT_LIMIT,
)
_STRINGS: Check = (
    "a list of strings",
    lambda found: type(found) is list and all(type(item) is str for item in found),
)

_FIELDS: dict[str, Check] = {
    "name": _STRING,
    "framework": _STRING,
    "framework_version": _STRING,
    "padiff_version": _STRING,
    "created": (
        "a time in UTC like 2026-01-31T12:00:00Z",
        lambda found: type(found) is str and _CREATED.fullmatch(found) is not None,
    ),
    "model": _STRING,
    "model_class": _STRING,
    "device": _STRING,
    "dtype": _STRING,
    "seed": (
        "an integer or null",
        lambda found: found is None or (type(found) is int and abs(found) < 2**64),
    ),
    "training": ("true or false", lambda found: type(found) is bool),
    "phase": (
        f"one of {', '.join(Phase)}",
        lambda found: type(found) is str and found in set(Phase),
    ),
    "command": _STRINGS,
    "python": _STRING,
    "platform": _STRING,
    "settings": (
        "an object",
        lambda found: type(found) is dict and is_plain(found),
    ),
    "notes": _STRINGS,
    "incomplete": _STRING,
}

_FILE_FIELDS: dict[str, Check] = {
    "step": _COUNT,
    "rank": _COUNT,
    "path": _STRING,
    "size_bytes": _COUNT,
    "calls": _COUNT,
    "records": _COUNT,
    "contents": (
        "an offset and a size in bytes, or null",
        lambda found: (
            found is None
            or (type(found) is list and len(found) == 2 and all(map(_COUNT[1], found)))  # noqa: PLR2004
        ),
    ),
}

_COUNTS: Check = (
    "a list of integers >= 0",
    lambda found: type(found) is list and all(map(_COUNT[1], found)),
)
_MESH_FIELDS: dict[str, Check] = {"dims": _STRINGS, "sizes": _COUNTS, "ranks": _COUNTS}
_LATER: dict[str, JSON] = {"incomplete": "", "meshes": []}
"""Fields that a manifest may lack, and what that means."""
_FILE_LATER: dict[str, JSON] = {"contents": None}
"""The same of the entry of a file."""

_INPUT_FIELDS: dict[str, Check] = {
    "name": _STRING,
    "dtype": (
        "the name of a dtype",
        lambda found: type(found) is str and found in set(DTYPE_NAMES),
    ),
    "shape": (
        f"a list of at most {MOST_AXES} sizes",
        lambda found: (
            type(found) is list and len(found) <= MOST_AXES and all(map(_COUNT[1], found))
        ),
    ),
    "digest": (
        "32 hexadecimal digits",
        lambda found: type(found) is str and DIGEST_PATTERN.fullmatch(found) is not None,
    ),
}


def file_path(step: int, rank: int) -> str:
    """Return the path of the file of one step and rank, relative to the dump.

    >>> file_path(0, 3)
    'step_000000/rank_0003.h5'
    """
    return f"step_{step:06d}/rank_{rank:04d}.h5"


def encode_manifest(manifest: Manifest) -> bytes:
    """Write a manifest."""
    fields = asdict(manifest) | {"settings": plain(dict(manifest.settings))}
    for name in _LATER:
        if not fields[name]:
            del fields[name]  # readers older than the field refuse what they do not know
    for entry in fields["files"]:
        if entry["contents"] is None:
            del entry["contents"]
    document = {"format": FORMAT_NAME, "format_version": fields.pop("format_version"), **fields}
    return (to_json(cast("JSON", document), indent=2) + "\n").encode()


def decode_manifest(
    data: bytes, *, has_files: bool = True
) -> tuple[Manifest | None, list[Problem]]:
    """Read and check a manifest.

    Args:
        data: The text.
        has_files: Whether it must list files; one of a recording that just began lists none.

    Returns:
        The manifest, None if there are problems, and the problems; ``loc`` is the path of the
        field, like ``files[0].path``.
    """
    try:
        document = from_json(data)
    except StrictJSONError as error:
        return None, [Problem(loc="", kind=ProblemKind.SYNTAX, message=str(error))]
    if not isinstance(document, dict) or document.get("format") != FORMAT_NAME:
        message = f"expected an object with the format {FORMAT_NAME!r}"
        return None, [Problem(loc="format", kind=ProblemKind.SYNTAX, message=message)]
    version = document.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        kind = ProblemKind.TYPE
        if type(version) is int and version > 0:
            kind = ProblemKind.VERSION if version > FORMAT_VERSION else ProblemKind.AGE
        message = f"expected version {FORMAT_VERSION}, found {str(version)[:40]}"
        return None, [Problem(loc="format_version", kind=kind, message=message)]
    problems: list[Problem] = []
    fields = _LATER | {
        name: field for name, field in document.items() if name not in {"format", "format_version"}
    }
    expected = _FIELDS.keys() | {"files", "inputs", "meshes"}
    problems.extend(
        _problem(name, ProblemKind.UNEXPECTED, "unknown field")
        for name in sorted(fields.keys() - expected)
    )
    _check(fields, _FIELDS, "", problems)
    files = _objects(fields.get("files"), _FILE_FIELDS, "files", problems, later=_FILE_LATER)
    inputs = _objects(fields.get("inputs"), _INPUT_FIELDS, "inputs", problems)
    meshes = _objects(fields.get("meshes"), _MESH_FIELDS, "meshes", problems)
    if not problems:
        _check_files(files, problems, least=int(has_files))
        for row, mesh in enumerate(meshes):
            problems.extend(
                _problem(f"meshes[{row}]", ProblemKind.SIZE, text)
                for text in mesh_problems(mesh["dims"], mesh["sizes"], mesh["ranks"])
            )
    if problems:
        return None, problems
    return _build(version, fields, files, inputs, meshes), []


def _problem(loc: str, kind: ProblemKind, message: str) -> Problem:
    return Problem(loc=loc, kind=kind, message=message)


def _check(
    found: dict[str, JSON], fields: dict[str, Check], prefix: str, problems: list[Problem]
) -> None:
    for name, (expected, accepts) in fields.items():
        loc = prefix + name
        if name not in found:
            problems.append(_problem(loc, ProblemKind.MISSING, f"expected {expected}"))
        elif not accepts(found[name]):
            message = f"expected {expected}, found {str(found[name])[:60]!r}"
            problems.append(_problem(loc, ProblemKind.TYPE, message))


def _objects(
    found: JSON,
    fields: dict[str, Check],
    name: str,
    problems: list[Problem],
    *,
    later: Mapping[str, JSON] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    if not isinstance(found, list):
        problems.append(_problem(name, ProblemKind.TYPE, "expected a list"))
        return []
    for position, item in enumerate(found):
        loc = f"{name}[{position}]"
        if not isinstance(item, dict):
            problems.append(_problem(loc, ProblemKind.TYPE, "expected an object"))
            continue
        problems.extend(
            _problem(f"{loc}.{extra}", ProblemKind.UNEXPECTED, "unknown field")
            for extra in sorted(item.keys() - fields.keys())
        )
        for field, missing in later.items():
            item.setdefault(field, missing)
        _check(item, fields, f"{loc}.", problems)
    return cast("list[dict[str, Any]]", found)


def _check_files(files: list[dict[str, Any]], problems: list[Problem], *, least: int) -> None:
    if len(files) < least:
        problems.append(_problem("files", ProblemKind.RANGE, "expected at least one file"))
    seen: set[str] = set()
    for position, item in enumerate(files):
        expected = file_path(item["step"], item["rank"])
        loc = f"files[{position}].path"
        if item["path"] != expected:
            message = f"expected {expected!r}, found {item['path'][:60]!r}"
            problems.append(_problem(loc, ProblemKind.RANGE, message))
        elif expected in seen:
            problems.append(_problem(loc, ProblemKind.UNEXPECTED, "listed twice"))
        seen.add(expected)


def file_info(fields: Mapping[str, Any]) -> FileInfo:
    """Return the description of a file whose fields came from JSON."""
    contents = fields["contents"]
    return FileInfo(**{**fields, "contents": None if contents is None else tuple(contents)})


def _build(
    version: int,
    fields: dict[str, Any],
    files: list[dict[str, Any]],
    inputs: list[dict[str, Any]],
    meshes: list[dict[str, Any]],
) -> Manifest:
    return Manifest(
        **fields
        | {
            "format_version": version,
            "phase": Phase(fields["phase"]),
            "command": tuple(fields["command"]),
            "notes": tuple(fields["notes"]),
            "files": tuple(file_info(item) for item in files),
            "inputs": tuple(InputInfo(**item | {"shape": tuple(item["shape"])}) for item in inputs),
            "meshes": tuple(
                Mesh(**{name: tuple(cell) for name, cell in item.items()}) for item in meshes
            ),
        }
    )
