"""Adapters by name: one file per framework, loaded only when it is needed."""

from .registry import ADAPTER_GROUP, find, imported, load, names

__all__ = ["ADAPTER_GROUP", "find", "imported", "load", "names"]
