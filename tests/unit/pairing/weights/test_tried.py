"""Which of several runs agrees: what counts as proof, and what does not."""

from __future__ import annotations

import pytest

from padiff.pairing.result import PairedBy, RecordPair
from padiff.pairing.weights.tried import Meeting, told_by


def _meetings(count: int) -> list[Meeting]:
    return [
        Meeting(
            pair=RecordPair(reference=(place,), candidate=place, paired_by=PairedBy.NAME),
            order=place,
            limit=1e-3,
        )
        for place in range(count)
    ]


@pytest.mark.parametrize(
    ("tried", "told"),
    [
        ([[1e-6], [0.5]], 0),
        ([[0.5], [0.7], [0.0]], 2),
        # with initial weights of std 0.02, query and key exchanged change little
        ([[3e-7], [1e-4]], 0),
        # a fault further up leaves both wrong, one of them less so
        ([[1e-4], [1e-3]], None),
        ([[0.01], [0.9]], None),
        # two ways that do the same
        ([[1e-7], [2e-7]], None),
        ([[1e-6]], None),
        # the first value tells, a fault behind it does not matter
        ([[1e-6, 0.3], [0.5, 0.6]], 0),
        # values that tell different things tell nothing
        ([[1e-6, 0.5], [0.5, 1e-6]], None),
        ([[float("inf")], [float("inf")]], None),
    ],
)
def test_only_a_run_that_alone_agrees_is_told(tried: list[list[float]], told: int | None) -> None:
    assert told_by(_meetings(len(tried[0])), tried) == told
