"""The verdict rests on execution: what rounding explains, what it finds, what tolerances loosen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.comparer import CompareSettings
from padiff.comparer.faults import locate_by_execution
from padiff.comparer.judging.rejudge import rejudge
from padiff.comparer.locating.locate import Located
from padiff.comparer.proving import Edit, LeafDifference, UnsoundValue, UpdateDifference
from padiff.comparer.result import Kind
from padiff.dumpfile import Phase, Role

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[[], nn.Module]


class Steep(nn.Module):
    """Sums, in the order that is asked for, and blows their rounding up."""

    def __init__(self, *, is_turned: bool) -> None:
        super().__init__()
        self.first, self.second, self.large = nn.Linear(16, 16), nn.Linear(16, 16), nn.Identity()
        self.is_turned = is_turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two = self.first(x), self.second(x)
        total = one + (two + x) if self.is_turned else (one + two) + x
        return torch.sin(self.large(total * 1e4))


class Block(nn.Module):
    """A norm between two layers."""

    def __init__(self, eps: float = 1e-5, scale: float = 1.0) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(8, 8), nn.LayerNorm(8, eps=eps)
        self.last, self.scale = nn.Linear(8, 3), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.last(torch.tanh(self.norm(self.first(x))) * self.scale)
        return found


class Positions(nn.Module):
    """Adds sums of numbers that nothing learns, cut off from the graph or not; then it is steep."""

    def __init__(self, *, is_turned: bool, cuts: bool) -> None:
        super().__init__()
        self.first, self.second, self.large = nn.Linear(16, 16), nn.Linear(16, 16), nn.Identity()
        self.table: torch.Tensor
        self.register_buffer("table", torch.linspace(-1, 1, 16))
        self.is_turned, self.cuts = is_turned, cuts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = self.table.sin() * 0.5
        added = table.detach() if self.cuts else table
        one, two = self.first(x), self.second(x)
        total = one + (two + added) if self.is_turned else (one + two) + added
        return torch.sin(self.large(total * 1e4))


class _Cut(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return x * 2

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return gradient * 2.002


class Wrong(Block):
    """The same function with a gradient of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = _Cut.apply(torch.tanh(self.norm(self.first(x))))  # type: ignore[no-untyped-call]
        found: torch.Tensor = self.last(hidden * 0.5)
        return found


def dumps(tmp_path: Path, *models: Make, width: int = 8) -> list[Path]:
    paths = []
    for number, make in enumerate(models):
        torch.manual_seed(0)
        model = make()
        torch.manual_seed(1)
        with padiff.record(model, name=f"model{number}", out=tmp_path) as recorder:
            model(torch.randn(4, width)).square().mean().backward()
        assert recorder.path is not None
        paths.append(recorder.path)
    return paths


def test_rounding_that_grows_is_explained_and_no_divergence(tmp_path: Path) -> None:
    one, two = dumps(
        tmp_path, lambda: Steep(is_turned=False), lambda: Steep(is_turned=True), width=16
    )

    by_tolerance = padiff.compare(one, two, execute=False)
    found = padiff.compare(one, two)

    assert by_tolerance.verdict == "diverged"
    assert found.verdict == "match"
    assert any(pair.by_execution for pair in found.steps[0].pairs)
    assert found.scope.proven == found.scope.steps == 1


@pytest.mark.parametrize("cuts", [False, True])
def test_what_no_gradient_would_flow_through_may_be_cut_off(cuts: bool, tmp_path: Path) -> None:
    one, two = dumps(
        tmp_path,
        lambda: Positions(is_turned=False, cuts=cuts),
        lambda: Positions(is_turned=True, cuts=cuts),
        width=16,
    )

    backward = [
        pair
        for pair in padiff.compare(one, two, execute=False).steps[0].pairs
        if pair.end.address.phase is Phase.BACKWARD and pair.verdict == "diverged"
    ]

    assert backward
    assert padiff.compare(one, two).verdict == "match"


class Stable(nn.Module):
    """A softmax by hand, whose maximum is cut off, or the rest of it."""

    def __init__(self, *, cuts_rest: bool = False) -> None:
        super().__init__()
        self.first, self.last, self.cuts_rest = nn.Linear(8, 8), nn.Linear(8, 3), cuts_rest

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x) * 8
        most = x.amax(-1, keepdim=True)
        x = x.detach() - most if self.cuts_rest else x - most.detach()
        found: torch.Tensor = self.last(x.exp() / x.exp().sum(-1, keepdim=True))
        return found


def _stable(tmp_path: Path, name: str, dtype: torch.dtype, **options: bool) -> Path:
    torch.manual_seed(0)
    model = Stable(**options).to(dtype)
    with padiff.record(model, name=name, out=tmp_path) as recorder:
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
        model(x.to(dtype)).float().square().mean().backward()
    assert recorder.path is not None
    return recorder.path


