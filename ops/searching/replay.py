"""Runs stored cases again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

from .running import run_case
from .search import Searched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.ops.cases import Case
    from padiff.ops.judging import Judgement
    from padiff.ops.table import Operators

    from .running import Pair


def replay(cases: Sequence[Case], table: Operators, pair: Pair) -> list[Searched]:
    """Run cases as they are.

    Raises:
        ConfigError: The table has no such operator, or it takes no such arguments.
    """
    rows = {name: table.select((name,))[0] for name in dict.fromkeys(c.operator for c in cases)}

    def run(case: Case) -> Judgement:
        return run_case(rows[case.operator], case, pair)

    return searched_of(cases, run)


def searched_of(cases: Sequence[Case], run: Callable[[Case], Judgement]) -> list[Searched]:
    """Judge cases one by one and sort what is found by operator.

    Raises:
        ConfigError: There is no case.
    """
    if not cases:
        raise ConfigError("cannot run cases: expected at least one, found none")
    found: dict[str, Searched] = {}
    for case in cases:
        one = found.setdefault(case.operator, Searched(operator=case.operator))
        one.add(case, run(case))
    return list(found.values())
