"""What is said of all pairs together, from columns and from the pairs."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from padiff.comparer import CompareSettings, Comparison, Verdict, compare, judgedpairs
from padiff.comparer.judgedpairs import (
    Saying,
    Spot,
    nearest,
    remarkable_pairs,
    replaced,
    sayings,
    spots,
)
from padiff.comparer.result import Evidence, Metrics, StepComparison
from padiff.dumpfile import Phase, Role
from tests.support.comparisons import comparison, endpoint, metrics, pair
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path

CLOSE = 1.1e-5
"""An epsilon that changes what comes after it, within tolerance."""
INPUT, OUTPUT = endpoint("fc", role=Role.INPUT), endpoint("fc")


def step_of(*pairs: object) -> StepComparison:
    return comparison([one for one in pairs if one is not None], ()).steps[0]  # type: ignore[misc]


def needing(share: float, reason: str = "") -> Metrics:
    return replace(metrics(), needed_atol=share * 1e-4)


def looked_at(found: Comparison) -> Comparison:
    """Give a comparison of which all pairs are made."""
    assert all(list(step.pairs) for step in found.steps)
    return found


def test_columns_say_what_the_pairs_say(tmp_path: Path) -> None:
    paths = tiny_pair(tmp_path, eps=CLOSE)
    columns, pairs = compare(*paths, CompareSettings()), compare(*paths, CompareSettings())
    looked_at(pairs)

    assert len(sayings(columns.steps)) > 3
    assert sayings(columns.steps) == sayings(pairs.steps)
    assert spots(columns.steps[0].pairs) == spots(pairs.steps[0].pairs)
    assert nearest(columns.steps) == nearest(pairs.steps) is not None


def test_what_is_told_of_a_pair_stands_before_its_columns(tmp_path: Path) -> None:
    skipped = CompareSettings(exclude=("norm",), min_coverage=0.0)
    paths = tiny_pair(tmp_path, eps=0.5)
    columns, pairs = compare(*paths, skipped), compare(*paths, skipped)
    looked_at(pairs)

    assert columns.divergences
    assert sayings(columns.steps) == sayings(pairs.steps)
    assert spots(columns.steps[0].pairs) == spots(pairs.steps[0].pairs)


@pytest.mark.parametrize("eps", [CLOSE, 0.5], ids=["matching", "diverging"])
def test_of_what_arrived_the_same_is_said_without_unpacking_it(
    tmp_path: Path, eps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = tiny_pair(tmp_path, eps=eps)
    pairs = looked_at(compare(*paths, CompareSettings()))
    arrived: tuple[StepComparison, ...] = pickle.loads(pickle.dumps(pairs.steps))
    again: tuple[StepComparison, ...] = pickle.loads(pickle.dumps(pairs.steps))

    assert spots(again[0].pairs) == spots(pairs.steps[0].pairs)
    monkeypatch.setattr(judgedpairs, "unpacked", None)
    assert sayings(arrived) == sayings(pairs.steps)
    assert nearest(arrived) == nearest(pairs.steps)


def test_what_is_said_of_arrived_pairs_leaves_out_those_that_others_replace(
    tmp_path: Path,
) -> None:
    paths = tiny_pair(tmp_path, eps=CLOSE)
    (step,) = looked_at(compare(*paths, CompareSettings())).steps
    best = nearest([step])
    place = list(step.pairs).index(best) if best is not None else -1
    others = {place: replace(step.pairs[place], verdict=Verdict.SKIPPED, reason="left out")}
    (arrived,) = pickle.loads(pickle.dumps((step,)))

    expected = replace(step, pairs=tuple(replaced(step.pairs, others)))
    found = replace(arrived, pairs=replaced(arrived.pairs, others))

    assert sayings([found]) == sayings([expected])
    assert spots(found.pairs) == spots(expected.pairs)
    assert nearest([found]) == nearest([expected])


def test_pairs_are_counted_by_what_is_said_of_them() -> None:
    step = step_of(
        pair(INPUT, INPUT),
        pair(OUTPUT, OUTPUT, measured=metrics()),
        pair(OUTPUT, OUTPUT, measured=metrics()),
        pair(OUTPUT, None, Verdict.MISSING),
    )

    assert sayings([step, step]) == Counter(
        {
            Saying(Verdict.MATCH, Evidence.DIGEST, Role.INPUT, is_equal=True): 2,
            Saying(Verdict.MATCH, Evidence.ELEMENTS, Role.OUTPUT, is_equal=False): 4,
            Saying(Verdict.MISSING, Evidence.DESCRIPTION, Role.OUTPUT, is_equal=False): 2,
        }
    )


def test_each_spot_is_given_once_in_the_order_of_the_pairs() -> None:
    found = endpoint("fc", phase=Phase.BACKWARD)
    lost = replace(pair(INPUT, None, Verdict.MISSING), fatal=False)

    assert spots([pair(found, found), lost, pair(OUTPUT, OUTPUT), pair(found, found)]) == [
        Spot(0, Phase.BACKWARD, Verdict.MATCH),
        Spot(0, Phase.FORWARD, Verdict.MISSING, is_argument=True),
        Spot(0, Phase.FORWARD, Verdict.MATCH),
    ]


def test_the_first_of_those_nearest_to_their_tolerance_is_found() -> None:
    far = pair(INPUT, INPUT, measured=needing(0.5))
    near = pair(OUTPUT, OUTPUT, measured=needing(0.9))
    same = pair(INPUT, OUTPUT, measured=needing(0.9))

    assert nearest([step_of(far, near, same)]) is near
    assert nearest([step_of(far), step_of(same), step_of(near)]) is same


def test_no_pair_is_near_that_is_equal_excused_or_diverged() -> None:
    step = step_of(
        pair(INPUT, INPUT),
        pair(INPUT, INPUT, measured=needing(0.9), reason="rounding"),
        pair(OUTPUT, OUTPUT, Verdict.DIVERGED, measured=needing(7.0)),
    )

    assert nearest([step]) is None


def test_what_is_remarkable_comes_in_order_of_the_steps(tmp_path: Path) -> None:
    found = compare(*tiny_pair(tmp_path, weight_change=0.5), CompareSettings())

    remarkable = list(remarkable_pairs(found.steps, lambda said: True))

    diverged = [one for one in found.steps[0].pairs if one.verdict is not Verdict.MATCH]
    assert diverged
    assert [one for one in remarkable if one.verdict is not Verdict.MATCH] == diverged