def test_what_both_sides_cut_off_alike_rounds_as_all_else(tmp_path: Path) -> None:
    one = _stable(tmp_path, "reference", torch.float32)
    two = _stable(tmp_path, "candidate", torch.bfloat16)

    assert padiff.compare(one, two, execute=False).verdict == "diverged"
    assert padiff.compare(one, two).verdict == "match"


def test_sides_that_cut_off_another_part_diverge(tmp_path: Path) -> None:
    one = _stable(tmp_path, "reference", torch.float32)
    two = _stable(tmp_path, "candidate", torch.float32, cuts_rest=True)

    assert padiff.compare(one, two).verdict == "diverged"


def test_both_tolerances_are_the_rule_of_numpy_and_explain_nothing(tmp_path: Path) -> None:
    one, two = dumps(
        tmp_path, lambda: Steep(is_turned=False), lambda: Steep(is_turned=True), width=16
    )

    assert padiff.compare(one, two, atol=1e-6, rtol=1e-6).verdict == "diverged"
    assert padiff.compare(one, two, atol=3.0, rtol=0.0).verdict == "match"


@pytest.mark.parametrize(
    ("atol", "rtol", "code"),
    [(None, None, 0), (1e-9, None, 0), (None, 1e-9, 2), (1e-6, 1e-6, 1), (3.0, 0.0, 0)],
)
def test_what_execution_explained_stays_so_in_a_report_unless_both_tolerances_are_given(
    atol: float | None, rtol: float | None, code: int, tmp_path: Path
) -> None:
    one, two = dumps(
        tmp_path, lambda: Steep(is_turned=False), lambda: Steep(is_turned=True), width=16
    )

    again = rejudge(padiff.compare(one, two), atol=atol, rtol=rtol)

    assert bool(again.reasons) is (code == 1)
    assert bool(again.undecided) is (code == 2)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 1),
        (["--no-execute"], 0),
        (["--atol", "1e-3"], 0),
        (["--atol", "1e-9"], 1),
        (["--atol", "1e-3", "--rtol", "0"], 0),
        (["--include", "norm"], 0),
    ],
    ids=["default", "not executed", "atol", "no atol to speak of", "both", "a part"],
)
def test_a_difference_below_the_tolerances_diverges_unless_it_is_accepted(
    options: list[str], code: int, tmp_path: Path
) -> None:
    one, two = dumps(tmp_path, Block, lambda: Block(scale=1.000003))

    assert main(["compare", str(one), str(two), "--quiet", *options]) == code


def test_an_accepted_difference_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = dumps(tmp_path, Block, lambda: Block(eps=1e-3))

    code = main(["compare", str(one), str(two), "--atol", "0.1"])

    assert code == 0
    text = " ".join(capsys.readouterr().out.split())  # long lines are folded
    assert "gradients agree within the tolerances, but the programs differ" in text
    assert "eps of layer_norm: 0.001 where the reference has 1e-05" in text


def test_the_origin_is_the_module_of_the_proved_edit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = dumps(tmp_path, Block, lambda: Block(eps=1e-3))

    found = padiff.compare(one, two)
    main(["compare", str(one), str(two), "--json", "-"])
    data = json.loads(capsys.readouterr().out)

    (origin,) = found.origins
    assert origin.pair.reference is not None
    assert origin.pair.reference.address.module == "norm"
    (edit,) = origin.faults
    assert isinstance(edit, Edit)
    assert edit.changes[0].name == "eps"
    assert found.steps[0].tree[2].origin
    (fault,) = data["origins"][0]["faults"]
    assert (fault["type"], fault["kind"]) == ("edit", "argument")
    assert fault["changes"] == [{"name": "eps", "known": 1e-05, "found": 0.001}]
    assert fault["influence"]["relative_l2"] > 0


def test_another_weight_is_an_origin_beside_another_function(tmp_path: Path) -> None:
    def other() -> nn.Module:
        model = Block(eps=1e-3)
        with torch.no_grad():
            model.last.weight[0, 0] += 0.5
        return model

    one, two = dumps(tmp_path, Block, other)

    found = padiff.compare(one, two)

    faults = {
        one.pair.reference.address.module: type(one.faults[0])
        for one in found.origins
        if one.pair.reference is not None
    }
    assert faults == {"norm": Edit, "last": LeafDifference}


def test_a_gradient_that_its_program_contradicts_is_an_origin_of_the_backward_pass(
    tmp_path: Path,
) -> None:
    one, two = dumps(tmp_path, Block, Wrong)

    found = padiff.compare(one, two)

    assert found.verdict == "diverged"
    assert {one.phase for one in found.origins} == {Phase.BACKWARD}
    (fault,) = found.origins[0].faults
    assert isinstance(fault, UnsoundValue)
    assert fault.is_candidate


