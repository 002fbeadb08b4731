"""Data flow and nan of recorded torch models: what fed what, and what code between modules made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.comparer.locating.dataflow import Flow, Source
from padiff.comparer.locating.nonfinite import MASK, find_nonfinite
from padiff.dumpfile import Index, open_dump
from tests.support.located import compare_numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Block(nn.Module):
    """An attention by hand whose glue can be told to go wrong."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.query = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)
        self.faults = {fault}  # a set: the recorder takes it for no attribute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        query, value = self.query(normed), self.value(normed)
        scores = query @ normed.transpose(1, 2)
        if "mask" in self.faults:
            hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        if "all masked" in self.faults:
            scores = torch.full_like(scores, float("-inf"))
        axis = 1 if "axis" in self.faults else 2
        mixed = self.out(torch.softmax(scores, axis) @ value)
        out: torch.Tensor = mixed if "residual" in self.faults else x + mixed
        return out


class Net(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.first = Block()
        self.second = Block(fault)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.drop(self.second(self.first(x)))
        return out.flatten(1)


def recorded(model: nn.Module, out: Path, *inputs: torch.Tensor, backward: bool = True) -> Path:
    torch.manual_seed(0)
    for tensor in model.parameters():
        nn.init.normal_(tensor.data, std=0.5)
    with padiff.record(model.eval(), name="net", out=out) as recorder:
        result = model(*(inputs or (torch.randn(2, 5, 8),)))
        if backward:
            result.square().mean().backward()
    assert recorder.path is not None
    return recorder.path


def index_of(path: Path) -> Index:
    dump = open_dump(path)
    with dump.open(0, 0) as step:
        return step.index


def described(index: Index) -> dict[str, tuple[str, str | None]]:
    """Give what every tensor was made as, and of what."""
    return {
        str(index.address(index.records[feed.record])): (
            str(feed.made),
            None if feed.source is None else str(index.address(index.records[feed.source])),
        )
        for feed in Flow(index).feeds()
    }


def test_every_input_is_traced_to_what_made_it(tmp_path: Path) -> None:
    found = described(index_of(recorded(Net(), tmp_path)))

    assert found["step 0 (root)#0 input[0]"] == ("given", None)
    assert found["step 0 first#0 input[0]"] == ("passed", "step 0 (root)#0 input[0]")
    assert found["step 0 second#0 input[0]"] == ("call", "step 0 first#0 output")
    assert found["step 0 second.query#0 input[0]"] == ("call", "step 0 second.norm#0 output")
    assert found["step 0 second.out#0 input[0]"] == ("glue", None)
    assert found["step 0 second#0 output"] == ("glue", None)
    assert found["step 0 (root)#0 output"] == ("call", "step 0 drop#0 output")


def test_glue_names_the_calls_around_it(tmp_path: Path) -> None:
    index = index_of(recorded(Net(), tmp_path))
    feed = next(
        feed
        for feed in Flow(index).feeds()
        if str(index.address(index.records[feed.record])) == "step 0 second.out#0 input[0]"
    )

    around = [
        None if call is None else index.modules[index.calls[call].module].path
        for call in (feed.around, feed.after, feed.before)
    ]

    assert around == ["second", "second.value", "second.out"]


def test_a_transpose_is_told_from_a_change(tmp_path: Path) -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.two(self.one(x).transpose(1, 2))
            return out

    found = described(index_of(recorded(Turned(), tmp_path)))

    assert found["step 0 two#0 input[0]"] == (str(Source.MOVED), "step 0 one#0 output")


@pytest.mark.parametrize(
    ("fault", "texts"),
    [
        (
            "axis",
            [
                ".out input[0] is made by the code of second (Block)",
                "between .value (tests/frameworks/test_flow_torch.py:",
            ],
        ),
        ("mask", [".out input[0] is made by the code of second (Block)", "and .out (line"]),
        (
            "residual",
            [
                "on the reference output is made by the code of second (Block)",
                "after .out (tests/frameworks/test_flow_torch.py:",
                "on the candidate it is second.out output, unchanged",
            ],
        ),
    ],
)
def test_a_fault_in_glue_is_placed_between_calls(
    fault: str, texts: list[str], tmp_path: Path
) -> None:
    reference = recorded(Net(), tmp_path / "a")
    candidate = recorded(Net(fault), tmp_path / "b")

    first = compare_numbers(reference, candidate).origins[0]

    assert first.pair.reference is not None
    assert first.pair.reference.address.module == "second"
    evidence = "\n".join(first.evidence)
    assert [text for text in texts if text not in evidence] == []


def test_show_flow_prints_and_gives_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    path = recorded(Net(), tmp_path)

    assert main(["show", str(path), "--flow", "--include", "second*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert main(["show", str(path), "--flow", "--json"]) == 0
    step = json.loads(capsys.readouterr().out)["steps"][0]

    row = next(line for line in lines if "second.out input[0]" in line)
    assert "between .value (tests/frameworks/" in row
    assert "<--- changed between modules" in row
    assert any("second.query input[0]" in line and "second.norm output" in line for line in lines)
    glue = [feed for feed in step["flow"] if feed["made"] == "glue"]
    assert {feed["address"] for feed in glue} == {
        f"step 0 {name}" for block in ("first", "second") for name in
        (f"{block}.out#0 input[0]", f"{block}#0 output")
    }  # fmt: skip
    assert step["records"][glue[0]["record"]]["address"]["role"] in {"input", "output"}


def sources(path: Path) -> dict[str, str]:
    index = index_of(path)
    return {
        str(index.address(index.records[one.record])).removeprefix("step 0 "): one.remark
        for one in find_nonfinite(index)
        if one.is_source
    }


class Op(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._compute = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._compute(x)


def chain(**functions: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    made = nn.Sequential()
    for name, function in functions.items():
        made.add_module(name, Op(function))
    return made


def test_inf_and_the_nan_made_of_it_are_both_sources(tmp_path: Path) -> None:
    path = recorded(
        chain(grow=lambda x: (x * 1e30) ** 2, keep=lambda x: x + 1, shrink=lambda x: x / x),
        tmp_path,
        torch.ones(3),
        backward=False,
    )

    assert sources(path) == {
        "grow#0 output": "from finite inputs",
        "shrink#0 output": "nan from inf",
    }


def test_a_mask_of_minus_infinity_is_no_source(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.soft = nn.Softmax(-1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.soft(x.masked_fill(x > 1, float("-inf")))
            return out

    path = recorded(Masked(), tmp_path, torch.tensor([[0.5, 2.0], [0.1, 0.2]]), backward=False)

    assert sources(path) == {}
    index = index_of(path)
    assert [one.remark for one in find_nonfinite(index)] == [MASK]


def test_a_row_that_is_masked_wholly_gives_nan_at_the_softmax(tmp_path: Path) -> None:
    path = recorded(chain(soft=lambda x: x.softmax(-1)), tmp_path,
                    torch.full((2, 2), float("-inf")), backward=False)  # fmt: skip

    assert sources(path)["soft#0 output"] == "nan from -inf"


def test_nan_made_between_modules_names_the_code(tmp_path: Path) -> None:
    found = sources(recorded(Net("all masked"), tmp_path, backward=False))

    first = next(iter(found))
    assert first == "second.out#0 input[0]"
    assert "by the code of second (Block)" in found[first]
    assert found[first].endswith("from finite inputs")


def test_nan_of_the_backward_alone_names_the_call(tmp_path: Path) -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Linear(3, 3, bias=False)
            self.root = Op(lambda x: torch.where(x > 0, x.abs().sqrt(), torch.zeros_like(x)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.root(self.scale(x) * 0)
            return out

    found = sources(recorded(Root(), tmp_path, torch.ones(2, 3)))

    assert found == {"root#0 grad_input[0]": "from finite output gradients"}


def test_a_nan_on_one_side_is_said_at_the_origin(tmp_path: Path) -> None:
    reference, candidate = recorded(Net(), tmp_path / "a"), recorded(Net("all masked"), tmp_path)

    first = compare_numbers(reference, candidate).origins[0]

    assert first.evidence[0].startswith("makes nan or inf out of finite inputs on the candidate")


def test_a_module_of_another_kind_is_the_origin(tmp_path: Path) -> None:
    class Gated(nn.Module):
        def __init__(self, act: nn.Module) -> None:
            super().__init__()
            self.up, self.act = nn.Linear(8, 8), act

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.act(self.up(x)) * x
            return out

    reference = recorded(Gated(nn.SiLU()), tmp_path / "a")
    candidate = recorded(Gated(nn.GELU()), tmp_path / "b")

    first = compare_numbers(reference, candidate).origins[0]

    assert first.pair.reference is not None
    assert first.pair.reference.address.module == "act"


def test_a_cut_gradient_is_said(tmp_path: Path) -> None:
    class Cut(nn.Module):
        def __init__(self, *, is_cut: bool) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 8)
            self.flags = {is_cut}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.inner(x)
            return out.detach() if True in self.flags else out

    class Two(nn.Module):
        def __init__(self, *, is_cut: bool) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), Cut(is_cut=is_cut)
            self.third = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first = self.first(x)
            out: torch.Tensor = self.third(first + self.second(first))
            return out

    reference = recorded(Two(is_cut=False), tmp_path / "a")
    found = compare_numbers(reference, recorded(Two(is_cut=True), tmp_path / "b"))

    first = found.origins[0]
    assert first.pair.reference is not None
    assert first.pair.reference.address.module == "second"
    said = "no gradient goes through output on the candidate: the flow is cut there"
    assert any(said in line for line in first.evidence)


def test_a_tensor_that_a_call_inside_is_given_detached_is_said(tmp_path: Path) -> None:
    class Branched(nn.Module):
        def __init__(self, *, is_cut: bool) -> None:
            super().__init__()
            self.stem, self.main, self.side = (nn.Linear(8, 8) for _ in range(3))
            self.cuts = {is_cut}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            out: torch.Tensor = self.main(x) + self.side(x.detach() if True in self.cuts else x)
            return out

    reference = recorded(Branched(is_cut=False), tmp_path / "a")
    candidate = recorded(Branched(is_cut=True), tmp_path / "b")

    evidence = compare_numbers(reference, candidate).origins[0].evidence

    assert any("no gradient flows back from side input[0] on the candidate" in one
               for one in evidence)  # fmt: skip
