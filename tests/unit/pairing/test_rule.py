"""Layout rules: what each word does, its text form, and its undoing."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.dumpfile import ConfigError
from padiff.pairing.rule import IDENTITY, Rule

MATRIX = np.arange(24.0).reshape(6, 4)

TEXTS = [
    "identity",
    "transpose",
    "reshape",
    "reshape 3 -1",
    "permute 0 2 3 1",
    "rows 0/3",
    "rows 4:8 | transpose",
    "columns 1/2",
    "concat 0 | transpose",
    "interleave 2",
    "interleave 2 1",
    "groups 2 0:32",
    "groups 2 0:32 1",
    "take 5",
    "stack",
    "zeros 1 4 | concat 0",
    "insert 2",
    "squeeze 2",
    "transpose | split 1",
    "merge 0 | transpose",
    "not",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_form_reads_back(text: str) -> None:
    rule = Rule.parse(text)

    assert str(rule) == text
    assert Rule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    [
        "flip", "rows", "rows 3/3", "rows 2:2", "rows -1:2", "permute 0 0", "reshape -1 -1",
        "concat", "zeros 1", "groups 0 0:1", "transpose 1", "reshape | transpose", "rows 0/3 1/3",
        "take x", "split 1 | transpose", "merge",
    ],
)  # fmt: skip
def test_wrong_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Rule.parse(text)


def test_heads_are_split_as_the_candidate_has_them_and_merged_again() -> None:
    rule = Rule.parse("transpose | split 1")

    split = rule.apply([MATRIX], (4, 2, 3))

    assert rule.inverse == Rule.parse("merge 1 | transpose")
    np.testing.assert_array_equal(split[:, 1], MATRIX[3:].T)
    np.testing.assert_array_equal(rule.inverse.apply([split], MATRIX.shape), MATRIX)
    assert not rule.fits([MATRIX.shape], (6, 2, 2))


def test_heads_that_are_merged_and_split_again_are_reshaped() -> None:
    merged = Rule.parse("merge 1 | transpose")

    assert merged.then(Rule.parse("transpose | split 1")) == Rule.parse("reshape")


def test_rows_take_a_block_of_the_first_axis() -> None:
    np.testing.assert_array_equal(Rule.parse("rows 1/3").apply([MATRIX]), MATRIX[2:4])
    np.testing.assert_array_equal(Rule.parse("rows 1:4").apply([MATRIX]), MATRIX[1:4])


def test_columns_take_a_block_of_the_second_axis() -> None:
    np.testing.assert_array_equal(Rule.parse("columns 1/2").apply([MATRIX]), MATRIX[:, 2:])


def test_groups_take_the_block_of_each_group() -> None:
    np.testing.assert_array_equal(Rule.parse("groups 2 1:3").apply([MATRIX]), MATRIX[[1, 2, 4, 5]])


def test_interleave_joins_group_by_group() -> None:
    q, k = np.arange(4.0), np.arange(10.0, 12.0)

    made = Rule.parse("interleave 2").apply([q, k])

    np.testing.assert_array_equal(made, [0, 1, 10, 2, 3, 11])


def test_stack_and_take_are_each_others_undoing() -> None:
    parts = [MATRIX, MATRIX + 100]

    made = Rule.parse("stack").apply(parts)

    np.testing.assert_array_equal(Rule.parse("take 1").apply([made]), parts[1])


def test_views_are_given_where_numpy_can() -> None:
    assert np.shares_memory(Rule.parse("rows 0/3 | transpose").apply([MATRIX]), MATRIX)


def test_scalar_stays_a_scalar() -> None:
    assert IDENTITY.apply([np.array(3)], ()).shape == ()
    assert Rule.parse("reshape").apply([np.ones(1)], ()).shape == ()


def test_shape_that_the_candidate_has_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected"):
        IDENTITY.apply([MATRIX], (4, 6))
    with pytest.raises(ConfigError):
        Rule.parse("rows 0/5").apply([MATRIX], (1, 4))


def test_several_references_need_a_joining_step() -> None:
    with pytest.raises(ConfigError, match="join"):
        Rule.parse("transpose").apply([MATRIX, MATRIX])


@pytest.mark.parametrize("text", ["transpose", "permute 2 0 1", "insert 1", "identity", "not"])
def test_inverse_undoes(text: str) -> None:
    rule = Rule.parse(text)
    array = np.arange(24).reshape(2, 3, 4) % 2 == 0 if text != "transpose" else MATRIX

    inverse = rule.inverse

    assert inverse is not None
    np.testing.assert_array_equal(inverse.apply([rule.apply([array])]), array)


def test_then_cancels_what_undoes_itself() -> None:
    transpose = Rule.parse("transpose")

    assert transpose.then(transpose) == IDENTITY
    assert str(Rule.parse("rows 0/3").then(transpose)) == "rows 0/3 | transpose"


@pytest.mark.parametrize("text", ["concat 0", "transpose | interleave 2", "concat 0 | transpose"])
def test_inverses_of_a_join_give_every_part_back(text: str) -> None:
    rule = Rule.parse(text)
    parts = [np.random.default_rng(n).normal(size=(4, 4)) for n in range(3)]
    whole = rule.apply(parts)

    rules = rule.inverses([part.shape for part in parts], whole.shape)

    assert rules is not None
    for one, part in zip(rules, parts, strict=True):
        np.testing.assert_array_equal(one.apply([whole], part.shape), part)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zeros 1 4 | concat 0", [1, 2, 3, 4, 0, 0, 0, 0, 5, 6]),
        ("zeros 0 2 | interleave 2", [0, 1, 2, 5, 0, 3, 4, 6]),
    ],
)
def test_zeros_stand_for_a_part_that_is_not_there(text: str, expected: list[int]) -> None:
    rule, parts = Rule.parse(text), [np.array([1, 2, 3, 4]), np.array([5, 6])]

    whole = rule.apply(parts, (len(expected),))

    np.testing.assert_array_equal(whole, expected)
    rules = rule.inverses([part.shape for part in parts], whole.shape)
    assert rules is not None
    for one, part in zip(rules, parts, strict=True):
        np.testing.assert_array_equal(one.apply([whole], part.shape), part)


@pytest.mark.parametrize(("text", "shape"), [("zeros 2 1 | concat 0", (3,)), ("zeros 0 1", ())])
def test_zeros_that_have_no_place_are_refused(text: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError):
        Rule.parse(text).apply([np.ones(shape)])


def test_expand_repeats_and_sum_adds_up_again() -> None:
    once = np.arange(6.0).reshape(1, 2, 3)

    many = Rule.parse("expand").apply([once], (4, 2, 3))
    back = Rule.parse("sum 0 1").apply([many])

    np.testing.assert_array_equal(many, np.concatenate([once] * 4))
    np.testing.assert_array_equal(back, [12.0, 20.0, 28.0])
    assert Rule.parse("expand").inverse is None
    assert Rule.parse("sum 0").inverses([(4, 2)], (2,)) is None


@pytest.mark.parametrize("text", ["expand | transpose", "sum", "sum 0 0", "sum 5", "expand 3 3"])
def test_what_cannot_be_expanded_or_summed_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Rule.parse(text).apply([np.zeros((2, 3))])
