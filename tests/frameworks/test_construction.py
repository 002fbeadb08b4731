"""How buffers and constants were computed while ``--model`` built the model is in the program."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import padiff
from padiff.cli.main import main
from padiff.comparer import Kind, Verdict
from padiff.comparer.proving.result import EditKind
from padiff.dumpfile import LeafKind, open_dump
from padiff.program import TABLES, RecordedProgram, execute, lower, read_program

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/report.schema.json").read_text())

TORCH = """
import math
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, theta=10000.0, wide=8):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)
        inverse = 1.0 / theta ** (torch.arange(0, 8, 2).float() / 8)
        self.register_buffer("inverse", inverse, persistent=False)
        table = torch.zeros(6, 8)
        table[:, 0::2] = torch.sin(torch.arange(6)[:, None] * inverse)
        self.register_buffer("table", table)
        self.scale = torch.tensor(float(wide)).rsqrt()

    def forward(self, x):
        turned = torch.arange(6).float()[:, None] * self.inverse
        return self.linear(x) * self.scale + torch.cat([turned, turned], -1) + self.table


def loaded():
    net = Net()
    net.table.copy_(torch.ones(6, 8))
    return net


def drawn():
    net = Net()
    net.register_buffer("inverse", torch.rand(4).exp())
    return net


def odd():
    net = Net()
    torch.compile(Net(), backend="eager", fullgraph=True)(torch.ones(6, 8))
    with torch.device("meta"):
        Net()
    net.small = torch.ones(3).to(torch.float8_e4m3fnuz)
    net.table[1:2].copy_(torch.ones(1, 8))
    return net


MODEL = Net()
"""
SCHEDULES = """
import torch
from torch import nn


class Noisy(nn.Module):
    def __init__(self, table, kept, drawn):
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.names = table, drawn
        self.register_buffer(table, kept)
        self.register_buffer(drawn, torch.randn(16, 8))

    def forward(self, x):
        table, drawn = (getattr(self, name) for name in self.names)
        noise = torch.arange(6) * 3
        level = torch.cumprod(1 - table, 0)[noise].sqrt() if "betas" in self.names else table[noise]
        return self.two(torch.tanh(self.one(x * level[:, None]))) @ drawn.T


def reference():
    torch.manual_seed(0)
    return Noisy("betas", torch.linspace(1e-4, 0.02, 20), "codes")


def candidate(last=0.02):
    torch.manual_seed(1)
    betas = torch.linspace(1e-4, last, 20)
    return Noisy("roots", torch.cumprod(1 - betas, 0).sqrt(), "entries")
"""
ROTARY = """
import torch
from torch import nn


class Turn(nn.Module):
    def __init__(self, base, way, length=32):
        super().__init__()
        self.base, self.way = base, way
        if way == "tables":
            self.register_buffer("cosines", self.angles(length).cos(), persistent=False)
            self.register_buffer("sines", self.angles(length).sin(), persistent=False)
        elif way == "frequencies":
            self.register_buffer("inverse", self.frequencies(), persistent=False)

    def frequencies(self):
        return 1.0 / self.base ** (torch.arange(0, 8, 2).float() / 8)

    def angles(self, length):
        inverse = self.inverse if self.way == "frequencies" else self.frequencies()
        angles = torch.outer(torch.arange(length).float(), inverse)
        return torch.cat([angles, angles], -1)

    def forward(self, x):
        if self.way == "tables":
            cosines, sines = self.cosines[: len(x)], self.sines[: len(x)]
        else:
            cosines, sines = self.angles(len(x)).cos(), self.angles(len(x)).sin()
        return x * cosines + torch.cat([-x[:, 4:], x[:, :4]], -1) * sines


class Net(nn.Module):
    def __init__(self, base=10000.0, way="tables", length=32, blocks=2):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(blocks))
        self.turns = nn.ModuleList(Turn(base, way, length) for _ in range(blocks))

    def forward(self, x):
        for layer, turn in zip(self.layers, self.turns):
            x = torch.softmax(turn(layer(x)) @ turn(x).T, -1) @ x
        return x


