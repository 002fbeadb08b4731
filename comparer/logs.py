"""Compare the numbers in two training logs, in the order in which they were printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from .blocks import Array
    from .result import Tolerance

__all__ = ["SeriesComparison", "compare_series", "read_series"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesComparison:
    """One named series of two logs."""

    name: str
    reference: Array
    """float64, in the order of the log."""
    candidate: Array
    first: int | None
    """Place of the first pair that does not agree, None if all do."""
    max_abs: float
    """Largest absolute difference of finite pairs, 0 without any."""

    @property
    def is_match(self) -> bool:
        """Tell whether both are of one length and agree everywhere."""
        return self.first is None and len(self.reference) == len(self.candidate)


def read_series(path: Path, pattern: str) -> dict[str, Array]:
    """Find the numbers that a pattern captures by name in a log.

    Args:
        path: A text file.
        pattern: A regular expression with at least one named group; groups that matched nothing
            or no number are left out.

    Returns:
        A float64 array for each named group.

    Raises:
        ConfigError: The file cannot be read, or the pattern is none or names nothing.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"cannot read the pattern {pattern!r}: {error}") from error
    if not compiled.groupindex:
        raise ConfigError(
            f"cannot use the pattern {pattern!r}: expected a named group",
            hint="such as 'loss: (?P<loss>[-+.\\deE]+)'",
        )
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"cannot read the log {str(path)!r}: {error.strerror}") from error
    found: dict[str, list[float]] = {name: [] for name in compiled.groupindex}
    for match in compiled.finditer(text):
        for name, captured in match.groupdict().items():
            number = _number(captured)
            if number is not None:
                found[name].append(number)
    return {name: np.array(numbers, np.float64) for name, numbers in found.items()}


def compare_series(
    reference: dict[str, Array], candidate: dict[str, Array], tolerance: Tolerance
) -> list[SeriesComparison]:
    """Compare series by their names, pair by pair in order.

    Raises:
        ConfigError: A side has no number at all.
    """
    for side, series in (("reference", reference), ("candidate", candidate)):
        if not any(numbers.size for numbers in series.values()):
            raise ConfigError(f"cannot compare the logs: the pattern finds nothing in the {side}")
    return [
        _compare(name, reference[name], candidate[name], tolerance)
        for name in reference
        if name in candidate
    ]


def _compare(name: str, known: Array, found: Array, tolerance: Tolerance) -> SeriesComparison:
    length = min(len(known), len(found))
    one, two = known[:length], found[:length]
    agree = np.isclose(two, one, atol=tolerance.atol, rtol=tolerance.rtol, equal_nan=True)
    bad = np.flatnonzero(~agree)
    finite = np.isfinite(one) & np.isfinite(two)
    distance = np.abs(two[finite] - one[finite])
    return SeriesComparison(
        name=name,
        reference=known,
        candidate=found,
        first=int(bad[0]) if bad.size else None,
        max_abs=float(distance.max()) if distance.size else 0.0,
    )


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
