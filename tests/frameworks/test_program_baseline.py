"""A baseline of a program and digests: its values are computed again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import CompareSettings, compare
from padiff.comparer.proving import Answer, Edit
from padiff.comparer.report.fault_words import worded_edit
from padiff.comparer.report.wording import match_words
from padiff.comparer.result import Verdict
from padiff.dumpfile import ConfigError, Content, LeafKind, open_dump
from padiff.program import read_program

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.result import Comparison


class Net(nn.Module):
    """A block whose residual sum can be written in two orders, and scaled."""

    def __init__(self, *, is_turned: bool = False, scale: float = 1.0, drop: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.norm, self.drop = nn.Linear(32, 64), nn.LayerNorm(64), nn.Dropout(drop)
        self.mix, self.out = nn.Linear(64, 64), nn.Linear(64, 8)
        self.kinds = {(is_turned, scale)}  # a set: the recorder takes it for no attribute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ((is_turned, scale),) = self.kinds
        hidden = self.norm(self.into(x))
        one, two = self.mix(hidden), self.drop(torch.tanh(hidden))
        total = two + (hidden + one) if is_turned else (two + hidden) + one
        out: torch.Tensor = self.out(total * 1e3) * scale
        return out


def recorded(model: nn.Module, folder: Path, name: str, content: str = "full") -> Path:
    torch.manual_seed(0)
    x = torch.linspace(-2, 2, 16 * 32).sin().reshape(16, 32)
    with padiff.record(model, name=name, out=folder, content=content) as recorder:
        model(x).square().mean().backward()
    assert recorder.path is not None
    return recorder.path


def trained(model: nn.Module, folder: Path, name: str, content: str = "full") -> Path:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    with padiff.record(model, name=name, out=folder, content=content, optimizer=optimizer) as made:
        for number in range(3):
            optimizer.zero_grad()
            x = (torch.linspace(-2, 2, 16 * 32) + number).sin().reshape(16, 32)
            model(x).square().mean().backward()
            optimizer.step()
            made.step()
    assert made.path is not None
    return made.path


def size_of(dump: Path) -> int:
    return sum(file.stat().st_size for file in dump.rglob("*") if file.is_file())


def judged(reference: Path, candidate: Path) -> Comparison:
    return compare(reference, candidate, CompareSettings())


def test_the_baseline_keeps_what_no_candidate_has(tmp_path: Path) -> None:
    path = recorded(Net(drop=0.5), tmp_path, "small", "program")

    with open_dump(path).open(0, 0) as step:
        program = read_program(step)
        assert program is not None
        values = step.index.values
        kept = {
            one.kind
            for one in program.program.values
            if one.kind is not None and program.has_elements(one.id)
        }
        large = [one for one in values if one.content is Content.FULL and one.size > 16]
    assert {LeafKind.INPUT, LeafKind.RANDOM} <= kept
    assert len(large) == 2  # the input and what dropout drew, no weight
    assert size_of(path) < size_of(recorded(Net(drop=0.5), tmp_path, "whole")) / 2


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_another_order_of_sums_is_the_same(drop: float, tmp_path: Path) -> None:
    baseline = recorded(Net(drop=drop), tmp_path, "small", "program")

    turned = recorded(Net(is_turned=True, drop=drop), tmp_path, "turned")
    found = judged(baseline, turned)

    assert found.verdict is Verdict.MATCH, found.reasons
    words = match_words(found.scope)
    assert words.startswith("MATCH: 1 output")
    assert words.endswith("sound execution of the candidate, the reference computed again")


def test_a_fault_below_what_statistics_see_is_proved(tmp_path: Path) -> None:
    baseline = recorded(Net(), tmp_path, "small", "program")

    found = judged(baseline, recorded(Net(scale=1.00002), tmp_path, "scaled"))

    assert found.verdict is Verdict.DIVERGED
    (edit,) = (one for one in found.origins[0].faults if isinstance(one, Edit))
    assert "1.00002 where the reference has 1" in worded_edit(edit)


def test_a_weight_that_is_not_the_same_is_an_origin(tmp_path: Path) -> None:
    baseline = recorded(Net(), tmp_path, "small", "program")
    other = Net()
    with torch.no_grad():
        other.mix.weight[3, 4] = torch.nextafter(other.mix.weight[3, 4], torch.tensor(9.0))

    found = judged(baseline, recorded(other, tmp_path, "other"))

    executed = found.steps[0].executed
    assert executed is not None
    assert executed.function.answer is Answer.SAME
    (leaf,) = executed.function.differences
    assert (leaf.candidate, leaf.largest) == ("mix.weight", None)
    assert found.verdict is Verdict.DIVERGED


def test_training_is_judged_step_by_step(tmp_path: Path) -> None:
    first = Net()
    baseline = trained(copy.deepcopy(first), tmp_path, "small", "program")

    right = judged(baseline, trained(Net(is_turned=True), tmp_path, "turned"))
    wrong = judged(baseline, trained(Net(scale=1.001), tmp_path, "scaled"))

    assert right.verdict is Verdict.MATCH, right.reasons
    assert right.scope.proven == right.scope.recomputed == 3
    assert wrong.verdict is Verdict.DIVERGED


def test_a_baseline_to_compute_again_needs_a_program(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without a program"):
        padiff.record(Net(), out=tmp_path, content="program", program=False)
