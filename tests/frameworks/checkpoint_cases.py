"""Facts about activation checkpointing that hold whatever the framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

import padiff
from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumpfile import Phase
from tests.frameworks.recorder_cases import some
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.recording import Lab, Thing

KINDS = {"nothing": None, "reentrant": True, "not reentrant": False}


class CheckpointCases:
    """What ``padiff.record`` makes of calls that run again."""

    lab: ClassVar[Lab]

    def recorded(self, tmp_path: Path, kind: str, forward: Callable[..., Thing]) -> Path:
        """Record one step of a model whose ``forward`` gets a function to run parts with."""
        lab, reentrant = self.lab, KINDS[kind]

        def around(part: Callable[..., Any], x: Thing) -> Thing:
            return part(x) if reentrant is None else lab.checkpoint(part, x, reentrant=reentrant)

        lab.seed(0)
        inner = lab.module(
            lambda self, x: self.g(self.f(x)), f=lab.nn.Linear(3, 3), g=lab.nn.Tanh()
        )
        model = lab.module(
            lambda self, x: self.last(forward(self, x, around)),
            first=lab.nn.Linear(3, 3),
            inner=inner,
            last=lab.nn.Linear(3, 2),
        )
        with padiff.record(model, name=kind, out=tmp_path) as recorder:
            lab.mean(model(lab.tensor(some(4, 3)))).backward()
        return recorder.path

    @pytest.mark.parametrize("kind", ["reentrant", "not reentrant"])
    def test_calls_that_run_again_are_recorded_once(self, tmp_path: Path, kind: str) -> None:
        def forward(model: Thing, x: Thing, around: Callable[..., Thing]) -> Thing:
            return around(model.inner, model.first(x))

        path = self.recorded(tmp_path, kind, forward)

        got = Recorded.read(path)
        assert got.calls() == ["#0", "first#0", "inner#0", "inner.f#0", "inner.g#0", "last#0"]
        (note,) = got.manifest.notes
        assert note.startswith("3 calls ran again inside the backward pass (checkpointing of inner")
        assert [call.recomputed for call in got.index.calls] == [0, 0, 1, 1, 1, 0]
        plain = self.recorded(tmp_path, "nothing", forward)
        assert self.gradients(path) == self.gradients(plain)
        comparison = compare(plain, path, CompareSettings())
        assert comparison.verdict is Verdict.MATCH, comparison.reasons

    @pytest.mark.parametrize("kind", ["reentrant", "not reentrant"])
    def test_gradients_of_two_repetitions_are_not_exchanged(
        self, tmp_path: Path, kind: str
    ) -> None:
        def forward(model: Thing, x: Thing, around: Callable[..., Thing]) -> Thing:
            once = around(model.inner, model.first(x))
            return around(lambda x: model.inner(model.inner(x)), once)

        path = self.recorded(tmp_path, kind, forward)

        plain = self.recorded(tmp_path, "nothing", forward)
        assert self.gradients(path) == self.gradients(plain)
        index = Recorded.read(path).index
        again = [
            call.recomputed
            for call in index.calls
            if index.modules[call.module].path.startswith("inner")
        ]
        assert again == [1] * 9

    @staticmethod
    def gradients(path: Path) -> dict[str, bytes]:
        got = Recorded.read(path)
        return {
            f"{item.module} {item.call} {item.role}{item.slot}": np.round(
                got.arrays[item.id], 6
            ).tobytes()
            for item in got.index.records
            if item.phase is Phase.BACKWARD and item.id in got.arrays
        }