def spoiled():
    net = Net()
    for turn in net.turns:
        turn.cosines.numpy()[5] *= 1.01
    return net
"""
KEEPING = """
import torch
from torch import nn


class Biased(nn.Module):
    def __init__(self, keep="nothing", base=8.0, later=0, length=32):
        super().__init__()
        torch.manual_seed(0)
        self.keep, self.base, self.later = keep, base, later
        self.linear = nn.Linear(8, 8)
        if keep == "slopes":
            self.register_buffer("slopes", self.steps())
        elif keep == "bias":
            self.register_buffer("bias", self.distances(self.steps(), length))

    def steps(self):
        return torch.pow(2.0, -self.base / 4 * torch.arange(1, 5).float())

    def distances(self, slopes, length):
        places = torch.arange(length)
        gaps = (places[None, :] - places[:, None] + self.later).abs()
        return -slopes[:, None, None] * gaps.float()

    def forward(self, x):
        if self.keep == "bias":
            bias = self.bias[:, : len(x), : len(x)]
        else:
            bias = self.distances(self.slopes if self.keep == "slopes" else self.steps(), len(x))
        heads = self.linear(x).view(len(x), 4, 2).transpose(0, 1)
        mixed = torch.softmax(heads @ heads.mT + bias, -1) @ heads
        return mixed.transpose(0, 1).flatten(1)


class Indexed(nn.Module):
    def __init__(self, keep="nothing", later=0):
        super().__init__()
        torch.manual_seed(0)
        self.later = later
        self.table = nn.Parameter(torch.randn(13))
        if keep == "index":
            self.register_buffer("index", self.made())

    def made(self):
        places = torch.arange(6)
        return places[:, None] - places[None, :] + (5 + self.later)

    def forward(self, x):
        index = self.index if hasattr(self, "index") else self.made()
        return self.table[index] @ x


class Placed(nn.Module):
    def __init__(self, keep="nothing"):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)
        if keep != "nothing":
            self.places = nn.Embedding(16, 8)
            self.places.weight.data = self.made(16)
            self.places.weight.requires_grad = keep == "trained"
        self.is_read = keep != "unread"

    def made(self, length):
        angles = torch.arange(length).float()[:, None] * torch.logspace(0, -3, 4)
        return torch.cat([angles.sin(), angles.cos()], -1)

    def forward(self, x):
        if hasattr(self, "places") and self.is_read:
            return self.linear(x + self.places(torch.arange(len(x))))
        return self.linear(x + self.made(len(x)))
"""
PADDLE = """
import paddle
from paddle import nn


class Net(nn.Layer):
    def __init__(self, theta=10000.0):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        inverse = 1.0 / theta ** (paddle.arange(0, 8, 2, dtype="float32") / 8)
        self.register_buffer("inverse", inverse, persistable=False)
        table = paddle.zeros([6, 8])
        table[:, 0::2] = paddle.sin(paddle.arange(6, dtype="float32")[:, None] * inverse)
        self.register_buffer("table", table)

    def forward(self, x):
        turned = paddle.arange(6, dtype="float32")[:, None] * self.inverse
        return self.linear(x) + paddle.concat([turned, turned], -1) + self.table


def odd():
    paddle.jit.save(Net(), "saved", input_spec=[paddle.static.InputSpec([6, 8], "float32")])
    return Net()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_torch.py").write_text(TORCH)
    (tmp_path / "of_paddle.py").write_text(PADDLE)
    (tmp_path / "schedules.py").write_text(SCHEDULES)
    (tmp_path / "rotary.py").write_text(ROTARY)
    (tmp_path / "keeping.py").write_text(KEEPING)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((6, 8), np.float32))
    return tmp_path


def dumped(name: str, model: str, *words: str) -> Path:
    framework = "paddle" if model.startswith("of_paddle") else "torch"
    line = ["dump", "--model", model, "--inputs", "x.npy", "--name", name, "--phase", "forward"]
    assert main([*line, "--framework", framework, *words]) == 0
    path = Path("padiff_dump") / name
    assert list(open_dump(path).problems()) == []
    return path


