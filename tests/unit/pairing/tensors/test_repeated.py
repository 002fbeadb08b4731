"""Tensors that repeat themselves, against what they repeat."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from padiff.pairing.tensors.repeated import find_repetition

Floats = npt.NDArray[np.float32]


def random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


ONCE = random(1, 3, 4)
HALF = random(3, 2)


@pytest.mark.parametrize(
    ("reference", "candidate", "rule"),
    [
        (ONCE, ONCE.repeat(2, axis=0), "expand"),
        (ONCE[0], ONCE.repeat(2, axis=0), "expand"),
        (ONCE[0], np.repeat(ONCE[0][:, None], 2, axis=1), "reshape 3 1 4 | expand"),
        (ONCE.repeat(2, axis=0), ONCE, "take 0 | reshape"),
        (np.concatenate([HALF, HALF], 1), HALF, "reshape 3 2 2 | permute 1 0 2 | take 0"),
        (HALF.repeat(2, axis=1), HALF, "reshape 3 2 2 | permute 2 0 1 | take 0"),
        (
            np.concatenate([HALF, HALF], 1)[None],
            np.stack([HALF] * 5),
            "reshape 1 3 2 2 | permute 2 0 1 3 | take 0 | expand",
        ),
        (HALF, HALF.repeat(2, axis=1), "reshape 3 2 1 | expand 3 2 2 | reshape"),
    ],
)
def test_what_is_repeated_is_found_and_made(
    reference: Floats, candidate: Floats, rule: str
) -> None:
    found = find_repetition(reference, candidate)

    assert found is not None
    assert str(found.values) == rule
    np.testing.assert_array_equal(found.values.apply([reference], candidate.shape), candidate)


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (np.ones((1, 3, 4), np.float32), np.ones((2, 3, 4), np.float32)),
        (ONCE, random(2, 3, 4)),
        (random(4, 1), random(1, 3)),
        (ONCE.repeat(2, axis=0), ONCE.repeat(5, axis=0)),
        (random(2, 3), np.zeros((0, 3), np.float32)),
    ],
    ids=["constant", "not repeated", "nothing in common", "two batches", "empty"],
)
def test_what_no_repetition_explains_is_refused(reference: Floats, candidate: Floats) -> None:
    assert find_repetition(reference, candidate) is None


def test_a_repetition_is_seen_though_the_values_diverged() -> None:
    other = random(1, 3, 4, seed=1).repeat(2, axis=0)

    found = find_repetition(ONCE, other)

    assert found is not None
    assert str(found.values) == "expand"


@pytest.mark.parametrize("is_turned", [False, True])
def test_gradients_add_up_over_what_is_repeated(*, is_turned: bool) -> None:
    both, many = np.concatenate([HALF, HALF], 1)[None], np.stack([HALF] * 5)
    ahead, back = random(1, 3, 4, seed=2), random(5, 3, 2, seed=3)
    sums = [ahead[0, :, :2] + ahead[0, :, 2:], back.sum(0)]
    values, grads = [both, many], [ahead, back]
    if is_turned:
        values, grads, sums = values[::-1], grads[::-1], sums[::-1]

    found = find_repetition(values[0], values[1])

    assert found is not None
    theirs = found.gradients[1].apply([grads[1]])
    mine = found.gradients[0].apply([grads[0]], theirs.shape)
    np.testing.assert_allclose(mine.reshape(3, 2), sums[0], rtol=1e-6)
    np.testing.assert_allclose(theirs.reshape(3, 2), sums[1], rtol=1e-6)
