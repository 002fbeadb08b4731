"""Inputs that are drawn from a shape and a dtype."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.dumper.adapter import Keywords
from padiff.dumper.runs.inputs import DrawnInput, load_inputs, parse_input
from padiff.dumpfile import ConfigError
from padiff.dumpfile.dtypes import DTYPE_NAMES

ANYTHING = Keywords(names=(), takes_any=True)


def drawn(text: str) -> np.ndarray:
    (array,) = load_inputs([parse_input(text)], ANYTHING).positional
    assert isinstance(array, np.ndarray)
    return array


def test_numbers_are_the_same_on_every_machine() -> None:
    # The first numbers of MT19937 seeded with [0, 0], which numpy promises to keep.
    expected = [-0.3625903, -0.41597474, 0.9548649]

    assert drawn("auto:3") == pytest.approx(expected)
    assert drawn("auto:2x16:int64:5:8").tolist() == drawn("auto:2x16:int64:5:8").tolist()


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_each_dtype_is_drawn_within_its_range(dtype: str) -> None:
    is_integer = "int" in dtype
    array = drawn(f"auto:40x50:{dtype}:3:9" if is_integer else f"auto:40x50:{dtype}")

    assert (array.shape, array.dtype.name) == ((40, 50), dtype)
    wide = array.astype(complex)
    if is_integer:
        assert set(np.unique(array)) == set(range(3, 9))
    elif dtype == "bool":
        assert 0.4 < wide.real.mean() < 0.6
    else:
        assert abs(wide.mean()) < 0.1
        assert 0.9 < wide.real.std() < 1.1


def test_bounds_of_floats_are_those_of_a_uniform_draw() -> None:
    array = drawn("auto:1000:float64:-2:6")

    assert -2 <= array.min() < -1.9
    assert 5.9 < array.max() < 6


def test_a_number_alone_has_no_axes() -> None:
    assert drawn("auto:").shape == ()


def test_each_input_and_each_step_has_its_own_numbers() -> None:
    sources = [parse_input("auto:4"), parse_input("mask=auto:4")]
    found = load_inputs(sources, ANYTHING)
    later = load_inputs([one.of_step(1) for one in sources], ANYTHING)

    arrays = [found.positional[0], found.keywords["mask"],
              later.positional[0], later.keywords["mask"]]  # fmt: skip
    assert len({tuple(one.tolist()) for one in arrays}) == 4


def test_a_keyword_is_split_off() -> None:
    expected = DrawnInput(shape=(2, 3), dtype="int32", bounds=(0, 9), keyword="ids")

    assert parse_input("ids=auto:2x3:int32:0:9") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("auto:2x", "sizes"),
        ("auto:2x0", "from 1 upwards"),
        ("auto:-3", "from 1 upwards"),
        ("auto:99999x99999", "at most"),
        ("auto:2:float33", "a dtype"),
        ("auto:2:int64", "range of the integers"),
        ("auto:2:int64:0", "parts"),
        ("auto:2:int64:9:0", "not empty"),
        ("auto:2:int8:0:300", "numbers of int8"),
        ("auto:2:int64:0.5:2", "two numbers"),
        ("auto:2:float32:0:inf", "not empty"),
        ("auto:2:bool:0:1", "no range"),
    ],
)
def test_what_cannot_be_drawn_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot draw input '{text}'.*{why}"):
        parse_input(text)
