"""Lowering and executing small programs, and refusing hostile ones."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from padiff.dumpfile import ProgramError
from padiff.program import (
    TABLES,
    Dtype,
    LeafKind,
    Limits,
    Operator,
    Program,
    Value,
    ValueRef,
    execute,
    lower,
    on_one_thread,
)

TORCH = TABLES["torch"]


def leaf(id_: int, *shape: int, dtype: str = "float32") -> Value:
    return Value(id=id_, dtype=dtype, shape=shape, kind=LeafKind.INPUT)


def made(id_: int, producer: int, *shape: int, dtype: str = "float32") -> Value:
    return Value(id=id_, dtype=dtype, shape=shape, producer=producer)


def operator(id_: int, name: str, arguments: tuple[Any, ...], *outputs: int) -> Operator:
    return Operator(id=id_, name=f"torch.{name}", positional=arguments, outputs=outputs)


def ref(id_: int) -> ValueRef:
    return ValueRef(id=id_)


def program(values: list[Value], *operators: Operator) -> Program:
    return Program(framework="torch", values=tuple(values), operators=operators)


def chain() -> Program:
    """exp(x) twice, then their sum."""
    values = [leaf(0, 2, 3), made(1, 0, 2, 3), made(2, 1, 2, 3), made(3, 2, 2, 3)]
    return program(
        values,
        operator(0, "exp", (ref(0),), 1),
        operator(1, "exp", (ref(1),), 2),
        operator(2, "add", (ref(1), ref(2)), 3),
    )


def test_wanted_values_are_computed_from_leaves() -> None:
    x = np.array([[0, 1, 2], [3, -1, -2]], np.float32)

    result = execute(lower(chain(), TORCH), {0: x}, [1, 3])

    first = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(result[1], first, rtol=1e-15)
    np.testing.assert_allclose(result[3], first + np.exp(first), rtol=1e-15)


def test_a_value_in_the_middle_cuts_the_program() -> None:
    middle = np.ones((2, 3))

    result = execute(lower(chain(), TORCH), {1: middle}, [3])

    np.testing.assert_allclose(result[3], 1 + np.exp(1.0), rtol=1e-15)


def test_a_leaf_is_loaded_only_when_it_is_needed() -> None:
    loaded: list[int] = []

    def load() -> np.ndarray[Any, Any]:
        loaded.append(0)
        return np.zeros((2, 3))

    execute(lower(chain(), TORCH), {0: load, 1: np.ones((2, 3))}, [3])

    assert loaded == []


def test_a_missing_leaf_is_an_error() -> None:
    with pytest.raises(ProgramError, match="expected elements of value 0"):
        execute(lower(chain(), TORCH), {}, [3])


def test_a_leaf_of_another_shape_is_an_error() -> None:
    with pytest.raises(ProgramError, match="expected shape"):
        execute(lower(chain(), TORCH), {0: np.zeros(3)}, [3])


def test_values_are_freed_by_their_last_use() -> None:
    size, steps = 1 << 17, 12
    values = [leaf(0, size), *(made(step + 1, step, size) for step in range(steps))]
    operators = [operator(step, "exp", (ref(step),), step + 1) for step in range(steps)]
    lowered = lower(program(values, *operators), TORCH)
    x = np.full(size, -1.0)

    tracemalloc.start()
    execute(lowered, {0: x}, [steps])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 * x.nbytes


def test_an_operator_without_a_rule_is_opaque_and_its_output_a_leaf() -> None:
    values = [leaf(0, 3), made(1, 0, 3), made(2, 1, 3)]
    unknown = program(
        values, operator(0, "made_up", (ref(0),), 1), operator(1, "exp", (ref(1),), 2)
    )

    lowered = lower(unknown, TORCH)

    assert lowered.opaque == {0: "no rule"}
    result = execute(lowered, {1: np.zeros(3)}, [2])
    np.testing.assert_array_equal(result[2], 1)


@pytest.mark.parametrize(
    "arguments",
    [
        (ref(0), (10**12, 10**12)),
        (ref(0), "text"),
        (ref(0), (-5,)),
        (),
        (ref(0), (None,)),
        (ref(0), (6, 10**40, 0)),
    ],
)
def test_arguments_that_do_not_fit_make_an_operator_opaque(arguments: tuple[Any, ...]) -> None:
    hostile = program([leaf(0, 2, 3), made(1, 0, 6)], operator(0, "reshape", arguments, 1))

    assert list(lower(hostile, TORCH).opaque) == [0]


def test_a_rule_that_gives_another_shape_than_recorded_makes_it_opaque() -> None:
    hostile = program([leaf(0, 2, 3), made(1, 0, 7)], operator(0, "exp", (ref(0),), 1))

    assert lower(hostile, TORCH).opaque == {0: "rule gives float[2, 3], recorded float[7]"}


def test_a_value_that_is_used_before_it_exists_is_an_error() -> None:
    cycle = program(
        [made(0, 1, 3), made(1, 0, 3)],
        operator(0, "exp", (ref(0),), 1),
        operator(1, "exp", (ref(1),), 0),
    )

    with pytest.raises(ProgramError, match="exists before it"):
        lower(cycle, TORCH)


def test_arguments_that_are_nested_too_deeply_are_an_error() -> None:
    deep: Any = ref(0)
    for _ in range(500):
        deep = (deep,)

    with pytest.raises(ProgramError, match="nested"):
        lower(program([leaf(0, 3), made(1, 0, 3)], operator(0, "exp", (deep,), 1)), TORCH)


def test_a_loop_of_hostile_length_is_opaque_in_bounded_time() -> None:
    values = [leaf(0, 10**9), *(made(1, 0) for _ in range(1))]
    hostile = program(values, operator(0, "unbind", (ref(0),), 1))

    assert list(lower(hostile, TORCH).opaque) == [0]


def test_limits_hold_before_anything_is_allocated() -> None:
    size = 10**6
    sizes = (size, size)
    full = Operator(
        id=0,
        name="torch.full",
        positional=(sizes, 1.0),
        keywords={"dtype": Dtype(name="float32")},
        outputs=(0,),
    )
    lowered = lower(program([made(0, 0, *sizes)], full), TORCH)
    assert lowered.opaque == {}

    with pytest.raises(ProgramError, match="bytes for a value"):
        execute(lowered, {}, [0])


def test_work_is_limited() -> None:
    values = [leaf(0, 500, 500), made(1, 0, 500, 500)]
    lowered = lower(program(values, operator(0, "matmul", (ref(0), ref(0)), 1)), TORCH)

    with pytest.raises(ProgramError, match="operations"):
        execute(lowered, {0: np.ones((500, 500))}, [1], limits=Limits(work=10**6))


def test_an_index_beyond_its_axis_is_an_error() -> None:
    values = [leaf(0, 4, 2), leaf(1, 3, dtype="int64"), made(2, 0, 3, 2)]
    lowered = lower(
        program(values, operator(0, "nn.functional.embedding", (ref(1), ref(0)), 2)), TORCH
    )

    with pytest.raises(ProgramError, match="expected an index below 4, found 9"):
        execute(lowered, {0: np.ones((4, 2)), 1: np.array([0, 9, 1])}, [2])


def test_outcomes_of_random_operators_are_leaves() -> None:
    drawn = Operator(id=0, name="torch.randn_like", positional=(ref(0),), outputs=(1,), random=True)
    lowered = lower(program([leaf(0, 3), made(1, 0, 3)], drawn), TORCH)

    assert lowered.opaque == {}
    assert lowered.random == {0}
    assert set(lowered.leaves.values()) == {0, 1}


def test_products_run_on_one_thread_while_one_asks_for_it() -> None:
    def threads() -> set[int]:
        return {int(one["num_threads"]) for one in threadpool_info() if one["user_api"] == "blas"}

    with threadpool_limits(2, "blas"):
        before = threads()
        with on_one_thread():
            assert threads() == {1}
        assert threads() == before
