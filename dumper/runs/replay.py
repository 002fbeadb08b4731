"""Feed a model what another dump recorded as the inputs of its root call."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from padiff.dumpfile import ConfigError, Role, open_dump

from .inputs import Inputs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from padiff.dumper.adapter import Array
    from padiff.dumpfile import CallInfo, Index

_STEP: Final = re.compile(
    r"""\[(?P<index>\d+)\]
      | \[(?P<key>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
      | \.(?P<field>[^\W\d]\w*)""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One input tensor as another run recorded it."""

    array: Array
    requires_grad: bool
    """Whether that run asked for its gradient."""


@dataclass(slots=True)
class _Node:
    """A container that is being put together again."""

    children: dict[int | str, _Node | Any] = field(default_factory=dict)


def inputs_of(dump: Path, *, step: int = 0) -> Inputs:
    """Read the arguments of the first root call of a dump, literals included.

    Args:
        dump: Directory of a dump of any framework.
        step: The step, if the dump has it; else its first.

    Returns:
        Arguments whose tensors are ``Recorded``; their arrays are copies.

    Raises:
        DumpError: There is no readable dump.
        ConfigError: The root call or one of its inputs was not recorded, or an input is of a
            class that cannot be made again without that framework's code.
    """
    opened = open_dump(dump)
    files = opened.manifest.files
    first = next((file for file in files if file.step == step), files[0])
    with opened.open(first.step, first.rank) as file:
        call = _root_call(dump, file.index)
        root = _Node()
        for slot, value in _literals(call).items():
            _refuse_opaque(dump, slot, value)
            _put(dump, root, slot, value)
        for record in file.index.records:
            if record.call == call.id and record.role is Role.INPUT:
                array = file.array(record).copy()
                recorded = Recorded(array=array, requires_grad=record.requires_grad)
                _put(dump, root, record.slot, recorded)
    positional = sorted(key for key in root.children if isinstance(key, int))
    if positional != list(range(len(positional))):
        raise ConfigError(
            f"cannot feed the inputs of {str(dump)!r}: of its positional arguments only "
            f"{positional} were recorded"
        )
    return Inputs(
        positional=tuple(_assemble(root.children[at]) for at in positional),
        keywords={
            key: _assemble(value) for key, value in root.children.items() if isinstance(key, str)
        },
    )


def parse_slot(slot: str) -> tuple[int | str, ...]:
    """Take a slot apart: ``[0]['mask'][1]`` is ``(0, "mask", 1)``.

    Raises:
        ValueError: It is not the spelling of a slot, or goes through an attribute.
    """
    parts: list[int | str] = []
    at = 0
    while at < len(slot):
        step = _STEP.match(slot, at)
        if step is None or step["field"] is not None:
            raise ValueError(f"cannot follow {slot!r}")
        parts.append(int(step["index"]) if step["key"] is None else ast.literal_eval(step["key"]))
        at = step.end()
    return tuple(parts)


def _root_call(dump: Path, index: Index) -> CallInfo:
    found = next((call for call in index.calls if not index.modules[call.module].path), None)
    if found is None:
        raise ConfigError(
            f"cannot feed the inputs of {str(dump)!r}: it has no call of the root module",
            hint="record the whole model's call, or give the inputs by --inputs",
        )
    return found


def _literals(call: CallInfo) -> Mapping[str, Any]:
    prefix = str(Role.INPUT)
    return {
        place[len(prefix) :]: value
        for place, value in call.literals.items()
        if place.startswith(f"{prefix}[")
    }


def _refuse_opaque(dump: Path, slot: str, value: object) -> None:
    if isinstance(value, str) and value.startswith("<") and value.endswith(">"):
        raise ConfigError(
            f"cannot feed the inputs of {str(dump)!r}: argument {slot} was a {value[1:-1]}, "
            "which a dump does not hold",
            hint="give the inputs by --inputs",
        )


def _put(dump: Path, root: _Node, slot: str, value: object) -> None:
    try:
        *path, last = parse_slot(slot)
    except ValueError as error:
        raise ConfigError(
            f"cannot feed the inputs of {str(dump)!r}: argument {slot} is inside a class that a "
            "dump does not hold",
            hint="give the inputs by --inputs",
        ) from error
    node = root
    for part in path:
        node = node.children.setdefault(part, _Node())
    node.children[last] = value


def _assemble(value: _Node | object) -> object:
    """Make dicts and tuples again; slots do not tell lists from tuples."""
    if not isinstance(value, _Node):
        return value
    parts = {key: _assemble(child) for key, child in value.children.items()}
    if all(isinstance(key, int) for key in parts):
        return tuple(parts[key] for key in sorted(parts, key=int))
    return parts
