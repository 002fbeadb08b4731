"""The alignment in order finds the greatest total, in a band where a gap is large."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from padiff.pairing.calls import align
from padiff.pairing.calls.align import Gap, align_gap

Floats = npt.NDArray[np.float64]
TABLES = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6))


def table_of(drawn: tuple[int, int, int], *, hits: float) -> Floats:
    """Give random scores, of which about so large a share counts."""
    rows, columns, seed = drawn
    random = np.random.default_rng(seed)
    scores = random.integers(1, 9, (rows, columns)) / 4
    return np.where(random.random((rows, columns)) < hits, scores, -1.0)


def aligned(table: Floats) -> list[tuple[int, int]]:
    gap = Gap(0, table.shape[0], 0, table.shape[1])
    return align_gap(lambda rows, columns: table[rows, columns], gap)


def greatest(table: Floats) -> float:
    """Give the greatest total of pairs that ascend on both sides, cell by cell."""
    best = np.zeros((table.shape[0] + 1, table.shape[1] + 1))
    for row, column in np.ndindex(*table.shape):
        matched = best[row, column] + table[row, column] if table[row, column] > 0 else 0.0
        best[row + 1, column + 1] = max(best[row, column + 1], best[row + 1, column], matched)
    return float(best[-1, -1])


@given(drawn=TABLES, hits=st.sampled_from([0.05, 0.3, 1.0]))
def test_pairs_ascend_and_their_total_is_the_greatest(
    drawn: tuple[int, int, int], hits: float
) -> None:
    table = table_of(drawn, hits=hits)

    found = aligned(table)

    assert all(one < two and other < third for (one, other), (two, third) in pairwise(found))
    assert all(table[pair] > 0 for pair in found)
    assert sum(table[pair] for pair in found) == greatest(table)


@pytest.mark.parametrize("hits", [0.002, 0.02, 0.3])
@pytest.mark.parametrize("columns", [200, 300, 700])
def test_in_a_large_gap_the_greatest_total_within_a_band_is_found(
    monkeypatch: pytest.MonkeyPatch, columns: int, hits: float
) -> None:
    monkeypatch.setattr(align, "_MAX_CELLS", 100)
    rows, band = 300, 64
    table = table_of((rows, columns, 5), hits=hits)
    middles = np.arange(rows) * columns // rows
    is_within = np.abs(np.arange(columns)[None, :] - middles[:, None]) <= band

    found = aligned(table)

    assert all(is_within[pair] for pair in found)
    assert sum(table[pair] for pair in found) == greatest(np.where(is_within, table, -1.0))
