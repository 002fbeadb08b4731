"""One thing that is wrong with a dump, as data: where, which kind, in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ProblemKind(StrEnum):
    """What kind of wrong it is; stable, unlike the wording of messages."""

    INCOMPLETE = "incomplete"
    """There is no manifest: recording never finished."""
    SYNTAX = "syntax"
    """Not strict JSON, or no HDF5 file at all."""
    VERSION = "version"
    """Written in a newer form than this code reads."""
    AGE = "age"
    """Written in an older form than this code reads."""
    MISSING = "missing"
    """A field, column, file or dataset that must be there is not."""
    UNEXPECTED = "unexpected"
    """A field, column or file that must not be there is."""
    TYPE = "type"
    """A field holds the wrong type of thing."""
    RANGE = "range"
    """A field holds a thing of the right type that cannot be."""
    REFERENCE = "reference"
    """A row refers to a row that does not exist."""
    SIZE = "size"
    """Two statements about a size disagree."""
    FORBIDDEN = "forbidden"
    """A link, storage or filter that a reader must not follow."""
    DIGEST = "digest"
    """The elements do not have the digest that the index states."""
    STATISTICS = "statistics"
    """The elements do not have the statistics that the index states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, at one place."""

    loc: str
    """``manifest.json: files[0].path``, ``step_000000/rank_0000.h5: values[7].offset``."""
    kind: ProblemKind
    message: str
    """One clause: what was expected, what was found."""

    def __str__(self) -> str:
        """Return ``loc: message (kind)``."""
        return f"{self.loc}: {self.message} ({self.kind})"