def read(path: Path) -> tuple[RecordedProgram, dict[str, np.ndarray]]:
    """Read a program, and what executing its construction makes of each buffer."""
    with open_dump(path).open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        built = recorded.construction
        if built is None:
            return recorded, {}
        lowered = lower(built.program, TABLES[file.framework], contents=built.elements)
        named = {one.id: one.name for one in built.program.values if one.name}
        given = {
            value: elements
            for value in lowered.leaves.values()
            if (elements := built.elements(value)) is not None
        }
        wanted = [] if lowered.random else [one for one in named if one not in given]
        found = execute(lowered, given, wanted)
        made = {named[value]: array for value, array in found.items()}
        buffers = {
            one.name: recorded.elements(one.id)
            for one in recorded.program.values
            if one.kind is LeafKind.BUFFER
        }
        for name, array in made.items():
            held = buffers[name]
            assert held is not None
            np.testing.assert_allclose(array, held, rtol=1e-6, atol=1e-6)
        return recorded, made


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_buffers_are_what_their_construction_computes(framework: str) -> None:
    recorded, made = read(dumped("one", f"of_{framework}.py:Net"))

    assert made.keys() == {"inverse", "table"}
    assert recorded.construction is not None
    sites = {one.site.file for one in recorded.construction.program.operators if one.site}
    assert sites == {f"of_{framework}.py"}
    buffers = [one for one in recorded.program.values if one.kind is LeafKind.BUFFER]
    assert {one.name for one in buffers} == {"inverse", "table"}


def test_weights_have_no_construction() -> None:
    recorded, _ = read(dumped("one", "of_torch.py:Net"))

    assert recorded.construction is not None
    names = {one.name.rpartition(".")[2] for one in recorded.construction.program.operators}
    assert "arange" in names
    assert not names & {"uniform_", "kaiming_uniform_", "empty"}


def test_a_constant_beside_the_buffers_is_no_hole() -> None:
    recorded, _ = read(dumped("one", "of_torch.py:Net"))

    kinds = [one.kind for one in recorded.program.values]
    assert LeafKind.HOLE not in kinds
    assert kinds.count(LeafKind.CONSTANT) == 1
    built = recorded.construction
    assert built is not None
    assert built.program.operators[-1].name == "torch.Tensor.rsqrt"


@pytest.mark.parametrize(
    ("model", "table", "inverse"),
    [
        ("of_torch.py:loaded", "copy_", "__rtruediv__"),
        ("of_torch.py:drawn", "__setitem__", "exp"),
    ],
)
def test_what_a_buffer_holds_in_the_end_counts(model: str, table: str, inverse: str) -> None:
    built = read(dumped("one", model))[0].construction

    assert built is not None
    program = built.program
    makers = {
        one.name: program.operators[one.producer].name.rpartition(".")[2]
        for one in program.values
        if one.name and one.producer is not None
    }
    assert makers == {"table": table, "inverse": inverse}


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_what_else_a_factory_does_is_not_disturbed(framework: str) -> None:
    recorded, _ = read(dumped("one", f"of_{framework}.py:odd"))

    assert recorded.construction is not None
    assert "inverse" in {one.name for one in recorded.construction.program.values}


def test_a_model_that_is_there_already_has_none() -> None:
    recorded, _ = read(dumped("one", "of_torch.py:MODEL"))

    assert recorded.construction is None


def test_a_buffer_that_is_cast_when_the_model_is_there_is_not_told() -> None:
    _, made = read(dumped("one", "of_torch.py:Net", "--dtype", "bfloat16"))

    assert made == {}


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_buffers_that_differ_name_the_number(framework: str) -> None:
    one = dumped("one", f"of_{framework}.py:Net")
    two = dumped("two", f"of_{framework}.py:Net", "--model-arg", "theta=500000.0")

    result = padiff.compare(one, two)

    assert result.verdict is Verdict.DIVERGED
    executed = result.steps[0].executed
    assert executed is not None
    assert executed.function.differences == (), "both buffers follow from the number"
    (edit,) = executed.function.edits
    assert edit.kind is EditKind.ARGUMENT
    (change,) = edit.changes
    assert (change.known, change.found) == (10000.0, 500000.0)
    for place in (edit.reference, edit.candidate):
        assert place is not None
        assert place.site is not None
        assert place.site.file == f"of_{framework}.py"


