"""The module tree of the terminal report folds what is alike and never hides an origin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from padiff.comparer.result import Verdict
from tests.support.comparisons import comparison, resnet_like, tree
from tests.support.drawing import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Comparison


def test_matching_and_inherited_subtrees_fold_with_counts() -> None:
    text = draw(resnet_like())

    assert "layer1  Layer  (+12 modules)" in text
    assert re.search(r"layer4  Layer  \(\+12 modules\) +diverged +diverged +inherited", text)


def test_long_runs_of_siblings_share_a_line() -> None:
    paths = ["", *(f"block{n}" for n in range(40))]

    text = draw(comparison([], tree(paths, {"block30": Verdict.DIVERGED}, origins=["block30"])))

    assert "block0 ... block29  30 siblings" in text
    assert "block31 ... block39  9 siblings" in text
    assert re.search(r"- block30 .*<--- HERE", text)


def test_siblings_of_both_sides_are_named_side_by_side_or_below_each_other() -> None:
    pairs = [(f"stage{n}", f"encoder{n}") for n in range(40)]
    result = comparison([], tree(["", *pairs], {}))

    assert "stage0 ... stage39 = encoder0 ... encoder39  40 siblings" in draw(result)
    lines = draw(result, width=60).splitlines()
    first = next(n for n, line in enumerate(lines) if "- stage0 ... stage39" in line)
    assert lines[first + 1].split() == ["=", "encoder0", "...", "encoder39"]
    assert lines[first + 2].split() == ["40", "siblings"]


def blocks(*, origins: Sequence[str] = ()) -> Comparison:
    """Give twelve blocks in which the same is missing, and what only the reference has."""
    paths: list[str | tuple[str | None, str | None]] = ["", "h"]
    for n in range(12):
        paths += [f"h.{n}", f"h.{n}.attn", (f"h.{n}.attn.lost", None), f"h.{n}.mlp"]
    worst = {f"h.{n}.attn.lost": Verdict.MISSING for n in range(12)}
    worst |= dict.fromkeys(origins, Verdict.DIVERGED)
    return comparison([], tree(paths, worst, origins=origins))


def test_blocks_in_which_the_same_is_to_be_seen_are_drawn_once() -> None:
    text = draw(blocks(), width=140)

    assert text.count("reference only") == 1
    assert re.search(r"- 1 ... 11  11 siblings  \(\+33 modules, 22 paired\)  like 0 above", text)
    assert draw(blocks(), verbose=True, max_rows=0).count("reference only") == 12


def test_blocks_with_an_origin_are_all_drawn() -> None:
    text = draw(blocks(origins=["h.4.mlp", "h.5.mlp"]), max_rows=0, width=140)

    assert text.count("<--- HERE") == 2
    assert re.search(r"- 1 ... 3  3 siblings .* like 0 above", text)
    assert re.search(r"- 7 ... 11  5 siblings .* like 6 above", text)


def test_wrappers_of_one_side_are_not_drawn_but_counted() -> None:
    rows = tree(
        ["", ("body", None), ("body.fc", "fc"), ("body.drop", None)],
        {"body.fc": Verdict.DIVERGED},
        origins=["body.fc"],
    )

    text = draw(comparison([], rows))
    everything = draw(comparison([], rows), verbose=True)

    assert re.search(r"\|- body\.fc = fc +Fc +DIVERGED", text)
    assert "1 module around paired ones, on one side only" in text
    assert re.search(r"- body  Body +skipped +skipped +reference only", everything)


def test_verbose_gives_every_module_a_line() -> None:
    result = resnet_like()

    text = draw(result, verbose=True, max_rows=0)

    tree_part = text.partition("MODULE TREE")[2].partition("WEIGHTS")[0]
    assert len(tree_part.strip().splitlines()) == len(result.steps[0].tree) + 2
    assert "(+" not in tree_part


def test_max_rows_never_cuts_the_way_to_the_origin() -> None:
    text = draw(resnet_like(), max_rows=4)

    tree_part = text.partition("MODULE TREE")[2].partition("WEIGHTS")[0]
    assert "<--- HERE" in tree_part
    assert "left out (--max-rows 0: all)" in tree_part
    assert len([line for line in tree_part.splitlines() if "verged" in line]) <= 5


def test_tree_deeper_than_python_recurses_is_drawn() -> None:
    paths = [""]
    for _ in range(1500):
        paths.append(f"{paths[-1]}.x".removeprefix("."))
    origin = paths[-1]

    text = draw(comparison([], tree(paths, {origin: Verdict.DIVERGED}, origins=[origin])))

    assert "[depth 1500]" in text
