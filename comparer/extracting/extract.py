"""Take one module out of two dumps: its recorded tensors, and what is needed to run it alone."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.comparer.sharding.sides import Sides
from padiff.dumpfile import ConfigError, DumpFormatError, Phase, Role, open_dump
from padiff.dumpfile.wholefile import whole_file
from padiff.pairing import pair

from .layer_script import script_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from padiff.dumpfile import JSON, CallInfo, Index, ModuleInfo, RecordInfo, StepReader
    from padiff.pairing import MapFile
    from padiff.pairing.result import RecordPair


_CALL_ROLES = frozenset({Role.INPUT, Role.OUTPUT, Role.GRAD_INPUT, Role.GRAD_OUTPUT})
_PARAMETER_ROLES = frozenset({Role.WEIGHT, Role.WEIGHT_GRAD, Role.BUFFER})
_PLAIN = frozenset("biufc")
"""Kinds of numpy dtypes that a .npz holds without help."""
_PASSED_ROLES = frozenset({Role.INPUT, Role.OUTPUT})
_AGAINST = "against.npz"
"""The reference's inputs and outputs, under the candidate's keys and in its layout."""
_KEY = re.compile(r"[^A-Za-z0-9_.\[\]'-]")
_LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What was written of one side."""

    side: str
    """``reference`` or ``candidate``."""
    module: str
    class_path: str
    arrays: int
    left_out: tuple[str, ...]
    """Records whose elements are not in the dump."""


def extract(
    reference: Path,
    candidate: Path,
    module: str,
    out: Path,
    *,
    call: int = 0,
    place: tuple[int, int] = (0, 0),
    map_file: MapFile | None = None,
) -> tuple[Extracted, ...]:
    """Write what both sides recorded of one module.

    For each side ``<side>.npz`` with inputs, outputs, gradients and weights, ``<side>.json`` that
    describes them, and ``<side>.py`` that runs the layer alone and compares. ``against.npz`` holds
    what the reference took and gave, for ``candidate.py --against reference``.

    Args:
        reference: Directory of the dump held to be right.
        candidate: Directory of the other dump.
        module: Path of the module on the reference; ``""`` is the root.
        out: Folder to write to; made if it does not exist.
        call: Which execution of the module.
        place: Step and rank.
        map_file: What the user decided about which module is which.

    Raises:
        ConfigError: There is no such module or call.
        DumpError: A dump cannot be read.
    """
    over_ranks = () if map_file is None else map_file.over_ranks
    sides = Sides(open_dump(reference), open_dump(candidate), over_ranks, by_rank=bool(place[1]))
    run = sides.partners(place, map_file)
    with sides.open(place) as (known, found):
        mine = _module(known.index, module)
        pairing = pair(known, found, map_file=map_file, run=run)
        partner = next((one for one in pairing.modules if one.reference == mine.id), None)
        _make(out)
        made = [_write(out, "reference", known, mine, call)]
        if partner is not None:
            its = found.index.modules[partner.candidate]
            expected = _Expected(known, {one.candidate: one for one in pairing.records})
            made.append(_write(out, "candidate", found, its, call, expected))
        return tuple(made)


class _Expected:
    """What the reference took and gave, as the candidate would have it."""

    def __init__(self, reference: StepReader, pairs: Mapping[int, RecordPair]) -> None:
        self._reference = reference
        self._pairs = pairs
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}

    def add(self, key: str, record: RecordInfo) -> None:
        """Keep the reference's value of an input or output, laid out as the candidate's is."""
        found = self._pairs.get(record.id)
        if found is None or record.role not in _PASSED_ROLES:
            return
        records = self._reference.index.records
        with suppress(
            ConfigError, DumpFormatError
        ):  # it does not fit, or its elements are not there
            parts = [self._reference.array(records[one]) for one in found.reference]
            self.arrays[key] = _plain(found.rule.apply(parts, record.shape))


def _module(index: Index, path: str) -> ModuleInfo:
    for module in index.modules:
        if path == module.path or path in module.aliases:
            return module
    near = [module.path for module in index.modules if path and path in module.path][:5]
    hint = f"did you mean {', '.join(near)}?" if near else "see the paths with `padiff show`"
    raise ConfigError(f"the reference has no module {path!r}", hint=hint)


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {str(out)!r}: {error.strerror}") from error


