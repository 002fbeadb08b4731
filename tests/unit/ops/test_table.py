"""Every row draws cases that are valid as data, and that its oracle can read."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings

from padiff.dumpfile import ConfigError
from padiff.ops.cases import case_from_json, case_to_json
from padiff.ops.searching import cases_of
from padiff.ops.table import TABLE
from padiff.ops.workers import request_of


@pytest.mark.parametrize("name", TABLE)
def test_row_draws_cases_that_become_calls_of_both_frameworks(name: str) -> None:
    row = TABLE[name]

    @settings(
        max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(cases_of(row))
    def each(case: object) -> None:
        again = case_from_json(json.loads(json.dumps(case_to_json(case))), "it")  # type: ignore[arg-type]
        assert repr(again) == repr(case)
        for difference in row.frameworks.values():
            request = request_of(again, difference.call(again))
            json.dumps(dict(request.keywords), allow_nan=False)

    each()


def test_an_unknown_operator_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as found:
        TABLE.select(("sofmax",))

    assert "softmax" in str(found.value.hint)