def test_buffers_of_both_frameworks_are_the_same_and_nothing_is_told() -> None:
    one, two = dumped("one", "of_torch.py:Net"), dumped("two", "of_paddle.py:Net")

    executed = padiff.compare(one, two).steps[0].executed

    assert executed is not None
    assert [each for each in executed.function.differences if each.kind == "buffer"] == []


def test_show_lists_how_buffers_were_made(capsys: pytest.CaptureFixture[str]) -> None:
    path = dumped("one", "of_torch.py:Net")
    capsys.readouterr()

    assert main(["show", str(path), "--program"]) == 0

    _, _, built = capsys.readouterr().out.partition("(while the model was built)\n")
    lines = built.splitlines()
    assert any("__rpow__" in line and "10000.0" in line for line in lines)
    assert lines[4].endswith("of_torch.py:12  [buffer inverse]")


def test_reports_say_how_a_buffer_was_made_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = dumped("one", "of_torch.py:Net")
    two = dumped("two", "of_torch.py:Net", "--model-arg", "theta=500000.0")

    assert main(["compare", str(one), str(two), "--json", str(tmp_path / "report.json")]) == 1

    said = " ".join(capsys.readouterr().out.split())
    assert "1 origin" in said
    assert "500000 where the reference has 10000" in said
    report = json.loads((tmp_path / "report.json").read_text())
    jsonschema.validate(report, SCHEMA)
    (edit,) = report["steps"][0]["executed"]["function"]["edits"]
    assert "500000" in json.dumps(edit)


def test_a_table_is_not_overwritten_by_another_of_its_size_but_what_was_drawn_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = dumped("known", "schedules.py:reference")
    words = ("--weights-from", str(known))
    found = dumped("found", "schedules.py:candidate", *words)
    said = capsys.readouterr().err
    other = dumped("other", "schedules.py:candidate", *words, "--model-arg", "last=0.03")

    assert "buffers that the model computes are not overwritten: roots by betas" in said
    assert "no name says so: entries by codes" in said
    assert padiff.compare(known, found).verdict is Verdict.MATCH
    assert padiff.compare(known, other).verdict is Verdict.DIVERGED


WAYS = ("tables", "frequencies", "nothing")
"""What a rotary embedding keeps: the other things are computed in each call."""


@pytest.mark.parametrize(("one", "other"), [*itertools.permutations(WAYS, 2), ("tables", "tables")])
def test_a_number_behind_tables_is_proved_whatever_each_side_keeps(one: str, other: str) -> None:
    known = dumped("known", "rotary.py:Net", "--model-arg", f'way="{one}"')
    words = ("--model-arg", f'way="{other}"', "--model-arg", "length=24")
    found = dumped("found", "rotary.py:Net", *words)
    wrong = dumped("wrong", "rotary.py:Net", *words, "--model-arg", "base=500000.0")

    assert padiff.compare(known, found).verdict is Verdict.MATCH
    executed = padiff.compare(known, wrong).steps[0].executed
    assert executed is not None
    (edit,) = executed.function.edits
    assert executed.function.lone == (0, 0)
    (change,) = edit.changes
    assert (change.known, change.found) == (10000.0, 500000.0)
    for place in (edit.reference, edit.candidate):
        assert place is not None
        assert place.module == "turns.0"
        assert place.site is not None
        assert place.site.line == 17


def test_what_built_a_table_is_listed_where_it_is_wrong(tmp_path: Path) -> None:
    known = dumped("known", "rotary.py:Net", "--model-arg", 'way="nothing"')
    wrong = dumped("wrong", "rotary.py:Net", "--model-arg", "base=500000.0")

    assert main(["compare", str(known), str(wrong), "--html", str(tmp_path / "page.html")]) == 1

    page = (tmp_path / "page.html").read_text()
    assert "__rpow__(%" in page
    assert ", 500000" in page


