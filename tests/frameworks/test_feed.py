"""Single-step feeding: each module is judged by itself."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Kind, compare
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.feedphase import FeedPhase
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import ConfigError, Phase, Role, open_dump

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


SHAPES = """
import collections
import dataclasses


@dataclasses.dataclass
class Pair:
    one: object
    two: object


class Parts(Base):
    def __init__(self, by=1.0):
        super().__init__()
        self.a, self.by = nn.Linear(4, 4), by

    def forward(self, x):
        y = self.a(x)
        return collections.OrderedDict(first=Pair(y * self.by, [y + self.by]), second=None)


class Inner(Base):
    def __init__(self, by=1.0, width=4):
        super().__init__()
        self.parts, self.act, self.out = Parts(by), INPLACE, nn.Linear(4, 4)
        self.extra = nn.Linear(4, width)
        self.alias = self.out

    def forward(self, x):
        found = self.parts(x)["first"]
        hidden = self.act(self.alias(found.one))
        hidden = self.act(self.out(hidden)) + found.two[0]
        return hidden.mean() + self.extra(x).mean()
"""
INPLACE = {"torch": "nn.ReLU(inplace=True)", "paddle": "nn.ReLU()"}


def recorded(framework: str, name: str, **options: Any) -> Path:  # noqa: ANN401
    """Dump the model with containers, a shared layer and an activation that works in place."""
    body = SHAPES.replace("INPLACE", INPLACE[framework])
    Path(f"{framework}_feed.py").write_text(HEADS[framework] + body)
    sys.modules.pop(f"{framework}_feed", None)
    arguments = options.pop("arguments", {})
    inputs = () if "feed" in options else (parse_input("x.npy"),)
    return run(
        RunSettings(
            model=parse_target(f"{framework}_feed.py:Inner", arguments),
            inputs=inputs,
            record=RecordSettings(out=Path("dumps"), name=name),
            **options,
        )
    )


def feed_of(dump: Path) -> dict[str, Any]:
    told = open_dump(dump).manifest.settings["feed"]
    assert isinstance(told, dict)
    return told


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_containers_shared_layers_and_repeated_calls_are_fed(framework: str) -> None:
    reference = recorded("torch", "reference")
    fault = {"by": 1.5}

    candidate = recorded(
        framework, "candidate", weights_from=reference, feed=reference, arguments=fault
    )

    comparison = compare(reference, candidate, CompareSettings())
    assert feed_of(candidate)["unfed"] == []
    # parts (2), a, out twice, act twice, extra and the root
    assert feed_of(candidate)["outputs"] == 9
    assert origins(comparison, Phase.FORWARD) == {"parts"}
    assert origins(comparison, Phase.BACKWARD) == set()


def test_nan_does_not_reach_the_next_module() -> None:
    reference = recorded("torch", "reference")

    candidate = recorded(
        "torch",
        "candidate",
        weights_from=reference,
        feed=reference,
        arguments={"by": float("nan")},
    )

    comparison = compare(reference, candidate, CompareSettings())
    forward = [one for one in comparison.divergences if one.phase is Phase.FORWARD]
    names = {one.pair.reference.address.module for one in forward if one.pair.reference}
    assert names == {"parts"}


def test_what_has_no_partner_or_another_shape_is_listed_and_runs_unfed() -> None:
    reference = recorded("torch", "reference")

    candidate = recorded(
        "torch",
        "candidate",
        weights_from=reference,
        weights_strict=False,
        feed=reference,
        arguments={"width": 5},
    )

    unfed = feed_of(candidate)["unfed"]
    assert [(one["module"], one["call"]) for one in unfed] == [("extra", 0)]
    notes = " ".join(open_dump(candidate).manifest.notes)
    assert "these ran unfed: extra (" in notes
    comparison = compare(reference, candidate, CompareSettings())
    assert any("these calls ran unfed: extra" in note for note in comparison.notes)


CHECKPOINTED = """
class Checkpointed(Base):
    def __init__(self, by=1.0, use_reentrant=None, times=1):
        super().__init__()
        self.a, self.one, self.b = nn.Linear(4, 4), Scale(by), nn.Linear(4, 4)
        self.two, self.c, self.how = Scale(by), nn.Linear(4, 3), use_reentrant
        self.times = times

    def inside(self, x):
        return self.two(self.b(self.one(x)).tanh())

    def forward(self, x):
        x = self.a(x)
        for _ in range(self.times):
            if self.how is None:
                x = self.inside(x)
            else:
                x = RUN(self.inside, x, use_reentrant=self.how)
        return self.c(x)
