"""Compare the numbers in two training logs, step by step or in the order of the lines."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError
from padiff.dumpfile.untrusted import read_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from .judging.blocks import Array
    from .result import Tolerance


_MOST_BYTES = 1 << 30
_LAST_STEP = 2**53
"""Up to here a number says one step and no other."""
FEW = 2
"""Equal distances between steps that make an interval."""
STEP = "step"
"""The group that says which step a line is about; the others are series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The numbers that one log has under one name."""

    places: Array
    """int64, ascending: steps where the log names them, else 0, 1, 2 …"""
    values: Array
    """float64, one for each place."""
    has_steps: bool = False
    repeated: int = 0
    """How many numbers a later line of the same step replaced, as where a run was resumed."""
    unread: int = 0
    """How often the pattern captured a text that is no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesComparison:
    """One named series of two logs."""

    name: str
    reference: Series
    candidate: Series
    places: Array
    """What both have, ascending."""
    first: int | None
    """The first of these places where the two do not agree, None if they agree at all of them."""
    max_abs: float
    """Largest absolute difference of finite pairs, 0 without any."""

    @property
    def is_match(self) -> bool:
        """Return whether they agree at all places that both have, at least one, and miss none."""
        return bool(self.places.size) and self.first is None and not any(self.missed)

    @property
    def missed(self) -> tuple[int, int]:
        """Count the places that the candidate should have and has not, and the reference.

        A log that prints every k-th step lacks none of those between.
        """
        return _missed(self.reference, self.candidate), _missed(self.candidate, self.reference)

    @property
    def alone(self) -> tuple[int, int]:
        """Count the places that only the reference has, and only the candidate."""
        both = len(self.places)
        return len(self.reference.places) - both, len(self.candidate.places) - both

    def at(self, place: int) -> tuple[float, float]:
        """Return both numbers at a place that both have."""
        return _at(self.reference, place), _at(self.candidate, place)


def read_series(path: Path, patterns: Sequence[str]) -> dict[str, Series]:
    """Find the numbers that patterns capture by name in a log.

    Args:
        path: A text file.
        patterns: Regular expressions, each with a named group for each series. A group ``step``
            captures the number of the step; where a step comes again, its last line counts.

    Returns:
        The series by name, in the order of the patterns.

    Raises:
        ConfigError: The file cannot be read, or a pattern is none, names nothing, or names what
            another does.
    """
    try:
        text = read_bounded(path, _MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        hint = "take the lines with numbers out of it" if error.errno == errno.EFBIG else None
        raise ConfigError(
            f"cannot read the log {str(path)!r}: {error.strerror}", hint=hint
        ) from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found: dict[str, Series] = {}
    for pattern in patterns:
        compiled = _compile(pattern)
        for name in (group for group in compiled.groupindex if group != STEP):
            if name in found:
                raise ConfigError(f"cannot use the patterns: two of them name {name!r}")
            found[name] = _find(compiled, name, text)
    return found


def compare_series(
    reference: Mapping[str, Series], candidate: Mapping[str, Series], tolerance: Tolerance
) -> list[SeriesComparison]:
    """Compare series by their names, place by place.

    Args:
        reference: From ``read_series``.
        candidate: With the same names.
        tolerance: When two numbers agree; nan only agrees with nan.

    Raises:
        ConfigError: A side has no number at all.
    """
    for side, series in (("reference", reference), ("candidate", candidate)):
        if not any(one.values.size for one in series.values()):
            raise ConfigError(
                f"cannot compare the logs: no pattern finds a number in the {side}",
                hint="try the pattern on a line of the log; it is a regular expression of Python",
            )
    return [_compare(name, known, candidate[name], tolerance) for name, known in reference.items()]


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"cannot read the pattern {pattern!r}: {error}") from error
    if not set(compiled.groupindex) - {STEP}:
        raise ConfigError(
            f"cannot use the pattern {pattern!r}: expected a named group",
            hint="such as 'loss: (?P<loss>[-+.\\deE]+)'",
        )
    return compiled


def _find(pattern: re.Pattern[str], name: str, text: str) -> Series:
    has_steps = STEP in pattern.groupindex
    numbers: dict[int, float] = {}
    repeated = unread = 0
    for place, found in _captured(pattern, name, text):
        value, step = _number(found), _number(place) if has_steps else float(len(numbers))
        if value is None or step is None or not step.is_integer() or abs(step) > _LAST_STEP:
            unread += 1
            continue
        repeated += int(step) in numbers
        numbers[int(step)] = value
    places = sorted(numbers)
    return Series(
        places=np.array(places, np.int64),
        values=np.array([numbers[place] for place in places], np.float64),
        has_steps=has_steps,
        repeated=repeated,
        unread=unread,
    )


def _captured(pattern: re.Pattern[str], name: str, text: str) -> Iterator[tuple[str, str]]:
    for match in pattern.finditer(text):
        groups = match.groupdict()
        if groups[name] is not None:
            yield groups.get(STEP) or "", groups[name]


def _compare(name: str, known: Series, found: Series, tolerance: Tolerance) -> SeriesComparison:
    places, mine, theirs = np.intersect1d(
        known.places, found.places, assume_unique=True, return_indices=True
    )
    one, two = known.values[mine], found.values[theirs]
    agree = np.isclose(two, one, atol=tolerance.atol, rtol=tolerance.rtol, equal_nan=True)
    bad = np.flatnonzero(~agree)
    finite = np.isfinite(one) & np.isfinite(two)
    distance = np.abs(two[finite] - one[finite])
    return SeriesComparison(
        name=name,
        reference=known,
        candidate=found,
        places=places,
        first=int(places[bad[0]]) if bad.size else None,
        max_abs=float(distance.max()) if distance.size else 0.0,
    )


def _missed(own: Series, other: Series) -> int:
    """Count the places of one series that the other lacks, but not for its longer interval."""
    alone = np.setdiff1d(own.places, other.places)
    steps, finer = np.diff(other.places), np.diff(own.places)
    if not own.has_steps or len(steps) < FEW or not finer.size:
        return len(alone)
    interval = int(steps[0])
    if (steps != interval).any() or interval <= finer.min():
        return len(alone)
    outside = (alone < other.places[0]) | (alone >= other.places[-1] + interval)
    return int(np.count_nonzero(outside))


def _at(series: Series, place: int) -> float:
    return float(series.values[np.searchsorted(series.places, place)])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
