"""A few elements are looked at first: no table that holds what is wanted is lost by that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.program import UNIT_ROUNDOFF, Image
from padiff.program.images import _FORMULAS, made_of

if TYPE_CHECKING:
    from padiff.program.primitives import Array

TABLE: Array = np.random.default_rng(0).uniform(0.01, 0.99, (7, 12))
LAID = {"": (), "first": ((0, "first"), (1, "last")), "each": ((1, "each"),)}
SHAPES = {"": (7, 12), "first": (5, 9), "each": (7, 4)}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("way", LAID)
@pytest.mark.parametrize("formula", _FORMULAS)
def test_an_image_is_found_in_its_dtype(formula: str, way: str, dtype: type[np.floating]) -> None:
    unit, single = UNIT_ROUNDOFF[np.dtype(dtype).name], UNIT_ROUNDOFF["float32"]
    table = TABLE.astype(np.float32).astype(np.float64)
    wanted = Image(3, formula, LAID[way])
    elements = wanted.of(table, SHAPES[way]).astype(dtype)

    assert wanted in made_of((elements, unit), [(3, table, single)])


@pytest.mark.parametrize("place", [0, 17, 83])
def test_one_element_that_differs_makes_it_no_image(place: int) -> None:
    elements = np.sqrt(TABLE)
    elements.flat[place] += 1e-3
    unit = UNIT_ROUNDOFF["float32"]

    assert not [*made_of((elements.astype(np.float32), unit), [(3, TABLE, unit)])]
