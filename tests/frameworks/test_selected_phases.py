"""A phase that is asked for alone is judged in the light of the phases before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import padiff
from padiff.comparer import CompareSettings, Kind, Verdict, compare
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer import Comparison, Divergence

INPUT = np.random.default_rng(3).standard_normal((4, 8)).astype(np.float32)
BACKWARD = CompareSettings(phases=(Phase.BACKWARD,))


class Doubled(torch.autograd.Function):
    """Gives what it is given, and back twice the gradient."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return gradient * 2


class Chain(torch.nn.Module):
    def __init__(self, *, eps: float = 1e-5, doubled: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.doubled = doubled
        self.a, self.n = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8, eps=eps)
        self.b, self.c = Twice(doubled=doubled), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.c(self.b(self.n(self.a(x))))
        return made


class Twice(torch.nn.Module):
    def __init__(self, *, doubled: bool) -> None:
        super().__init__()
        self.doubled, self.weight = doubled, torch.nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = torch.tanh(x * self.weight)
        return Doubled.apply(made) if self.doubled else made  # type: ignore[no-untyped-call]


def record(folder: Path, name: str, model: torch.nn.Module, *, phase: str = "backward") -> Path:
    with padiff.record(model, name=name, out=folder, phase=phase) as recorder:
        made = model(torch.from_numpy(INPUT))
        if phase == "backward":
            (made**2).mean().backward()
    assert recorder.path is not None
    return recorder.path


def compared(folder: Path, candidate: torch.nn.Module, settings: CompareSettings) -> Comparison:
    paths = record(folder, "reference", Chain()), record(folder, "candidate", candidate)
    return compare(*paths, settings)


def named(found: Divergence | None) -> tuple[str, Kind]:
    assert found is not None
    assert found.pair.reference is not None
    return found.pair.reference.address.module, found.kind


def test_gradients_of_values_that_diverged_are_inherited(tmp_path: Path) -> None:
    found = compared(tmp_path, Chain(eps=1e-1), BACKWARD)

    assert found.verdict is Verdict.DIVERGED
    assert found.origins == ()
    assert {one.phase for one in found.divergences} == {Phase.BACKWARD}
    assert {
        one.pair.reference.address.phase for one in found.divergences if one.pair.reference
    } == {Phase.BACKWARD}
    assert found.first_divergence is not None
    assert found.first_divergence.evidence[0] == (
        "the forward pass diverged first, at n output: run without --phase"
    )


def test_records_of_an_earlier_phase_are_not_reported(tmp_path: Path) -> None:
    found = compared(tmp_path, Chain(eps=1e-1), BACKWARD)

    (step,) = found.steps
    phases = {(pair.reference or pair.candidate).address.phase for pair in step.pairs}  # type: ignore[union-attr]
    assert phases == {Phase.BACKWARD}
    assert len(step.records) == len(step.pairs)
    assert not any(row.origin for row in step.tree)
    assert not any("which is no origin" in note for note in step.notes)


def test_fault_of_the_backward_pass_alone_is_an_origin(tmp_path: Path) -> None:
    found = compared(tmp_path, Chain(doubled=True), BACKWARD)

    assert [named(one) for one in found.origins] == [("b", Kind.ORIGIN)]
    assert not any("diverged first" in line for one in found.divergences for line in one.evidence)


def test_gradients_that_agree_after_a_forward_pass_that_does_not_have_a_note(
    tmp_path: Path,
) -> None:
    class Shifted(Chain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 1

    def recorded(name: str, model: torch.nn.Module) -> Path:
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(torch.from_numpy(INPUT)).mean().backward()
        assert recorder.path is not None
        return recorder.path

    found = compare(recorded("reference", Chain()), recorded("candidate", Shifted()), BACKWARD)

    assert found.divergences == ()
    assert "the forward pass diverged first, at (root) output: run without --phase" in (
        found.steps[0].notes
    )


@pytest.mark.parametrize("phase", ["both", "backward"])
def test_auto_diff_names_the_forward_pass(phase: str) -> None:
    x = torch.from_numpy(INPUT)

    result = padiff.auto_diff(
        Chain(), Chain(eps=1e-1), ({"x": x}, {"x": x}), diff_phase=phase, quiet=True
    )

    origins = [named(one) for one in result.origins]
    assert origins == ([("n", Kind.ORIGIN)] if phase == "both" else [])


@pytest.mark.parametrize("lacking", ["reference", "candidate"])
@pytest.mark.parametrize("how", ["phase", "no call of backward"])
def test_phase_that_one_side_did_not_record_is_skipped_with_a_note(
    lacking: str, how: str, tmp_path: Path
) -> None:
    paths = []
    for name in ("reference", "candidate"):
        is_lacking = name == lacking
        phase = "forward" if is_lacking and how == "phase" else "backward"
        model = Chain()
        with padiff.record(model, name=name, out=tmp_path, phase=phase) as recorder:
            made = model(torch.from_numpy(INPUT))
            if not is_lacking:
                (made**2).mean().backward()
        assert recorder.path is not None
        paths.append(recorder.path)

    found = compare(paths[0], paths[1], CompareSettings())

    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())
    assert found.divergences == ()
    other = "candidate" if lacking == "reference" else "reference"
    assert found.steps[0].notes == (
        f"loss and backward phase are not compared: only the {other} recorded them",
    )


def test_output_without_gradient_is_still_a_fault(tmp_path: Path) -> None:
    class Detached(Chain):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).detach()

    reference = record(tmp_path, "reference", Chain())
    model = Detached()
    with padiff.record(model, name="candidate", out=tmp_path) as recorder:
        model(torch.from_numpy(INPUT))
    assert recorder.path is not None

    assert compare(reference, recorder.path, CompareSettings()).verdict is Verdict.DIVERGED


@pytest.mark.parametrize(
    ("eps", "doubled", "verdict"),
    [(1e-5, False, "match"), (1e-5, True, "match"), (2e-5, False, "diverged")],
)
def test_the_forward_pass_alone_is_executed(
    *, eps: float, doubled: bool, verdict: str, tmp_path: Path
) -> None:
    reference = record(tmp_path, "reference", Chain())
    candidate = record(tmp_path, "candidate", Chain(eps=eps, doubled=doubled))

    found = compare(reference, candidate, CompareSettings(phases=(Phase.FORWARD,)))

    assert found.verdict == verdict
    assert found.scope.proven == (verdict == "match")
    (step,) = found.steps
    assert step.executed is not None
    assert step.executed.unsound == (None, None)
    assert all(one.faults for one in found.origins)
    assert {pair.end.address.phase for pair in step.pairs} == {Phase.FORWARD}
