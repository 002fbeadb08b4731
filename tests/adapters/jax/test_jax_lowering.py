"""Every row of the table for JAX, held against JAX itself in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import lax

from padiff.dumper import Recorder, RecordSettings, adapters
from padiff.dumpfile import Keep, Phase, open_dump
from padiff.program import TABLES, execute, lower, read_program

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.program import RecordedProgram

Array = Any
TABLE = TABLES["jax"]
UNARY = [name for name, row in TABLE.names.items() if row.signature == "x"]
NOT_FLOAT = {"jax.lax.not", "jax.lax.real", "jax.lax.imag", "jax.lax.conj", "jax.lax.copy_p"}
OF_POSITIVE = {"log", "sqrt", "rsqrt", "lgamma", "digamma", "acosh"}
OF_UNIT = {"asin", "acos", "atanh", "erf_inv"}
WINDOW = {
    "window_dimensions": (1, 2, 3, 1),
    "window_strides": (1, 1, 2, 1),
    "padding": ((0, 0), (1, 0), (1, 1), (0, 0)),
    "base_dilation": (1, 1, 1, 1),
    "window_dilation": (1, 1, 1, 1),
}


def run_unary(x: Array) -> None:
    """Run every function of one operand."""
    for name in UNARY:
        short = name.rpartition(".")[2]
        function = getattr(jax.nn if ".nn." in name else lax, short, None)
        if name not in NOT_FLOAT and function is not None:
            given = jnp.abs(x) + 1.1 if short in OF_POSITIVE else x
            function(jnp.tanh(x) * 0.9 if short in OF_UNIT else given)


def run_binary(x: Array, y: Array, whole: Array, other: Array, flags: Array) -> None:
    """Run arithmetic, comparisons and choices."""
    for name in ("add", "sub", "mul", "max", "min", "rem", "atan2", "eq", "ne", "lt", "le", "gt",
                 "ge", "div"):  # fmt: skip
        getattr(lax, name)(x, y)
    for name in ("add", "sub", "mul", "div", "rem", "bitwise_and", "bitwise_or", "bitwise_xor"):
        getattr(lax, name)(whole, other)
    lax.shift_left(whole, other)
    lax.shift_right_arithmetic(whole, other)
    lax.bitwise_not(flags)
    lax.pow(jnp.abs(x), y)
    for power in (2, 3, -2, 5):
        lax.integer_pow(x, power)
    for method in lax.RoundingMethod:
        lax.round(x * 3, method)
    lax.select(flags, x, y)
    lax.select_n(other % 3, x, y, x + y)
    lax.clamp(-0.5, x, 0.5)
    z = lax.complex(x, y)
    for part in (lax.real, lax.imag, lax.conj):
        part(z)
    lax.convert_element_type(x * 3, jnp.int32)
    lax.convert_element_type(whole, jnp.float64)
    lax.reduce_precision(x, 11, 52)
    lax.optimization_barrier((x, y))
    jnp.array(x, copy=True)
    jax.jit(lambda x: jnp.logaddexp(x, 1.0) + jax.nn.softmax(x) + jax.nn.gelu(x))(x)


def run_reductions(x: Array, flags: Array) -> None:
    """Run reductions, scans and places."""
    for name in ("sum", "prod", "max", "min"):
        getattr(jnp, name)(x, axis=1)
    jnp.all(flags, axis=0)
    jnp.any(flags, axis=1)
    for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        for reverse in (False, True):
            getattr(lax, name)(x, axis=1, reverse=reverse)
    for place in (lax.argmax, lax.argmin):
        place(x, 1, jnp.int32)


def run_shapes(x: Array, whole: Array) -> None:
    """Run what moves elements."""
    lax.reshape(x, (4, 3))
    lax.broadcast_in_dim(x, (2, 3, 4), (1, 2))
    lax.squeeze(lax.expand_dims(x, (1,)), (1,))
    lax.transpose(x, (1, 0))
    lax.rev(x, (0,))
    lax.concatenate([x, x], 1)
    jnp.stack([x, x], axis=1)
    jnp.tile(x, (2, 3))
    lax.split(x, (1, 3), axis=1)
    lax.pad(x, 0.0, ((1, 2, 1), (0, -1, 0)))
    lax.pad(x, 3.0, ((1, 2, 0), (0, 1, 0)))
    lax.slice(x, (0, 1), (3, 4), (2, 1))
    lax.dynamic_slice(x, (whole[0, 0] * 0 + 9, jnp.int32(1)), (2, 2))
    lax.dynamic_update_slice(x, x[:2, :2] * 2, (jnp.int32(1), whole[0, 0] * 0 + 1))
    lax.broadcasted_iota(jnp.float64, (3, 4), 1)
    lax.sort(x, dimension=1)
    lax.sort((x, x + 1), dimension=0, num_keys=1)
    lax.top_k(x, 2)


def run_lookups(x: Array) -> None:
    """Run what reads and writes at indices."""
    places = jnp.array([[0, 2], [1, 2]])
    jnp.take(x, places, axis=0)
    jnp.take(x, places, axis=1)
    jnp.take(x, places + 1, axis=0)
    jnp.take(x, places, axis=0, mode="clip")
    jnp.take_along_axis(x, places[:1].repeat(3, axis=0), axis=1)
    x[jnp.array([0, 1]), jnp.array([3, 2])]
    x[1:, jnp.array([3, 2])]
    at = x.at[jnp.array([0, 2]), 1:3]
    at.set(1.0)
    at.add(x[:2, :2])
    at.multiply(2.0)
    at.max(0.1)
    at.min(0.1)


def run_networks(image: Array) -> None:
    """Run products, convolutions and windows."""
    drawn = np.random.default_rng(1)
    left, right = (jnp.asarray(drawn.standard_normal(shape)) for shape in ((2, 3, 4), (4, 2, 5)))
    jnp.einsum("bij,jbk->bik", left, right)
    left @ left.swapaxes(1, 2)
    jnp.tensordot(left, right, 1)
    images = ("NHWC", "HWIO", "NHWC")
    for inside, more in (
        (4, {"padding": "SAME", "window_strides": (2, 1)}),
        (4, {"padding": "VALID", "window_strides": (1, 1), "rhs_dilation": (2, 1)}),
        (4, {"padding": ((1, 2), (0, 1)), "window_strides": (1, 1), "lhs_dilation": (2, 3)}),
        (2, {"padding": "SAME", "window_strides": (1, 1), "feature_group_count": 2}),
    ):
        kernel = jnp.asarray(drawn.standard_normal((3, 2, inside, 6)))
        lax.conv_general_dilated(image, kernel, dimension_numbers=images, **more)
    nnx.max_pool(image, (2, 3), (1, 2), "SAME")
    nnx.avg_pool(image, (2, 3), (1, 2), "SAME")
    for name in ("max", "min", "sum"):
        primitive = getattr(lax, f"reduce_window_{name}_p", None)
        if primitive is not None:
            primitive.bind(image, **WINDOW)


class Cases(nnx.Module):
    """Calls all of them, and gives nothing that matters."""

    def __call__(self, image: Array) -> Array:
        drawn = np.random.default_rng(0)
        x, y = (jnp.asarray(drawn.standard_normal((3, 4))) for _ in range(2))
        whole = jnp.asarray(drawn.integers(-9, 9, (3, 4)), jnp.int32)
        other = jnp.asarray(drawn.integers(1, 4, (3, 4)), jnp.int32)
        run_unary(x)
        run_binary(x, y, whole, other, x > 0)
        run_reductions(x, x > 0)
        run_shapes(x, whole)
        run_lookups(x)
        run_networks(image)
        return image * 1.0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RecordedProgram:
    """Record all cases in one call."""
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    out: Path = tmp_path_factory.mktemp("cases")
    image = jnp.asarray(np.random.default_rng(2).standard_normal((2, 5, 6, 4)))
    model = Cases()
    settings = RecordSettings(
        out=out, name="cases", phase=Phase.FORWARD, content=Keep.parse("operators")
    )
    with Recorder(model, settings, adapters.load("jax")):
        model(image)
    found = read_program(open_dump(out / "cases").open(0, 0))
    assert found is not None
    return found


def elements(recorded: RecordedProgram, value: int) -> Array:
    found = recorded.elements(value)
    assert found is not None
    return found


@pytest.mark.parametrize("name", TABLE.names)
def test_a_row_computes_what_jax_computes(recorded: RecordedProgram, name: str) -> None:
    lowered = lower(recorded.program, TABLE, contents=recorded.elements)
    found = [one for one in recorded.program.operators if one.name == name]
    if name in {"jax.lax.copy_p", "jax.lax.add_any"}:
        assert not found, "another name of a row that has a case, or made by derivatives alone"
        return
    assert found, "a row without a case"
    for operator in found:
        assert operator.id not in lowered.opaque, lowered.opaque[operator.id]
        leaves = {one: elements(recorded, one) for one in operator.taken}
        with np.errstate(all="ignore"):
            made = execute(lowered, leaves, operator.outputs)
        for value in operator.outputs:
            expected = elements(recorded, value)
            np.testing.assert_allclose(made[value], expected, rtol=1e-12, atol=1e-12)


def test_nothing_that_the_cases_run_lacks_a_row(recorded: RecordedProgram) -> None:
    lowered = lower(recorded.program, TABLE, contents=recorded.elements)
    names = {one.id: one.name for one in recorded.program.operators}

    assert not {names[place]: reason for place, reason in lowered.opaque.items()}
