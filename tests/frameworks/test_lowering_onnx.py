"""ONNX's own node tests, executed by the primitives: cases that others made."""

from __future__ import annotations

from collections import defaultdict

import pytest

from padiff.program import TABLES
from tests.support.onnx_nodes import NodeCase, node_cases
from tests.support.operators import difference, lowered_of, results_of

TABLE = TABLES["onnx"]
LEAST_COVERED = 930
"""Of 1 230 node tests of one operator on numbers, in onnx 1.23; the rest is said to be opaque."""
ROUNDING = {"float16": 1e-3, "bfloat16": 1e-2}
"""What the expected outputs were rounded to; 1e-5 for float32."""
FOUR_DIGITS = {"test_averagepool_2d_ceil_last_window_starts_on_pad[0]": 2e-4}
"""Cases whose expected outputs are written with so many digits."""
HALFWAY = {"test_dynamicquantizelinear[0]": 1.0}
"""Cases with an element halfway between two integers: float32 decides which it becomes."""


@pytest.fixture(scope="module")
def cases() -> dict[str, list[NodeCase]]:
    result = defaultdict(list)
    for case in node_cases():
        result[f"onnx.{case.operator}"].append(case)
    return result


def tolerance(case: NodeCase) -> float:
    dtypes = [case.recorded.elements[id_].dtype.name for id_ in case.recorded.elements]
    told = {**FOUR_DIGITS, **HALFWAY}
    return max(told.get(case.name, 1e-5), *(ROUNDING.get(dtype, 0) for dtype in dtypes))


@pytest.mark.parametrize("name", TABLE.names)
def test_covered_node_tests_pass(name: str, cases: dict[str, list[NodeCase]]) -> None:
    assert cases[name]
    for case in cases[name]:
        lowered = lowered_of(case.recorded)
        if lowered.opaque:
            continue
        results = results_of(case.recorded, lowered)
        for output, result in zip(case.recorded.program.outputs, results, strict=True):
            apart = difference(result, case.recorded.elements[output])
            assert apart <= tolerance(case), case.name


def test_so_many_node_tests_are_covered(cases: dict[str, list[NodeCase]]) -> None:
    known = [case for name in TABLE.names for case in cases[name]]

    covered = sum(not lowered_of(case.recorded).opaque for case in known)

    assert covered >= LEAST_COVERED