def test_a_table_that_its_operators_do_not_make_is_not_computed_again() -> None:
    known = dumped("known", "rotary.py:Net", "--model-arg", 'way="nothing"')

    result = padiff.compare(known, dumped("wrong", "rotary.py:spoiled"))

    assert result.verdict is Verdict.DIVERGED
    assert result.steps[0].executed is not None
    assert result.steps[0].executed.function.lone == (0, 2), "each block holds its own"


def test_one_number_behind_the_buffers_of_all_blocks_is_one_cause() -> None:
    known = dumped("known", "rotary.py:Net", "--model-arg", "blocks=4")
    wrong = dumped("wrong", "rotary.py:Net", "--model-arg", "blocks=4", "--model-arg", "base=5e5")

    found = padiff.compare(known, wrong)

    origins = [one for one in found.divergences if one.kind is Kind.ORIGIN]
    assert [one.pair.end.address.module for one in origins] == ["turns.0"]
    executed = found.steps[0].executed
    assert executed is not None
    assert executed.function.differences == ()
    assert len(executed.function.edits) == 1


def test_a_buffer_that_no_call_reads_is_a_difference_of_leaves() -> None:
    Path("unread.py").write_text(ROTARY.replace("self.cosines[: len(x)]", "torch.ones(6, 8)"))
    one = dumped("one", "unread.py:Net")
    other = dumped("other", "unread.py:Net", "--model-arg", "base=500000.0")

    executed = padiff.compare(one, other).steps[0].executed

    assert executed is not None
    assert {each.candidate for each in executed.function.differences} == {
        "turns.0.cosines",
        "turns.1.cosines",
    }


@pytest.mark.parametrize(
    ("net", "one", "other", "fault", "numbers"),
    [
        ("Biased", "slopes", "nothing", "base=4.0", (-2.0, -1.0)),
        ("Biased", "nothing", "bias", "base=4.0", (-2.0, -1.0)),
        ("Biased", "bias", "slopes", "later=1", (0, 1)),
        ("Biased", "slopes", "bias", "later=1", (0, 1)),
        ("Indexed", "index", "nothing", "later=2", (5, 7)),
        ("Indexed", "nothing", "index", "later=2", (5, 7)),
    ],
)
def test_one_number_is_all_that_is_told_of_tables(
    net: str, one: str, other: str, fault: str, numbers: tuple[float, float]
) -> None:
    """Not where one is a root of the other by chance, is longer, or holds whole numbers."""
    known = dumped("known", f"keeping.py:{net}", "--model-arg", f'keep="{one}"')
    words = ("--model-arg", f'keep="{other}"')
    found = dumped("found", f"keeping.py:{net}", *words)
    wrong = dumped("wrong", f"keeping.py:{net}", *words, "--model-arg", fault)

    assert padiff.compare(known, found).verdict is Verdict.MATCH
    executed = padiff.compare(known, wrong).steps[0].executed
    assert executed is not None
    (edit,) = executed.function.edits
    (change,) = edit.changes
    assert (change.known, change.found) == numbers


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("frozen", "nothing", Verdict.MATCH),
        ("nothing", "frozen", Verdict.MATCH),
        ("trained", "nothing", Verdict.DIVERGED),
        ("nothing", "trained", Verdict.DIVERGED),
        ("unread", "nothing", Verdict.DIVERGED),
        ("nothing", "unread", Verdict.DIVERGED),
    ],
)
def test_a_weight_that_one_side_computes_may_lack_if_it_is_read_and_does_not_train(
    one: str, other: str, verdict: Verdict
) -> None:
    known = dumped("known", "keeping.py:Placed", "--model-arg", f'keep="{one}"')
    found = dumped("found", "keeping.py:Placed", "--model-arg", f'keep="{other}"')

    assert padiff.compare(known, found).verdict is verdict
