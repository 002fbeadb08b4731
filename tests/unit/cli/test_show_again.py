"""``padiff show`` marks calls that ran again."""

from __future__ import annotations

from padiff.cli.show_text import _count
from padiff.dumpfile import CallInfo


def test_calls_that_ran_again_are_marked() -> None:
    calls = [
        CallInfo(id=at, module=0, index=at, parent=None, start=at, end=None, recomputed=times)
        for at, times in enumerate((1, 0, 2))
    ]

    assert _count(calls) == "3 (+3 again)"
    assert _count(calls[1:2]) == "1"
    assert _count([]) == "-"
