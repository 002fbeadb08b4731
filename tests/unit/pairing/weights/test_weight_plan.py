"""What a weight plan says about itself: how firm it is, and what other evidence makes of it."""

from __future__ import annotations

from dataclasses import replace

from padiff.pairing.result import PairedBy
from padiff.pairing.weights.weight_plan import Alternative, WeightPair, WeightPlan


def _plan(reference: int, confidence: float = 1.0) -> WeightPlan:
    pair = WeightPair(
        reference=(reference,), candidate=0, paired_by=PairedBy.NAME, confidence=confidence
    )
    return WeightPlan(pairs=(pair,), alone=())


def test_plan_that_rests_on_words_is_not_firm() -> None:
    assert _plan(0).is_firm
    assert not _plan(0, 0.8).is_firm


def test_pair_that_other_evidence_makes_otherwise_becomes_ambiguous() -> None:
    (pair,) = _plan(3).doubted_by(_plan(4), {}).pairs

    assert pair.is_ambiguous
    assert [option.reference for option in pair.alternatives] == [(4,)]


def test_another_name_of_the_same_tensor_raises_no_doubt() -> None:
    plan = _plan(3)

    assert plan.doubted_by(_plan(4), {3: 7, 4: 7}) == plan
    assert plan.doubted_by(_plan(4), {3: 7, 4: 8}) != plan


def test_what_is_ambiguous_itself_raises_no_doubt() -> None:
    plan = _plan(3)

    assert plan.doubted_by(_plan(4, 0.3), {}) == plan


def test_a_bolder_plan_s_pair_has_the_supposed_one_as_alternative_and_not_itself() -> None:
    rival = Alternative(reference=(4,))
    (pair,) = _plan(3, 0.3).pairs
    timid = WeightPlan(pairs=(replace(pair, alternatives=(rival,)),), alone=())

    (found,) = timid.filled_by(_plan(4, 0.4)).pairs

    assert found.reference == (4,)
    assert [one.reference for one in found.alternatives] == [(3,)]
