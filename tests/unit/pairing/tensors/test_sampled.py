"""What two samples have in common is found through every layout rule."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.dumpfile import sample_positions
from padiff.pairing import Elements, Rule, match_elements
from padiff.pairing.tensors.sampled import LEAST_SAMPLE

COUNT = 512


def side(array: np.ndarray, *, sampled: bool, shape: tuple[int, ...] | None = None) -> Elements:
    """Give what a dump holds; ``shape`` is the one with which a value was met first."""
    flat = array.reshape(-1)
    if not sampled:
        return Elements(shape=array.shape, values=flat, positions=None)
    positions = sample_positions(shape or array.shape, COUNT)
    return Elements(shape=array.shape, values=flat[positions], positions=positions)


@pytest.mark.parametrize("sampled", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize(
    ("rule", "shapes", "target", "least"),
    [
        ("identity", [(60, 70)], (60, 70), COUNT),
        ("transpose", [(60, 70)], (70, 60), COUNT),
        ("transpose", [(64, 64)], (64, 64), COUNT),
        ("permute 0 2 3 1", [(2, 16, 12, 12)], (2, 12, 12, 16), COUNT),
        ("reshape", [(8, 20, 30)], (8, 600), COUNT),
        ("squeeze 1", [(90, 1, 80)], (90, 80), COUNT),
    ],
)
def test_layouts_share_the_sample(
    sampled: tuple[bool, bool],
    rule: str,
    shapes: list[tuple[int, ...]],
    target: tuple[int, ...],
    least: int,
) -> None:
    references = [np.random.default_rng(0).standard_normal(shape) for shape in shapes]
    candidate = Rule.parse(rule).apply(references, target)

    found = match_elements(
        Rule.parse(rule),
        [side(array, sampled=sampled[0]) for array in references],
        side(candidate, sampled=sampled[1]),
    )

    assert found is not None
    assert found.places.size >= least
    np.testing.assert_array_equal(found.reference, found.candidate)
    np.testing.assert_array_equal(candidate.reshape(-1)[found.places], found.candidate)
    assert (np.diff(found.places) > 0).all()


def test_joined_references_are_compared_where_the_candidate_is_whole() -> None:
    references = [np.random.default_rng(seed).standard_normal((40, 40)) for seed in range(3)]
    rule = Rule.parse("concat 0 | transpose")
    candidate = rule.apply(references, (40, 120))

    found = match_elements(
        rule, [side(array, sampled=True) for array in references], side(candidate, sampled=False)
    )

    assert found is not None
    assert found.places.size >= 3 * COUNT
    np.testing.assert_array_equal(found.reference, found.candidate)


def test_zeros_that_a_rule_fills_in_are_no_elements_of_a_reference() -> None:
    references = [np.random.default_rng(seed).standard_normal(900) for seed in range(2)]
    rule = Rule.parse("zeros 1 900 | concat 0")
    candidate = rule.apply(references, (2700,))

    found = match_elements(
        rule, [side(array, sampled=True) for array in references], side(candidate, sampled=False)
    )

    assert found is not None
    assert found.places.size >= 2 * COUNT
    np.testing.assert_array_equal(found.reference, found.candidate)
    assert not ((found.places >= 900) & (found.places < 1800)).any()


def test_a_part_of_a_fused_weight_is_compared_where_the_reference_is_whole() -> None:
    fused = np.random.default_rng(0).standard_normal((120, 40))
    rule = Rule.parse("rows 1/3")
    candidate = rule.apply([fused], (40, 40))

    found = match_elements(rule, [side(fused, sampled=False)], side(candidate, sampled=True))

    assert found is not None
    assert found.places.size >= COUNT
    np.testing.assert_array_equal(found.reference, found.candidate)


def test_masks_are_compared_through_a_negation() -> None:
    mask = np.random.default_rng(0).random((80, 90)) < 0.5

    found = match_elements(Rule.parse("not"), [side(mask, sampled=True)], side(~mask, sampled=True))

    assert found is not None
    np.testing.assert_array_equal(found.reference, found.candidate)


def test_a_value_met_in_another_shape_first_shares_the_flat_positions() -> None:
    array = np.random.default_rng(0).standard_normal((8, 20, 30))

    found = match_elements(
        Rule.parse("identity"),
        [side(array, sampled=True)],
        side(array, sampled=True, shape=(8, 600)),
    )

    assert found is not None
    assert found.places.size >= COUNT


def test_samples_with_too_little_in_common_decide_nothing() -> None:
    references = [np.random.default_rng(seed).standard_normal((1000, 1000)) for seed in range(2)]
    rule = Rule.parse("concat 0")

    found = match_elements(
        rule,
        [side(array, sampled=True) for array in references],
        side(rule.apply(references, (2000, 1000)), sampled=True),
    )

    assert found is None
    assert LEAST_SAMPLE < COUNT
