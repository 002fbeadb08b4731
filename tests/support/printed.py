"""Hold what a page shows of an output against what was printed: words as they are, figures by size.

Measured on ResNet-18 with one and two threads and with the instructions of several generations of
processors: a figure that a fault makes moves by 0.1 %, one that rounding makes by up to 1.75 times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["end_of"]

_FIGURE = r"(\d+(?:\.\d+)?e[+-]?\d+|\d+\.\d+)"
_AS_MADE = 1.01
"""Most that a figure may be off by, as a ratio."""
_NEAR_ZERO = 1.1
"""The same of the largest relative error, which is that of an element near 0."""
_BY_ROUNDING = 10.0
"""The same of one that only rounding makes: its order of magnitude."""
_SMALL, _LEAST = 1e-4, 2e-6
"""Below the first, float32 rounds a part of what is shown of tensors of the size of 1; below the
second, most of it."""
_PARTLY_BY_ROUNDING = 1.5
"""Most that a small figure may be off by, as a ratio."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a part of the expected text is looked for."""

    pattern: str
    """Regular expression of the part; its groups are figures."""
    ratio: float = _AS_MADE
    """Most that its figures may be off by."""


_RULES = (
    _Rule(r"\b\d{4}-\d\d-\d\d\b"),  # a date
    _Rule(r"\b\d+\.\d s\b"),  # how long it took
    # Which of several records is the worst, rounding decides.
    _Rule(rf"largest max abs {_FIGURE} at [^,]*, allowed", _BY_ROUNDING),
    _Rule(rf"rounding makes {_FIGURE}", _BY_ROUNDING),
    _Rule(r"error grows (\d+) times", _BY_ROUNDING),
    _Rule(rf"max rel {_FIGURE}", _NEAR_ZERO),
    _Rule(rf"--rtol {_FIGURE}", _NEAR_ZERO),
    _Rule(r"mismatched ([\d,]+) of"),
    _Rule(rf"(?<![\w.]){_FIGURE}(?!\.?\w)"),  # neither a version, nor a part of a name
)
_ANY_RULE = re.compile("|".join(f"(?P<rule{at}>{one.pattern})" for at, one in enumerate(_RULES)))


def end_of(expected: str, printed: str, start: int = 0) -> tuple[int, str]:
    """Return where the first part of the output ends that is what a page shows.

    Blanks and line breaks count as one blank, as figures of other lengths wrap elsewhere.

    Args:
        expected: What the page shows.
        printed: The output, without double blanks (``" ".join(text.split())``).
        start: Where to begin in it.

    Returns:
        The end and nothing, or -1 and why no part is the same.
    """
    pattern, wanted = _pattern(" ".join(expected.split()))
    why = "which was not printed"
    while match := pattern.search(printed, start):
        off = [
            f"{known} where {found} was printed"
            for (known, ratio), found in zip(wanted, match.groups(), strict=True)
            if not _is_near(known, found, ratio)
        ]
        if not off:
            return match.end(), ""
        why = "whose figures are others: " + ", ".join(off)
        start = match.start() + 1
    return -1, why


def _pattern(expected: str) -> tuple[re.Pattern[str], list[tuple[str, float]]]:
    """Return what to look for, and its figures, each with what it may be off by."""
    parts, wanted, done = [], [], 0
    for match in _ANY_RULE.finditer(expected):
        rule = _RULES[int(str(match.lastgroup).removeprefix("rule"))]
        figures = re.fullmatch(rule.pattern, match.group())
        assert figures is not None
        wanted += [(figure, rule.ratio) for figure in figures.groups()]
        parts += [re.escape(expected[done : match.start()]), rule.pattern]
        done = match.end()
    parts.append(re.escape(expected[done:]))
    return re.compile("".join(parts)), wanted


def _is_near(known: str, found: str, ratio: float) -> bool:
    """Return whether two figures are the same up to a ratio."""
    if known == found:
        return True
    small, large = sorted(float(one.replace(",", "")) for one in (known, found))
    if large < _SMALL:
        ratio = max(ratio, _PARTLY_BY_ROUNDING if large >= _LEAST else _BY_ROUNDING)
    return small > 0 and large <= small * ratio
