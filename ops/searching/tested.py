"""A whole test: what was found of each operator, and what of it was known before."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from padiff.ops.judging import Bucket

    from .search import Searched


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A difference that somebody has looked at."""

    operator: str
    reason: str
    """Why it is no news: an issue, a decision."""
    kind: str = ""
    """As in ``Bucket``; empty for any."""
    side: str = ""
    place: str = ""
    detail: str = ""
    """A part of the bucket's."""

    def covers(self, bucket: Bucket) -> bool:
        """Return whether a finding is this one."""
        return (
            self.operator == bucket.operator
            and self.kind in ("", bucket.kind)
            and self.side in ("", bucket.side)
            and self.place in ("", bucket.place)
            and self.detail in bucket.detail
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """The result of a test."""

    reference: str
    candidate: str
    versions: Mapping[str, str]
    """Of both frameworks."""
    seed: int | None
    """None where stored cases were replayed."""
    elapsed_s: float
    operators: Sequence[Searched]
    known: Sequence[Known] = ()

    def reason(self, bucket: Bucket) -> str | None:
        """Return why a finding is no news; None if it is."""
        return next((one.reason for one in self.known if one.covers(bucket)), None)

    @property
    def only_invalid(self) -> list[str]:
        """The operators of which both frameworks refused every case."""
        return [one.operator for one in self.operators if one.is_only_invalid]

    @property
    def is_candidate_right(self) -> bool:
        """Whether nothing new was found of the candidate."""
        return not any(
            finding.is_candidates and self.reason(bucket) is None
            for one in self.operators
            for bucket, (_, finding) in one.findings.items()
        )


def read_known(path: Path) -> list[Known]:
    """Read a list of known differences, ``[[known]]`` tables in TOML.

    Raises:
        ConfigError: It cannot be read, or an entry is missing, unknown or no text.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"cannot read {str(path)!r} as TOML: {error}") from error
    names = {one.name for one in fields(Known)}
    found = []
    for place, entry in enumerate(data.get("known", [])):
        texts = {key: one for key, one in entry.items() if key in names and isinstance(one, str)}
        if set(texts) != set(entry) or not texts.get("operator") or not texts.get("reason"):
            raise ConfigError(
                f"cannot read {str(path)!r}: expected texts of {sorted(names)} in [[known]] "
                f"{place}, found {sorted(entry)}",
                hint="'operator' and 'reason' are needed; the others narrow the entry down",
            )
        found.append(Known(**texts))
    return found
