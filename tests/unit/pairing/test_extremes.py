"""Trees of extreme form: many levels, many layers in a row, and no name in common."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.pairing import pair, plan_weights
from padiff.pairing.names import WordTable, likeness, words_of
from tests.support.extremes import EXTREMES, WIDE, Dialect
from tests.support.extremes import extreme as make
from tests.support.work import calls_made, most_held

if TYPE_CHECKING:
    from collections.abc import Callable


extreme = cache(make)
"""A side, which nothing changes, made once for all tests of its form."""


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("kind", EXTREMES)
def test_every_call_has_its_partner(kind: str, dialect: Dialect) -> None:
    found = pair(extreme(kind, 300, Dialect.SAME), extreme(kind, 300, dialect))

    assert [call.reference for call in found.calls] == list(range(len(found.calls)))
    assert all(call.reference == call.candidate for call in found.calls)
    assert len(found.calls) >= 299
    assert not found.unmatched


@pytest.mark.parametrize("kind", sorted(EXTREMES.keys() - {"blocks of unknown classes"}))
def test_other_values_lead_nobody_astray(kind: str) -> None:
    found = pair(extreme(kind, 300, Dialect.SAME), extreme(kind, 300, Dialect.STRANGE, seed=1))

    assert all(call.reference == call.candidate for call in found.calls)
    assert len(found.calls) >= 299


def assert_linear(few: Callable[[], object], four_times_as_many: Callable[[], object]) -> None:
    """Check that neither calls nor memory grow sixteenfold where the sides grow fourfold."""
    for measured in (calls_made, most_held):
        assert measured(four_times_as_many) < 8 * measured(few), measured.__name__


@pytest.mark.parametrize("kind", ["nested levels", "nested levels that add", "activations"])
def test_work_does_not_grow_with_the_square(kind: str) -> None:
    few, many = (
        (extreme(kind, count, Dialect.SAME), extreme(kind, count, Dialect.STRANGE))
        for count in (250, 1_000)
    )

    assert_linear(lambda: pair(*few), lambda: pair(*many))


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("way", [pair, plan_weights])
def test_work_of_wide_forms_does_not_grow_with_the_square(
    way: Callable[..., object], kind: str
) -> None:
    few, many = (
        (extreme(kind, count, Dialect.SAME), extreme(kind, count, Dialect.STRANGE, seed=1))
        for count in (150, 600)
    )

    assert_linear(lambda: way(*few), lambda: way(*many))


@pytest.mark.parametrize("kind", sorted(WIDE.keys() - {"outputs of one call"}))
def test_every_call_of_a_wide_form_has_its_partner(kind: str) -> None:
    found = pair(extreme(kind, 300, Dialect.SAME), extreme(kind, 300, Dialect.STRANGE))

    assert all(call.reference == call.candidate for call in found.calls)
    assert len(found.calls) == len(extreme(kind, 300, Dialect.SAME).index.calls)


def test_the_table_of_words_says_what_words_say_one_by_one() -> None:
    paths = [
        ["encoder.layer.0.attention.query", "encoder.layer.0.output.dense", "pooler", ""],
        ["layers.0.self_attn.q_proj", "layers.0.linear2", "bert.pooler", "", "zz"],
    ]
    words = [[words_of(path) for path in side] for side in paths]
    rows, columns = np.divmod(np.arange(20), 5)

    found = WordTable(*words).likeness(rows, columns)

    expected = [likeness(one, two) for one in words[0] for two in words[1]]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
