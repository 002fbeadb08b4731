"""What a record is the sum of, from the norms that a dump holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer.judging.rounding import Rounding
from padiff.dumpfile import (
    CallInfo,
    Index,
    ModuleInfo,
    Phase,
    RecordInfo,
    Role,
    Statistics,
    ValueInfo,
)
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from padiff.comparer.judging.sums import Sums

Array = npt.NDArray[Any]

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((50, 16)).astype(np.float32)
W = RANDOM.standard_normal((16, 8)).astype(np.float32)
G = RANDOM.standard_normal((50, 8)).astype(np.float32)


def layered(output: Array, gradient: Array = G) -> Index:
    """One product of X and W inside a root, with its gradients."""
    zero = np.zeros(8, np.float32)
    built = DumpBuilder().module("", "Net").module("fc", "Linear").module("act", "ReLU")
    built.tensor("fc", "weight", W).tensor("fc", "bias", zero)
    built.enter("", inputs=[X])
    built.call("fc", inputs=[X], outputs=[output]).call("act", inputs=[output], outputs=[output])
    built.leave(outputs=[output])
    built.record("fc", Role.GRAD_OUTPUT, gradient)
    built.record("fc", Role.GRAD_INPUT, gradient @ W.T, slot="[0]")
    built.record("fc", Role.WEIGHT_GRAD, X.T @ gradient, slot=".weight")
    built.record("fc", Role.WEIGHT_GRAD, zero, slot=".bias")
    return built.side().index


def sums(index: Index, role: Role, slot: str | None = None, module: str = "fc") -> Sums:
    found = next(
        record
        for record in index.records
        if record.role is role
        and index.modules[record.module].path == module
        and slot in (None, record.slot)
    )
    return Rounding(index).of([found])[0]


def rms(array: Array) -> float:
    return float(np.sqrt(np.mean(array.astype(np.float64) ** 2)))


def test_a_product_that_cancels_has_the_size_of_what_was_added() -> None:
    found = sums(layered(np.zeros((50, 8), np.float32)), Role.OUTPUT)

    assert found.size == pytest.approx(math.sqrt(16) * rms(X) * rms(W))
    assert found.terms == 16


def test_the_largest_element_counts_where_it_is_larger() -> None:
    assert sums(layered(np.full((50, 8), 1e3, np.float32)), Role.OUTPUT).size == 1e3


def test_a_bias_gradient_that_is_zero_has_the_size_of_the_gradients_that_were_added() -> None:
    found = sums(layered(X @ W), Role.WEIGHT_GRAD, ".bias")

    assert found.size == pytest.approx(math.sqrt(50) * rms(G))
    assert found.terms >= 50


def test_a_weight_gradient_is_a_sum_over_positions() -> None:
    index = layered(X @ W, np.zeros((50, 8), np.float32))

    assert sums(index, Role.WEIGHT_GRAD, ".weight").size == 0.0
    found = sums(layered(X @ W), Role.WEIGHT_GRAD, ".weight")
    assert found.size >= math.sqrt(50) * rms(G) * rms(X) * (1 - 1e-6)


@pytest.mark.parametrize(("scale", "is_capped"), [(1.0, False), (65536.0, True)])
def test_a_loss_that_cancels_has_the_size_of_the_outputs_that_were_added(
    scale: float, *, is_capped: bool
) -> None:
    output = X @ W
    weights = np.full(output.shape, 1 / output.size, np.float32)
    built = DumpBuilder().module("", "Net").enter("", inputs=[X]).leave(outputs=[output])
    built.record("", Role.GRAD_OUTPUT, weights * np.float32(scale))
    built.record("", Role.LOSS, np.zeros((), np.float32))

    found = sums(built.side().index, Role.LOSS, module="")

    mean = rms(output) / math.sqrt(output.size)
    largest = float(np.abs(output).max())
    assert found.size == pytest.approx(largest if is_capped else mean)
    assert found.terms >= output.size


def test_what_a_clamp_was_given_counts_wherever_its_result_is_recorded() -> None:
    """A ReLU6 of 40 is 6, as far off as the 40 were, also at the next layer's input."""
    hidden = X * np.float32(40)
    active = np.clip(hidden, 0, 6)
    built = DumpBuilder().module("", "Net").module("clamp", "ReLU6").module("next", "Other")
    built.enter("", inputs=[hidden]).call("clamp", inputs=[hidden], outputs=[active])
    built.call("next", inputs=[active], outputs=[active * 2]).leave(outputs=[active])
    index = built.side().index

    given = float(np.abs(hidden).max())
    assert given > 60
    assert sums(index, Role.OUTPUT, module="clamp").size == given
    assert sums(index, Role.INPUT, module="next").size == given
    assert sums(index, Role.OUTPUT, module="").size == given
    assert sums(index, Role.OUTPUT, module="next").size == 12


def test_what_ran_before_is_counted_once_forward_and_twice_backward() -> None:
    index = layered(X @ W)

    assert sums(index, Role.OUTPUT).calls == 1
    assert sums(index, Role.OUTPUT, module="act").calls == 2
    assert sums(index, Role.GRAD_INPUT).calls == 4


def test_a_layer_without_weights_has_the_size_of_its_largest_element() -> None:
    output = X @ W

    assert sums(layered(output), Role.OUTPUT, module="act").size == np.abs(output).max()


def test_layers_that_pass_on_are_seen_through_however_many_there_are() -> None:
    """And once each where a tensor comes back to a layer that it came from."""
    hidden = [X * np.float32(40 - number) for number in range(20)]
    built = DumpBuilder().module("", "Net")
    for number in range(20):
        built.module(f"act{number}", "ReLU")
    built.enter("", inputs=[hidden[0]])
    for number, array in enumerate(hidden):
        after = hidden[(number + 1) % 20]
        built.call(f"act{number}", inputs=[array], outputs=[after])
    index = built.leave(outputs=[hidden[0]]).side().index

    largest = float(np.abs(hidden[0]).max())
    assert sums(index, Role.OUTPUT, module="act18").size == largest
    assert sums(index, Role.OUTPUT, module="act5").size == largest


def test_sums_of_more_terms_than_64_bits_count_are_counted() -> None:
    """As a dump from anyone may claim."""
    roles = (Role.INPUT, Role.OUTPUT, Role.GRAD_OUTPUT, Role.WEIGHT_GRAD)
    calls = tuple(
        CallInfo(id=one, module=0, index=one, parent=None, start=one, end=one) for one in range(4)
    )
    records = [
        RecordInfo(
            id=4 * call.id + place,
            module=0,
            call=None if role is Role.WEIGHT_GRAD else call.id,
            phase=Phase.BACKWARD,
            role=role,
            slot=f"{call.id}",
            order=call.id,
            shape=(1, 1) if role is Role.WEIGHT_GRAD else (1 << 61, 1),
            value=0,
        )
        for call in calls
        for place, role in enumerate(roles)
    ]
    statistics = Statistics(minimum=0.0, maximum=1.0, mean=0.5, l2=1.0)
    value = ValueInfo(id=0, digest="0", dtype="float32", size=1 << 61, statistics=statistics)
    module = ModuleInfo(id=0, path="", class_name="Linear", class_path="Linear", parent=None)
    index = Index(
        step=0, rank=0, modules=(module,), calls=calls, records=tuple(records), values=(value,)
    )

    found = Rounding(index).of([records[3]])[0]

    assert found.terms == 4 << 61
    assert found.size == 1.0