def test_another_update_is_an_origin_with_its_proof(tmp_path: Path) -> None:
    paths = []
    for name, rate in (("reference", 0.1), ("candidate", 0.1001)):
        torch.manual_seed(0)
        model = Block()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        with padiff.record(model, name=name, out=tmp_path, optimizer=optimizer) as recorder:
            model(torch.ones(2, 8)).square().mean().backward()
            optimizer.step()
        assert recorder.path is not None
        paths.append(recorder.path)

    found = padiff.compare(paths[0], paths[1])

    faults = [fault for one in found.origins for fault in one.faults]
    assert {type(fault) for fault in faults} == {UpdateDifference, Edit}
    assert all(one.phase is Phase.UPDATE for one in found.origins)


class _Ordered(nn.Module):
    """Two layers, the second of which takes the rows in another order in one form."""

    def __init__(self, *, is_turned: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.is_turned = is_turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x))
        found: torch.Tensor = self.second(x.flip(0)).flip(0) if self.is_turned else self.second(x)
        return found


def test_a_wrong_update_makes_no_origin_of_gradients_that_are_right(tmp_path: Path) -> None:
    paths = []
    for name, rate in (("reference", 0.1), ("candidate", 0.2)):
        torch.manual_seed(0)
        model = _Ordered(is_turned=name == "candidate")
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=rate)
        with padiff.record(model, name=name, out=tmp_path, optimizer=optimizer) as recorder:
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
        assert recorder.path is not None
        paths.append(recorder.path)
    reference, candidate = paths

    found = padiff.compare(reference, candidate)

    by_tolerance = padiff.compare(reference, candidate, execute=False)
    assert Phase.BACKWARD in {one.phase for one in by_tolerance.divergences}
    assert {one.phase for one in found.divergences} == {Phase.UPDATE}
    assert isinstance(found.divergences[0].faults[0], Edit)


class _Waves(nn.Module):
    """Sines of several frequencies, from a table that is no weight."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.table: torch.Tensor
        self.register_buffer("table", torch.tensor([1.0, 2.0]), persistent=False)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x[..., None] * (self.table * self.factor)).flatten(-2)


class _Field(nn.Module):
    def __init__(self, factor: float | None) -> None:
        super().__init__()
        self.waves = None if factor is None else _Waves(factor)
        self.last = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        waves = torch.stack([torch.sin(x), torch.sin(x * 2.0)], -1).flatten(-2)
        found: torch.Tensor = self.last(waves if self.waves is None else self.waves(x))
        return found


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "match"), (3.0, "diverged")])
def test_a_fault_behind_a_table_of_one_side_is_told_where_its_module_is_of_one_side(
    factor: float, verdict: str, tmp_path: Path
) -> None:
    reference, candidate = dumps(tmp_path, lambda: _Field(None), lambda: _Field(factor))

    found = padiff.compare(reference, candidate)

    assert found.verdict == verdict
    faults = [type(fault) for one in found.origins for fault in one.faults]
    assert faults == ([] if verdict == "match" else [Edit])


def test_a_fault_with_nothing_near_that_shows_it_is_not_lost(tmp_path: Path) -> None:
    one, two = dumps(tmp_path, Block, lambda: Block(eps=1e-3))
    (step,) = padiff.compare(one, two).steps
    assert step.executed is not None
    weights = [
        pair
        for pair in step.pairs
        if pair.reference is not None and pair.reference.address.role is Role.WEIGHT
    ]

    found = locate_by_execution(
        Located(divergences=(), pairs=weights), step.executed, CompareSettings(), is_port=False
    )

    assert [one.kind for one in found.divergences] == [Kind.ORIGIN]


def test_dumps_without_programs_are_judged_by_tolerance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Block()
    for name in ("reference", "candidate"):
        with padiff.record(model, name=name, out=tmp_path, program=False):
            model(torch.ones(2, 8))

    code = main(["compare", str(tmp_path / "reference"), str(tmp_path / "candidate")])

    assert code == 0
    assert "BY EXECUTION" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("candidate", "options", "code"),
    [
        (lambda: Steep(is_turned=True), ["--atol", "1e-6"], 0),
        (lambda: Steep(is_turned=True), ["--atol", "1e-6", "--rtol", "0"], 1),
    ],
    ids=["explained", "literal"],
)
def test_a_report_that_is_judged_again_keeps_what_rounding_explains(
    candidate: Make, options: list[str], code: int, tmp_path: Path
) -> None:
    one, two = dumps(tmp_path, lambda: Steep(is_turned=False), candidate, width=16)
    report = tmp_path / "report.json"
    assert main(["compare", str(one), str(two), "--quiet", "--json", str(report)]) == 0

    assert main(["judge", str(report), *options]) == code
