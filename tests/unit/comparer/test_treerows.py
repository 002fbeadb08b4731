"""The rows of a tree, made one by one from columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.comparer.report.tree_fold import fold
from padiff.comparer.result import Verdict
from padiff.comparer.treerows import TreeColumns, TreeRows, columns_of
from tests.support.comparisons import resnet_like, tree

if TYPE_CHECKING:
    from padiff.comparer.result import NodeRow

ROWS = tree(["", "a", "a.x", ("b", None)], {"a.x": Verdict.DIVERGED}, origins=["a.x"])


def test_rows_come_back_from_their_columns() -> None:
    rows = TreeRows(lambda: columns_of(ROWS))

    assert len(rows) == 4
    assert (rows[2], rows[-1], rows[1:3]) == (ROWS[2], ROWS[3], ROWS[1:3])
    assert rows == ROWS
    assert columns_of(rows) is rows.columns


def test_columns_are_made_at_the_first_look_and_once() -> None:
    made: list[int] = []

    def make() -> TreeColumns:
        made.append(len(ROWS))
        return columns_of(ROWS)

    rows = TreeRows(make)
    assert not made
    assert (len(rows), rows[0], list(rows)) == (4, ROWS[0], list(ROWS))
    assert made == [4]


def test_a_place_outside_is_refused() -> None:
    with pytest.raises(IndexError):
        TreeRows(lambda: columns_of(ROWS))[4]


def test_a_folded_tree_makes_the_rows_that_it_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    known = tree(["", *(f"layer{number}" for number in range(500))], {})
    rows = TreeRows(lambda: columns_of(known))
    made: list[int] = []
    row = TreeColumns.row

    def counting(columns: TreeColumns, place: int) -> NodeRow:
        made.append(place)
        return row(columns, place)

    monkeypatch.setattr(TreeColumns, "row", counting)
    folded = fold(rows, most=24)

    assert [line.siblings for line in folded.lines] == [1, 500]
    assert folded == fold(known, most=24)
    assert len(made) < 40


def test_folding_columns_is_folding_rows() -> None:
    known = resnet_like().steps[0].tree

    for unfold in (False, True):
        rows = TreeRows(lambda: columns_of(tuple(known)))
        assert fold(rows, unfold=unfold, most=3) == fold(known, unfold=unfold, most=3)
