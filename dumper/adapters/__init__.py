"""Adapters by name: one file per framework, loaded only when it is needed."""

from .registry import (
    ADAPTER_GROUP,
    find,
    imported,
    load,
    load_format,
    load_runtime,
    names,
    opened,
    way_out,
)

__all__ = [
    "ADAPTER_GROUP",
    "find",
    "imported",
    "load",
    "load_format",
    "load_runtime",
    "names",
    "opened",
    "way_out",
]
