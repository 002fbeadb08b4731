"""Proof of folding numbered names into patterns."""

from __future__ import annotations

from padiff.pairing.maps.pattern import fold


def patterns(*members: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [family.patterns for family in fold(members)]


def test_equal_numbers_on_both_sides_become_captures() -> None:
    members = [(f"a.{i}.blk.{j}.q", f"l.{i}.{j}.wq") for i in range(2) for j in range(3)]

    assert patterns(*members) == [("a.{i}.blk.{j}.q", "l.{i}.{j}.wq")]


def test_a_number_that_never_changes_stays() -> None:
    assert patterns(("a.0.x.7", "b.0"), ("a.1.x.7", "b.1")) == [("a.{i}.x.7", "b.{i}")]


def test_numbers_inside_a_component_fold_too() -> None:
    assert patterns(("layer1.conv2", "s.1"), ("layer2.conv2", "s.2")) == [
        ("layer{i}.conv2", "s.{i}")
    ]


def test_shifted_numbers_do_not_fold() -> None:
    members = [("a.0", "b.1"), ("a.1", "b.2")]

    assert patterns(*members) == members


def test_a_run_that_only_one_name_has_is_split_by_it() -> None:
    members = [(f"a.{i}", f"s.{i // 2}.{i}") for i in range(4)]

    assert patterns(*members) == [("a.{i}", "s.0.{i}"), ("a.{i}", "s.1.{i}")]


def test_nothing_is_lost() -> None:
    members = [("a.0", "b.0"), ("c", "d"), ("a.1", "b.1"), ("", "")]

    folded = [member for family in fold(members) for member in family.members]

    assert sorted(folded) == sorted(members)