"""
RUNS = {"torch": "f.utils.checkpoint.checkpoint", "paddle": "f.distributed.fleet.utils.recompute"}


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_calls_that_checkpointing_runs_again_are_fed_what_the_first_run_was(
    framework: str, use_reentrant: bool, times: int
) -> None:
    for name, head in HEADS.items():
        text = head + BODY + CHECKPOINTED.replace("RUN", RUNS[name])
        more = "import torch.utils.checkpoint\n" if name == "torch" else ""
        Path(f"{name}_feed.py").write_text(more + text)
    record = RecordSettings(out=Path("dumps"), name="reference")
    reference = run(
        RunSettings(
            model=parse_target("torch_feed.py:Checkpointed", {"times": times}),
            inputs=(parse_input("x.npy"),),
            record=record,
        )
    )

    candidate = run(
        RunSettings(
            model=parse_target(
                f"{framework}_feed.py:Checkpointed",
                {"by": 1.5, "use_reentrant": use_reentrant, "times": times},
            ),
            weights_from=reference,
            feed=reference,
            record=RecordSettings(out=Path("dumps"), name="candidate"),
        )
    )

    comparison = compare(reference, candidate, CompareSettings())
    assert origins(comparison, Phase.FORWARD) == {"one", "two"}
    bad = {
        f"{pair.reference.address.module} {pair.reference.address.role}"
        for pair in comparison.steps[0].pairs
        if pair.fatal and pair.reference is not None
        if pair.reference.address.role is Role.WEIGHT_GRAD
    }
    assert bad == set()  # b was fed inside the second run too
    again = {
        call.index: call.recomputed
        for call in open_dump(candidate).open().index.calls
        if call.module == 2
    }
    assert again == dict.fromkeys(range(times), 1)


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_each_of_several_steps_is_fed(framework: str) -> None:
    def train(name: str, framework: str, **options: Any) -> Path:  # noqa: ANN401
        by = options.pop("by", 1.0)
        optimizer = parse_target(f"{framework}.optim{'izer' * (framework == 'paddle')}:SGD")
        rate = {"torch": "lr", "paddle": "learning_rate"}[framework]
        optimizer = dataclasses.replace(optimizer, arguments={rate: 0.1})
        return run(
            RunSettings(
                model=parse_target(f"{framework}_feed.py:Net", {"two": by}),
                inputs=() if "feed" in options else (parse_input("x.npy"),),
                record=RecordSettings(out=Path("dumps"), name=name),
                train=TrainSettings(steps=3, optimizer=optimizer),
                **options,
            )
        )

    reference = train("reference", "torch")

    candidate = train("candidate", framework, weights_from=reference, feed=reference, by=1.5)

    comparison = compare(reference, candidate, CompareSettings())
    assert [step.step for step in comparison.steps] == [0, 1, 2]
    for step in comparison.steps:
        forward = [one for one in step.divergences if one.phase is Phase.FORWARD]
        found = {
            (one.pair.reference.address.module, one.kind) for one in forward if one.pair.reference
        }
        assert found == {("two", Kind.ORIGIN)}
    assert "in each of 3 steps" in " ".join(open_dump(candidate).manifest.notes)
    assert [note for note in comparison.notes if "judged by itself" in note]


def test_backward_cannot_be_fed_where_it_does_not_run() -> None:
    with pytest.raises(ConfigError, match="--feed-phase backward with --phase forward"):
        RunSettings(
            model=parse_target("torch_feed.py:Net"),
            record=RecordSettings(phase=Phase.FORWARD),
            feed=Path("dump"),
            feed_phase=FeedPhase.BACKWARD,
        )


def test_a_step_that_the_reference_lacks_is_refused() -> None:
    reference = recorded("torch", "reference")

    with pytest.raises(ConfigError, match="found none of number 1"):
        recorded("torch", "candidate", feed=reference, train=TrainSettings(steps=2))
