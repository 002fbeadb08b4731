"""Give a dump's manifest and indexes as JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.dumpfile import JSON, Index, Manifest, RecordInfo

    from .show_text import Choice

__all__ = ["manifest_to_json", "step_to_json"]


def manifest_to_json(manifest: Manifest) -> JSON:
    """Give every field of a manifest."""
    return _plain(manifest)


def step_to_json(index: Index, choice: Choice) -> dict[str, JSON]:
    """Give the modules, calls and records of one step and rank."""
    wanted = choice.wanted(index)
    calls = [
        {"module_path": index.modules[call.module].path, **_row(call)}
        for call in index.calls
        if call.module in wanted
    ]
    return {
        "step": index.step,
        "rank": index.rank,
        "modules": [_plain(module) for module in index.modules if module.id in wanted],
        "calls": list(calls),
        "records": [_record(index, record) for record in index.records if record.module in wanted],
    }


def _record(index: Index, record: RecordInfo) -> JSON:
    """Give one record with its address and the statistics of its value."""
    value = None if record.value is None else index.values[record.value]
    return {
        "address": _plain(index.address(record)),
        "order": record.order,
        "shape": list(record.shape),
        "layout": _plain(record.layout),
        "dtype": "none" if value is None else value.dtype,
        "requires_grad": record.requires_grad,
        "value": record.value,
        "digest": None if value is None else value.digest,
        "statistics": None if value is None else _plain(value.statistics),
    }


def _row(thing: object) -> dict[str, JSON]:
    """Give a dataclass as an object."""
    plain = _plain(thing)
    return plain if isinstance(plain, dict) else {}


def _plain(thing: object) -> JSON:
    """Turn dataclasses, mappings and tuples into what strict JSON can carry."""
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
        return {name: _plain(getattr(thing, name)) for name in names}
    if isinstance(thing, Mapping):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(item) for item in thing]
    return _scalar(thing)


def _scalar(thing: object) -> JSON:
    """Turn one value into what strict JSON can carry."""
    if thing is None or isinstance(thing, bool | int):
        return thing
    if isinstance(thing, float):
        return thing if math.isfinite(thing) else str(thing)
    return str(thing)