def _write(
    out: Path,
    side: str,
    file: StepReader,
    module: ModuleInfo,
    number: int,
    expected: _Expected | None = None,
) -> Extracted:
    index = file.index
    call = _call(index, module, number, side)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    entries: list[JSON] = []
    left_out: list[str] = []
    for record, name in _records(index, module, call):
        if record.value is None:
            continue
        try:
            array = file.array(record)
        except DumpFormatError:
            left_out.append(f"{record.role}{name}")
            continue
        key = _unused(f"{record.role}{name}", arrays)
        arrays[key] = _plain(array)
        if expected is not None:
            expected.add(key, record)
        entries.append(
            {
                "key": key,
                "role": str(record.role),
                "name": name,
                "dtype": index.values[record.value].dtype,
                "shape": list(record.shape),
            }
        )
    about = _about(index, module, call, file.framework, entries)
    try:
        _save(out / f"{side}.npz", arrays)
        if expected is not None:
            _save(out / _AGAINST, expected.arrays)
        texts = {
            "json": json.dumps(about, allow_nan=False, indent=1) + "\n",
            "py": script_for(side, file.framework, module.class_path),
        }
        for suffix, text in texts.items():
            with whole_file(out / f"{side}.{suffix}") as partial:
                partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write to {str(out)!r}: {error.strerror}") from error
    return Extracted(
        side=side,
        module=module.path,
        class_path=module.class_path,
        arrays=len(arrays),
        left_out=tuple(left_out),
    )


def _call(index: Index, module: ModuleInfo, number: int, side: str) -> CallInfo | None:
    """Find an execution of the module; None for one that never ran but has weights."""
    calls = [call for call in index.calls if call.module == module.id]
    if not calls and number == 0:
        return None
    if number >= len(calls):
        raise ConfigError(
            f"the {side} has no call {number} of {module.path!r}: found {len(calls)} calls"
        )
    return calls[number]


def _records(
    index: Index, module: ModuleInfo, call: CallInfo | None
) -> Iterator[tuple[RecordInfo, str]]:
    """Yield the records of the call and the parameters of the module and all inside it.

    A parameter's name is relative to the module, as its own ``named_parameters`` gives it; its
    value is that before the step, which the call was made with.
    """
    prefix = f"{module.path}." if module.path else ""
    for record in index.records:
        if record.role in _CALL_ROLES:
            if call is not None and record.call == call.id:
                yield record, record.slot
        elif record.role in _PARAMETER_ROLES and record.phase is not Phase.UPDATE:
            owner = index.modules[record.module].path
            if record.module == module.id:
                yield record, record.slot
            elif owner.startswith(prefix) and owner:
                yield record, f".{owner[len(prefix) :]}{record.slot}"


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array as a .npz can hold it."""
    return array if array.dtype.kind in _PLAIN else array.astype(np.float32)


def _save(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    with whole_file(path) as partial, partial.open("xb") as archive:
        np.savez(archive, **arrays)  # type: ignore[arg-type]


def _unused(name: str, taken: dict[str, np.ndarray[Any, Any]]) -> str:
    """Make a key that is a harmless file name inside the archive, and no other's."""
    key = base = _KEY.sub("_", name)[:_LONGEST]
    number = 1
    while key in taken or key == "file":
        number += 1
        key = f"{base}~{number}"
    return key


def _about(
    index: Index, module: ModuleInfo, call: CallInfo | None, framework: str, entries: list[JSON]
) -> dict[str, JSON]:
    literals = {} if call is None else dict(call.literals)
    return {
        "module": module.path,
        "class": module.class_path,
        "framework": framework,
        "training": module.training if call is None else call.training,
        "attributes": dict(module.attributes),
        "modules": _inside(index, module),
        "literals": {name: value for name, value in literals.items() if name.startswith("input")},
        "arrays": entries,
    }


def _inside(index: Index, module: ModuleInfo) -> dict[str, JSON]:
    """Describe the module and all inside it, by path relative to it."""
    prefix = f"{module.path}." if module.path else ""
    found: dict[str, JSON] = {}
    for one in index.modules:
        if one.id == module.id or (one.path and one.path.startswith(prefix)):
            path = "" if one.id == module.id else one.path[len(prefix) :]
            found[path] = {"class": one.class_path, "attributes": dict(one.attributes)}
    return found
