"""The names of what optimizers keep."""

from __future__ import annotations

import pytest

from padiff.pairing.tensors.slots import is_counter, is_same_state, split_slot


@pytest.mark.parametrize(
    ("torch", "paddle"),
    [
        ("exp_avg", "moment1"),
        ("exp_avg_sq", "moment2"),
        ("momentum_buffer", "velocity"),
        ("square_avg", "mean_square"),
        ("sum", "moment"),
        ("exp_inf", "inf_norm"),
        ("acc_delta", "_avg_squared_update"),
    ],
)
def test_frameworks_have_names_for_the_same(torch: str, paddle: str) -> None:
    assert is_same_state(torch, paddle)
    assert is_same_state(paddle, torch)


def test_other_moments_are_not_the_same() -> None:
    assert not is_same_state("exp_avg", "moment2")
    assert not is_same_state("exp_avg_sq", "velocity")


def test_counters_are_one_sided() -> None:
    assert is_counter("step")
    assert is_counter("beta1_pow_acc")
    assert not is_counter("exp_avg")


def test_slot_without_a_name_is_left_whole() -> None:
    assert split_slot(".weight") == (".weight", "")
    assert split_slot(".a['it\\'s']") == (".a", "it's")
