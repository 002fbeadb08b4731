"""Objects made column by column are those that the constructor makes."""

from __future__ import annotations

import gc
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from padiff.dumpfile import Phase, RecordInfo, Role, SourceLine, bulk
from padiff.dumpfile.bulk import build_all, collector_paused


def test_objects_equal_those_of_the_constructor() -> None:
    made = build_all(
        RecordInfo,
        2,
        same={"phase": Phase.FORWARD, "role": Role.INPUT, "slot": ""},
        id=range(2),
        module=[0, 1],
        call=[3, 4],
        order=[5, 6],
        shape=[(1,), ()],
        value=[None, 7],
    )

    assert made[1] == RecordInfo(
        id=1,
        module=1,
        call=4,
        phase=Phase.FORWARD,
        role=Role.INPUT,
        slot="",
        order=6,
        shape=(),
        value=7,
    )
    assert hash(made[0]) != hash(made[1])


def test_nothing_is_made_of_no_rows() -> None:
    assert build_all(SourceLine, 0, file=[], line=[]) == []


@pytest.mark.parametrize(
    "columns",
    [
        {"file": ["a.py", "b.py"], "line": [1]},
        {"file": ["a.py", "b.py"]},
        {"file": ["a.py", "b.py"], "line": [1, 2], "column": [1, 2]},
    ],
    ids=["short column", "missing field", "unknown field"],
)
def test_columns_that_do_not_fit_are_refused(columns: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        build_all(SourceLine, 2, **columns)


def test_collector_does_not_make_up_for_a_pause() -> None:
    before = gc.get_stats()[0]["collections"]

    with collector_paused():
        kept = [[number] for number in range(10_000)]

    assert gc.get_stats()[0]["collections"] == before
    assert len(kept) > gc.get_threshold()[0]


def test_collector_is_as_before_after_a_pause() -> None:
    was_enabled = gc.isenabled()

    with collector_paused(), collector_paused():
        assert not gc.isenabled()

    assert gc.isenabled() is was_enabled


def test_objects_that_the_program_froze_are_counted_once_and_stay_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def count() -> int:
        asked.append("count")
        return 1

    monkeypatch.setattr(bulk, "_frozen", [])
    monkeypatch.setattr(gc, "get_freeze_count", count)
    monkeypatch.setattr(gc, "unfreeze", lambda: asked.append("unfreeze"))

    for _ in range(3):
        with collector_paused():
            pass

    assert asked == ["count"]


def test_what_is_made_is_frozen_and_of_the_class_itself() -> None:
    made = build_all(SourceLine, 2, same={"file": "a.py"}, line=[1, 2])

    assert [type(one) for one in made] == [SourceLine, SourceLine]
    assert repr(made[1]) == "SourceLine(file='a.py', line=2, function='')"
    with pytest.raises(FrozenInstanceError):
        made[0].line = 3  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(made)) == made


def test_objects_of_constants_alone_are_as_many_as_asked_for() -> None:
    assert (
        build_all(SourceLine, 3, same={"file": "a.py", "line": 1})
        == [SourceLine(file="a.py", line=1)] * 3
    )
