"""``padiff show`` prints a dump as a tree or as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from tests.support.dumps import DumpBuilder, write_dump
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return tiny_net().write(tmp_path / "net")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run ``padiff show`` and give its stdout."""
    assert main(["show", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert isinstance(out, str)
    return out


def test_tree_has_calls_shapes_dtypes_and_statistics(
    dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, str(dump))

    assert "torch 2.13.0" in text
    row = next(line for line in text.splitlines() if "fc1" in line)
    assert row.split()[:6] == ["|-", "fc1", "Linear", "1", "float32", "(4,"]
    assert len(row.split()) == 11
    assert text.isascii()


def test_records_lists_every_record(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(dump), "--records")

    for word in ("#0 input[0]", "#0 grad_output", "weight_grad.weight", "weight.weight", "loss"):
        assert word in text


def test_attrs_lists_attributes_and_source(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(dump), "--attrs")

    assert "eps = 1e-05" in text
    assert "at net.py:1" in text


@pytest.mark.parametrize("pattern", ["fc*", "type:Linear"])
def test_include_leaves_out_the_others(
    pattern: str, dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, str(dump), "--include", pattern)

    assert "fc1" in text
    assert "fc2" in text
    assert "norm" not in text


def test_json_is_strict_and_complete(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shown(capsys, str(dump), "--json"), parse_constant=pytest.fail)

    assert document["manifest"]["framework"] == "torch"
    (step,) = document["steps"]
    assert [module["path"] for module in step["modules"]] == ["", "fc1", "norm", "fc2"]
    loss = next(found for found in step["records"] if found["address"]["role"] == "loss")
    assert loss["dtype"] == "float32"
    assert isinstance(loss["statistics"]["mean"], float)


def test_nonfinite_names_the_call_that_made_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine, bad = np.ones(3, np.float32), np.array([1, np.nan, np.inf], np.float32)
    built = DumpBuilder().module("", "Net").module("a", "A").module("b", "B").enter("")
    built.call("a", inputs=[fine], outputs=[bad]).call("b", inputs=[bad], outputs=[bad * 2])
    path = built.leave(outputs=[bad * 2]).write(tmp_path / "net")

    lines = shown(capsys, str(path), "--nonfinite").splitlines()

    sources = [line.split()[0] for line in lines if "<--- from finite inputs" in line]
    assert sources[0] == "a#0"
    assert not any(word == "b#0" for word in sources)
    row = next(line for line in lines if line.strip().startswith("a#0 output"))
    assert row.split()[3:6] == ["1", "1", "0"]


def test_nonfinite_of_a_clean_dump_says_so(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "all recorded values are finite" in shown(capsys, str(dump), "--nonfinite")


def test_step_narrows_and_an_absent_step_is_trouble(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_dump(tmp_path / "net", tiny_net(), tiny_net(step=1))

    text = shown(capsys, str(path), "--step", "1")
    code = main(["show", str(path), "--step", "7"])

    assert "STEP 1 RANK 0" in text
    assert "STEP 0" not in text
    assert code == 2
    assert "step 7" in capsys.readouterr().err


def test_hostile_names_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = DumpBuilder().module("", "N\x1b[31met").module("a\nb", "[red]A[/red]")
    path = built.write(tmp_path / "net", command=("x\x07",))

    text = shown(capsys, str(path), "--attrs", "--records")

    assert "N\\x1b[31met" in text
    assert "a\\nb" in text
    assert "[red]A[/red]" in text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_deep_trees_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = DumpBuilder().module("", "Net")
    path = "m"
    for _ in range(60):
        built.module(path, "M")
        path += ".m"

    text = shown(capsys, str(built.write(tmp_path / "net")))

    assert "[depth 60]" in text


def test_max_rows_cuts_and_says_so(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(dump), "--max-rows", "2")

    assert "fc1" in text
    assert "norm" not in text
    assert "--max-rows 0" in text


@pytest.mark.parametrize(
    ("pattern", "shows"),
    [
        ("(root)", {"fc1", "norm", "fc2"}),
        ("(root)@self", set()),
        ("(root)@sublayers", {"fc1", "norm", "fc2"}),
        ("fc1@sublayers", set()),
        ("type:Linear@self", {"fc1", "fc2"}),
    ],
)
def test_include_means_a_module_and_what_is_inside(
    pattern: str, shows: set[str], dump: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, str(dump), "--include", pattern)

    assert {name for name in ("fc1", "norm", "fc2") if f"{name}  " in text} == shows


def test_a_wrong_reach_is_refused(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(dump), "--include", "fc1@all"]) == 2
    assert "expected self, sublayers or both after '@', found 'all'" in capsys.readouterr().err
