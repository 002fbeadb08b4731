"""``padiff show`` prints programs: text, JSON, a graph, and what came from nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from padiff.cli.output import emit_lines
from padiff.dumpfile import LeafKind, ProgramBuilder, SourceLine, ValueRef
from tests.support.dumps import DumpBuilder
from tests.support.tiny_net import tiny_net
from tests.support.tiny_program import tiny_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from padiff.dumpfile import StepWriter

TEXT = r"""
STEP 0 RANK 0  11 operators, 14 values, 1 hole
(root)  Net  at net.py:3
  %9 = Tensor.clone(%11)  float32 (4, 5)  models/net.py:15
  %5 = F.dropout(%5, training=False)  float32 (4, 2)  models/net.py:15
  Tensor.item(constant %8)  -> 0.5  models/net.py:15
fc1  Linear  at net.py:10
  %3 = F.linear(input[0], weight .weight)  float32 (4, 5)  models/net.py:10
norm  Norm  at net.py:11
  %4 = Tensor.__truediv__(%3, 1.0000100135803223)  float32 (4, 5)  models/net.py:11
  %7 = rand_like(%4)  float32 (4, 5)  models/net.py:15  [random]
  %10 = Tensor.add_(%4, hole %6)  float32 (4, 5)  models/net.py:15  [in place]
  %11 = mylib.fuse(%7, constant %8, alpha=2, mode='a"b', device=cpu, dtype=float16, options={size=(3, -1, None)}, shift=(1-2j))  float32 (4, 5)  models/net.py:15  [autocast bfloat16]
  %12 = Tensor.__getitem__(%10, (0:3, ..., ::2))  float32 (4, 5)  models/net.py:15  [no grad]
fc2  Linear  at net.py:12
  %5 = F.linear(%4, weight .weight)  float32 (4, 2)  models/net.py:12
(outside all modules)
  %13 = Tensor.mean(%5)  float32 ()  models/net.py:20
