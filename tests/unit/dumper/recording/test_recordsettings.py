"""Which steps are recorded, and under which names."""

from __future__ import annotations

import pytest

from padiff.dumper.recording.recordsettings import RecordSettings, StepPlan
from padiff.dumpfile import ConfigError


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (StepPlan(), [0, 1, 2, 3, 4, 5]),
        (StepPlan(steps=frozenset({0, 4})), [0, 4]),
        (StepPlan(every=3), [0, 3]),
        (StepPlan(steps=frozenset({1}), every=4), [0, 1, 4]),
    ],
)
def test_plan_names_its_steps(plan: StepPlan, expected: list[int]) -> None:
    assert [step for step in range(6) if plan.wants(step)] == expected


def test_plan_has_a_last_step_only_without_every() -> None:
    assert StepPlan(steps=frozenset({3, 7})).last == 7
    assert StepPlan(steps=frozenset({3}), every=2).last is None


def test_plan_that_names_no_step_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot record steps none"):
        StepPlan(steps=frozenset())
    with pytest.raises(ConfigError, match="counted from 0"):
        StepPlan(steps=frozenset({-1}))
    with pytest.raises(ConfigError, match="every 0 steps"):
        StepPlan(every=0)


@pytest.mark.parametrize("name", [".net.partial-0123abcd", ".net.old-0123abcd", ".net.lock"])
def test_name_that_padiff_keeps_for_itself_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="kept for what belongs to the dump 'net'"):
        RecordSettings(name=name)
