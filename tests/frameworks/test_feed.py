"""Single-step feeding: each module is judged by itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Kind, compare
from padiff.dumper.feedphase import FeedPhase
from padiff.dumper.inputs import parse_input
from padiff.dumper.recordsettings import RecordSettings
from padiff.dumper.run import RunSettings, run
from padiff.dumper.target import parse_target
from padiff.dumpfile import ConfigError, Phase, open_dump

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADS = {
    "torch": "import torch as f\nfrom torch import nn\nBase = nn.Module\n",
    "paddle": "import paddle as f\nfrom paddle import nn\nBase = nn.Layer\n",
}
BODY = """
class Scale(Base):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by

class Net(Base):
    def __init__(self, one=1.0, two=1.0):
        super().__init__()
        self.a, self.one, self.b = nn.Linear(4, 4), Scale(one), nn.Linear(4, 4)
        self.two, self.c = Scale(two), nn.Linear(4, 3)

    def forward(self, x):
        return self.c(self.two(self.b(self.one(self.a(x)))))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, head in HEADS.items():
        (tmp_path / f"{name}_feed.py").write_text(head + BODY)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((5, 4)))
    yield tmp_path
    for name in HEADS:
        sys.modules.pop(f"{name}_feed", None)


def dumps(
    framework: str, *, phase: FeedPhase | None, two: float = 1.5
) -> tuple[Comparison, tuple[str, ...]]:
    """Compare torch's dump with a candidate that has two faults, fed or not."""
    record = RecordSettings(out=Path("dumps"), name="reference")
    reference = run(
        RunSettings(
            model=parse_target("torch_feed.py:Net"),
            inputs=(parse_input("x.npy"),),
            record=record,
        )
    )
    candidate = run(
        RunSettings(
            model=parse_target(f"{framework}_feed.py:Net", {"one": 1.25, "two": two}),
            inputs=(parse_input("x.npy"),) if phase is None else (),
            weights_from=reference,
            feed=None if phase is None else reference,
            feed_phase=phase or FeedPhase.BOTH,
            record=RecordSettings(out=Path("dumps"), name="candidate"),
        )
    )
    notes = open_dump(candidate).manifest.notes
    return compare(reference, candidate, CompareSettings()), notes


def origins(comparison: Comparison, phase: Phase) -> set[str]:
    found = [one.pair.reference for one in comparison.divergences if one.kind is Kind.ORIGIN]
    phases = [one.phase for one in comparison.divergences if one.kind is Kind.ORIGIN]
    return {
        end.address.module for end, at in zip(found, phases, strict=True) if end and at is phase
    }


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_unfed_run_blames_what_follows_a_fault_too(framework: str) -> None:
    plain, _ = dumps(framework, phase=None)
    names = {one.pair.reference.address.module for one in plain.divergences if one.pair.reference}
    assert {"b", "c"} <= names


@pytest.mark.parametrize("framework", ["torch", "paddle"])
@pytest.mark.parametrize("phase", [FeedPhase.FORWARD, FeedPhase.BOTH])
def test_errors_do_not_add_up(framework: str, phase: FeedPhase) -> None:
    comparison, notes = dumps(framework, phase=phase)

    forward = [one for one in comparison.divergences if one.phase is Phase.FORWARD]
    assert {one.pair.reference.address.module for one in forward if one.pair.reference} == {
        "one",
        "two",
    }
    assert origins(comparison, Phase.FORWARD) == {"one", "two"}
    assert any(note.startswith("fed: 6 outputs") for note in notes)


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_fed_gradients_judge_each_module_by_itself(framework: str) -> None:
    comparison, _ = dumps(framework, phase=FeedPhase.BOTH)

    bad = {
        f"{pair.reference.address.module} {pair.reference.address.role}"
        for pair in comparison.steps[0].pairs
        if pair.fatal and pair.reference is not None
        if pair.reference.address.phase is Phase.BACKWARD
    }
    assert bad == {"one grad_input", "a grad_output", "two grad_input", "b grad_output"}


def test_several_steps_cannot_be_fed() -> None:
    from padiff.dumper.run import TrainSettings  # noqa: PLC0415

    with pytest.raises(ConfigError, match="a fed run is of one step"):
        RunSettings(
            model=parse_target("torch_feed.py:Net"),
            record=RecordSettings(),
            feed=Path("dump"),
            train=TrainSettings(steps=2),
        )
