"""The folded tree keeps what matters and accounts for the rest."""

from __future__ import annotations

from padiff.comparer.report.tree_fold import State, fold
from padiff.comparer.result import Verdict
from tests.support.comparisons import resnet_like, tree


def test_every_module_is_drawn_or_counted() -> None:
    rows = resnet_like().steps[0].tree

    for most in (0, 1000):
        folded = fold(rows, most=most)
        drawn = sum(line.siblings + line.folded for line in folded.lines)
        assert drawn + folded.wrappers == len(rows)


def test_unfolded_tree_has_a_line_for_each_row_in_tree_order() -> None:
    rows = resnet_like().steps[0].tree

    folded = fold(rows, unfold=True)

    assert [line.first.id for line in folded.lines] == [row.id for row in rows]
    assert folded.wrappers == 0


def test_a_missing_module_of_one_side_is_named_not_folded_into_its_parent() -> None:
    rows = tree(
        ["", "body", "body.a", "body.b", ("body.lost", None), "head", "head.x", "head.y"],
        {"body.lost": Verdict.MISSING},
    )

    lines = fold(rows).lines

    lost = next(line for line in lines if line.first.reference == "body.lost")
    assert lost.state is State.REFERENCE
    assert lost.folded == 0


def test_worst_verdict_of_what_is_folded_shows() -> None:
    rows = tree(
        ["", "a", "a.x", "a.y", "b", "c"],
        {"a.y": Verdict.DIVERGED, "b": Verdict.DIVERGED},
        origins=["b"],
        inherited=["a.y"],
    )

    line = next(line for line in fold(rows).lines if line.first.reference == "a")

    assert line.folded == 2
    assert set(line.worst.values()) == {Verdict.DIVERGED}
    assert line.state is State.INHERITED


def test_an_empty_tree_has_no_lines() -> None:
    assert fold(()).lines == ()