returns %5
"""  # noqa: E501 -- as it is printed


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return tiny_program().write(tmp_path / "net")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run ``padiff show`` and return its stdout."""
    assert main(["show", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return str(out)


def chain(names: list[str], *, module: str = "fc", file: str = "net.py") -> DumpBuilder:
    """Build a dump whose operators, of these names, each take what the one before made."""
    built = DumpBuilder().module("", "Net").module(module, "Block").call("").call(module)
    program = ProgramBuilder()
    value = program.add_value(
        dtype="float32", shape=(2,), content=None, kind=LeafKind.PARAMETER, name=f"{module}.w"
    )
    for line, name in enumerate(names):
        made = program.add_value(dtype="float32", shape=(2,), content=None)
        site = SourceLine(file=file, line=line + 1)
        program.add_operator(name, [(None, ValueRef(value))], [made], call=1, site=site)
        value = made
    built.program = lambda _: program
    return built


def test_operators_stand_below_their_module_calls(
    dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, str(dump), "--program")

    assert text.endswith(TEXT)
    assert text.startswith("net\n  made by  torch 2.13.0")


def test_leaves_of_other_modules_have_their_whole_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = DumpBuilder().module("", "Net").module("head", "Linear").call("")
    program = ProgramBuilder()
    leaf = program.add_value(
        dtype="float32", shape=(2,), content=None, kind=LeafKind.BUFFER, name="head.scale"
    )
    made = program.add_value(dtype="float32", shape=(2,), content=None)
    program.add_operator("torch.exp", [(None, ValueRef(leaf))], [made], call=0)
    built.program = lambda _: program

    text = shown(capsys, str(built.write(tmp_path / "net")), "--program")

    assert "  %1 = exp(buffer head.scale)  float32 (2,)\n" in text


def test_only_chosen_modules_are_listed(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(dump), "--program", "--include", "type:Linear")

    lines = [line.split()[0] for line in text.splitlines() if line and line[0] != " "]
    assert lines == ["net", "STEP", "fc1", "fc2"]


def test_operators_are_counted_out(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(dump), "--program", "--max-rows", "4")

    assert text.count("models/net.py") == 4
    assert text.endswith("... (--max-rows 0 shows all)\n")


def test_a_later_call_has_its_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = DumpBuilder().module("", "Net").module("fc", "Linear").call("fc").call("fc")
    program = ProgramBuilder()
    for call in (1, 0, None):
        made = program.add_value(dtype="int64", shape=(), content=None)
        program.add_operator("torch.ones", [], [made], call=call)
    built.program = lambda _: program

    text = shown(capsys, str(built.write(tmp_path / "net")), "--program")

    assert [line for line in text.splitlines()[-6:] if line[0] != " "] == [
        "fc  Linear",
        "fc#1  Linear",
        "(outside all modules)",
    ]


def test_files_of_one_name_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = DumpBuilder().module("", "Net").call("")
    program = ProgramBuilder()
    for file in ("a/net.py", "b/net.py", "x/a/layer.py"):
        program.add_operator("f", [], [], call=0, site=SourceLine(file=file, line=3))
    built.program = lambda _: program

    text = shown(capsys, str(built.write(tmp_path / "net")), "--program")

    assert [line.split()[-1] for line in text.splitlines() if "f()" in line] == [
        "a/net.py:3",
        "b/net.py:3",
        "layer.py:3",
    ]


def test_names_and_huge_arguments_are_printed_harmlessly_and_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = chain(["a\x1b[31mb\n::error::c", "n" * 10_000], module="m\u202e", file="f\r.py")
    program = built.program
    assert program is not None
    builder = program(None)  # type: ignore[arg-type]
    nested: tuple[object, ...] = (1,) * 100
    for _ in range(3):
        nested = (nested,) * 20
    builder.add_operator("g", [(None, nested), ("k" * 9999, "v" * 9999)], [], call=1)  # type: ignore[list-item]

    text = shown(capsys, str(built.write(tmp_path / "net")), "--program")

    assert text.isascii()
    assert "\x1b" not in text
    assert "\n::" not in text
    assert max(map(len, text.splitlines())) < 500


def test_a_dump_without_a_program_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = "no program was recorded: it ended at f: ValueError: x"
    noted = str(tiny_net().write(tmp_path / "noted", notes=(note,)))
    plain = str(tiny_net().write(tmp_path / "plain"))

    assert shown(capsys, noted, "--program").endswith(f"STEP 0 RANK 0\n  {note}\n")
    assert shown(capsys, plain, "--holes").endswith("\n  no program was recorded\n")
    assert shown(capsys, plain, "--dot") == "// STEP 0 RANK 0: no program was recorded\n"
    found = json.loads(shown(capsys, plain, "--holes", "--program", "--json"))["steps"][0]
    assert (found["program"], found["holes"]) == (None, None)


def test_a_hole_is_listed_with_who_takes_it_and_why(
    dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, str(dump), "--holes")

    assert text.endswith(
        "\nSTEP 0 RANK 0  11 operators, 1 hole\n"
        "  hole %6  float32 (4, 5)\n"
        "    taken by  Tensor.add_ in norm  models/net.py:15\n"
        "    why       made by numpy, an extension or another thread, "
        "or kept as a plain attribute\n"
    )
    assert shown(capsys, str(dump), "--holes", "--include", "fc1").count("%") == 0


def test_what_is_known_of_a_hole_is_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = DumpBuilder().module("", "Net").call("", outputs=[np.ones(2, np.float32)])

    def program(step: StepWriter) -> ProgramBuilder:
        builder = ProgramBuilder()
        for _ in range(2):
            builder.add_value(dtype="float32", shape=(2,), content=None, kind=LeafKind.HOLE)
        builder.add_gradient(1, step.store(np.ones(2, np.float32)))
        builder.add_border(0, 0)
        for _ in range(3):
            builder.add_operator("f", [(None, (ValueRef(1),))], [1], call=0)
        return builder

    built.program = program
    text = shown(capsys, str(built.write(tmp_path / "net")), "--holes")

    assert "taken by  no operator; seen as step 0 (root)#0 output\n" in text
    assert "why       a module takes or returns it, and no recorded operator made it\n" in text
    assert "taken by  f in (root)  and 2 more\n" in text
    assert "why       a gradient arrived for it: what computed it was not recorded\n" in text


def test_no_holes_are_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = tiny_program(is_plain=True).write(tmp_path / "plain")

    text = shown(capsys, str(plain), "--holes")

    assert "STEP 0 RANK 0  4 operators, 0 holes\n  no holes: every floating-point value" in text


def test_json_has_the_program_and_its_holes(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = json.loads(shown(capsys, str(dump), "--program", "--holes", "--json"))["steps"][0]

    operators = step["program"]["operators"]
    assert [one["operator"] for one in operators] == list(range(11))
    fused = operators[5]
    assert (fused["name"], fused["module"], fused["call"]) == ("mylib.fuse", "norm", 0)
    assert fused["positional"] == [{"value": 7}, {"value": 8}]
    assert fused["keywords"] == {
        "alpha": 2,
        "mode": 'a"b',
        "device": {"opaque": "cpu"},
        "dtype": {"dtype": "float16"},
        "options": {"items": {"size": [3, -1, None]}},
        "shift": {"number": "(1-2j)"},
    }
    assert (fused["marks"], fused["site"]) == (["autocast bfloat16"], "models/net.py:15")
    assert operators[6]["positional"][1] == [
        {"slice": [0, 3, None]},
        {"ellipsis": True},
        {"slice": [None, None, 2]},
    ]
    assert step["program"]["values"][1] == {
        "value": 1,
        "name": "weight fc1.weight",
        "path": "fc1.weight",
        "dtype": "float32",
        "shape": [5, 3],
        "kind": "parameter",
        "operator": None,
    }
    (hole,) = step["holes"]
    assert (hole["value"], hole["reason"], hole["taken_by"]["operator"]) == (6, "unknown", 4)


def test_json_of_chosen_modules_that_there_are_none_of(
    dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--program", "--json", "--include", "nothing")

    step = json.loads(shown(capsys, str(dump), *words))["steps"][0]

    assert step["modules"] == step["program"]["operators"] == []


def test_the_graph_has_a_cluster_for_each_module_and_an_edge_for_each_value(
    dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(capsys, str(dump), "--dot").splitlines()

    assert (lines[0], lines[-1]) == ('digraph "step 0 rank 0" {', "}")
    assert [line.strip() for line in lines if "subgraph" in line] == [
        f'subgraph cluster_{number} {{ label="{label}";'
        for number, label in enumerate(["(root)  Net", "fc1  Linear", "norm  Norm", "fc2  Linear"])
    ]
    assert '  o0 -> o1 [label="%3\\nfloat32 (4, 5)"];' in lines
    assert '  v0 [shape=box, label="input[0]\\nfloat32 (4, 3)"];' in lines
    assert "  v0 -> o0;" in lines
    assert sum(line.count("{") for line in lines) == sum(line.count("}") for line in lines)


def test_names_in_the_graph_cannot_end_their_quotes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = chain(['a"];evil [label="\\'], module='m"\\\n', file='"')

    text = shown(capsys, str(built.write(tmp_path / "net")), "--dot")

    assert 'label="a\\"];evil [label=\\"\\\\\\n\\":1"];' in text
    assert 'label="m\\"\\\\\\\\n  Block";' in text


def test_the_graph_stands_alone(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(dump), "--dot", "--json"]) == 2

    assert "--dot prints the graph alone" in capsys.readouterr().err


def test_lines_are_written_as_they_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []

    def lines() -> Iterator[str]:
        yield "first"
        seen.append(capsys.readouterr().out)
        yield "::second"

    emit_lines(lines())

    assert seen == ["first\n"]
    assert capsys.readouterr().out == "\\x3a:second\n"
