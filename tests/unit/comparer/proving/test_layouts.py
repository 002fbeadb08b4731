"""Programs in one layout hold the same values, and what only lies otherwise is one expression."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer.proving.forms import in_one_layout
from padiff.program import Expressions, execute
from padiff.program.primitives import ShapeError
from tests.support.small_programs import drawn, lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.program import Lowered
    from padiff.program.lowering.builder import Term

SHAPES = {"x": (2, 3, 8), "y": (3, 2, 8), "matrix": (8, 8), "row": (8,), "places": (3, 1, 8)}
BATCH, TIME, HEADS, WIDTH = 2, 5, 3, 4


def _step(chosen: random.Random, pool: list[Term]) -> Term:
    """Return what a random primitive makes of random values.

    Raises:
        ShapeError: They do not fit.
    """
    x, other = chosen.choice(pool[-6:]), chosen.choice(pool)
    b, axis = x.builder, chosen.randrange(x.ndim)
    order = chosen.sample(range(x.ndim), x.ndim)
    divisor = chosen.choice([n for n in range(1, x.shape[axis] + 1) if not x.shape[axis] % n])
    last = (*range(other.ndim - 2), other.ndim - 1, other.ndim - 2)
    steps: list[Callable[[], Term]] = [
        lambda: b("transpose", x, order=tuple(order)),
        lambda: b(
            "reshape",
            x,
            shape=(*x.shape[:axis], divisor, x.shape[axis] // divisor, *x.shape[axis + 1 :]),
        ),
        lambda: b(
            "reshape",
            x,
            shape=(*x.shape[:axis], x.shape[axis] * x.shape[-1], *x.shape[axis + 1 : -1]),
        ),
        lambda: x + other,
        lambda: other * x,
        lambda: b("tanh", x),
        lambda: x * 0.5,
        lambda: b("matmul", x, other),
        lambda: b("matmul", x, b("transpose", other, order=last)),
        lambda: b("softmax", x, axis=axis),
        lambda: b("sum", x, axes=(axis,), keepdims=chosen.random() < 0.5),
        lambda: b("slice", x, axis=axis, start=0, stop=divisor, step=1),
    ]
    return chosen.choice(steps)()


@pytest.mark.parametrize("seed", range(60))
def test_values_stay_what_they_are(seed: int) -> None:
    pool: list[Term] = []

    def build(leaves: Mapping[str, Term]) -> Term:
        pool.extend(leaves.values())
        while len(pool) < len(SHAPES) + 12:
            with suppress(ShapeError, ValueError, IndexError):
                made = _step(random.Random(f"{seed} {len(pool)} {random.random()}"), pool)
                if 0 < made.ndim < 7 and made.spec.count < 2000:
                    pool.append(made)
        return pool[-1]

    random.seed(seed)
    program, _ = lowered(SHAPES, build)
    ids = dict(enumerate((term.id for term in pool), start=100))
    program = replace(program, terms={**program.terms, **ids})

    found = in_one_layout(program)

    leaves = drawn(SHAPES, seed)
    known, own = (execute(one, leaves, [*ids]) for one in (program, found))
    for value in ids:
        np.testing.assert_allclose(own[value], known[value], rtol=1e-9, atol=1e-9)


def _along_batch(leaves: Mapping[str, Term]) -> Term:
    """Attend with four axes, along (batch, time)."""
    b, x = leaves["x"].builder, leaves["x"]

    def parted(name: str, order: tuple[int, ...]) -> Term:
        made = b("reshape", x @ leaves[name], shape=(BATCH, TIME, HEADS, WIDTH))
        return b("transpose", made, order=order)

    scores = (parted("query", (0, 2, 1, 3)) * 0.5) @ parted("key", (0, 2, 3, 1))
    mixed = b("softmax", scores, axis=-1) @ parted("value", (0, 2, 1, 3))
    mixed = b("transpose", mixed, order=(0, 2, 1, 3))
    return b("reshape", mixed, shape=(BATCH, TIME, HEADS * WIDTH)) + x


def _along_time(leaves: Mapping[str, Term]) -> Term:
    """Attend with batch and heads as one axis, along (time, batch)."""
    b = leaves["x"].builder
    x = b("transpose", leaves["x"], order=(1, 0, 2))

    def parted(name: str) -> Term:
        made = b("reshape", x @ leaves[name], shape=(TIME, BATCH * HEADS, WIDTH))
        return b("transpose", made, order=(1, 0, 2))

    scores = parted("query") @ b("transpose", parted("key"), order=(0, 2, 1)) * 0.5
    mixed = b("softmax", scores, axis=2) @ parted("value")
    mixed = b("transpose", mixed, order=(1, 0, 2))
    made = b("reshape", mixed, shape=(TIME, BATCH, HEADS * WIDTH)) + x
    return b("transpose", made, order=(1, 0, 2))


def test_attention_along_the_batch_and_along_time_is_one_expression() -> None:
    inner = HEADS * WIDTH
    shapes = {"x": (BATCH, TIME, inner), **dict.fromkeys(("query", "key", "value"), (inner, inner))}
    expressions = Expressions()

    def number(program: Lowered, result: int) -> int:
        leaves = {term: expressions.new(("leaf", value)) for term, value in program.leaves.items()}
        return expressions.number(program, leaves)[program.terms[result]]

    both = [lowered(shapes, build) for build in (_along_batch, _along_time)]

    assert len({number(*one) for one in both}) == 2
    assert len({number(in_one_layout(program), result) for program, result in both}) == 1


def test_rows_lie_without_the_axis_that_a_single_index_had() -> None:
    shapes = {"indices": (2, 1), "table": (7, 8)}

    def build(leaves: Mapping[str, Term]) -> Term:
        b = leaves["table"].builder
        index = b("cast", leaves["indices"], kind="int")
        return b("take", leaves["table"], b("reshape", index, shape=(2,)), axis=0)

    program, _ = lowered(shapes, build)

    found = in_one_layout(program)

    (taken,) = (node.outputs[0] for node in found.nodes if node.primitive == "take")
    assert found.specs[taken].shape == (2, 8)


def test_a_value_that_is_known_by_itself_is_read_as_it_lies() -> None:
    shapes = {"x": (2, 8, 3), "table": (5, 8)}
    rows: list[int] = []

    def build(leaves: Mapping[str, Term]) -> Term:
        b = leaves["x"].builder
        part = b("slice", leaves["table"], axis=0, start=2, stop=3, step=1)
        row = b("reshape", part, shape=(8,))
        rows.append(row.id)
        return leaves["x"] * b("reshape", row, shape=(8, 1))

    program, result = lowered(shapes, build)
    program = replace(program, terms={**program.terms, 100: rows[0]})
    leaves = drawn(shapes, 0)
    row = np.arange(8.0)

    found = in_one_layout(program, [100])

    made = execute(found, {**leaves, 100: row}, [result])[result]
    (x,) = (array for array in leaves.values() if array.shape == shapes["x"])
    np.testing.assert_allclose(made, x * row[:, None])
