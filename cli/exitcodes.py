"""What a verdict is to whoever looks at the exit code."""

from __future__ import annotations

__all__ = ["exit_code_of"]

_CODES = {"match": 0, "diverged": 1}
INCONCLUSIVE = 2


def exit_code_of(verdict: str) -> int:
    """Return the exit code for the verdict on the whole of a comparison.

    >>> exit_code_of("match"), exit_code_of("diverged"), exit_code_of("inconclusive")
    (0, 1, 2)
    """
    return _CODES.get(verdict, INCONCLUSIVE)
