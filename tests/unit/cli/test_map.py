"""``padiff map``, and map files given to the other commands."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from padiff.dumper.weights.checkpoint import write_arrays
from padiff.dumpfile.packed import pack
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path


def test_without_a_place_the_map_goes_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, candidate = tiny_pair(tmp_path)

    assert main(["map", str(reference), str(candidate)]) == 0

    entries = tomllib.loads(capsys.readouterr().out)["pair"]
    assert {"reference": "norm", "candidate": "norm"} in entries


def test_packed_dumps_are_paired_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, candidate = tiny_pair(tmp_path)
    packed = tmp_path / "packed.padiff.zip"
    pack(reference, packed)

    assert main(["map", str(reference), str(candidate)]) == 0
    plain = capsys.readouterr().out
    assert main(["map", str(packed), str(candidate)]) == 0
    assert capsys.readouterr().out == plain


def test_compare_takes_the_written_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, candidate = tiny_pair(tmp_path)
    path, report = tmp_path / "map.toml", tmp_path / "report.json"

    assert main(["map", str(reference), str(candidate), "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"map at {path}: 2 entries, 0 of them AMBIGUOUS\n"
    words = ["compare", str(reference), str(candidate), "--map", str(path)]
    assert main([*words, "--json", str(report), "--explain-pairing"]) == 0

    pairing = json.loads(report.read_text())["steps"][0]["pairing"]
    assert pairing[1:] == [
        {
            "reference": name,
            "candidate": name,
            "paired_by": "map",
            "confidence": 1.0,
        }
        for name in ("fc1", "norm", "fc2")
    ]
    assert "norm ~ norm" in capsys.readouterr().out


def test_an_existing_file_is_replaced_only_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, candidate = tiny_pair(tmp_path)
    path = tmp_path / "map.toml"
    path.write_text("mine")
    words = ["map", str(reference), str(candidate), "-o", str(path)]

    assert main(words) == 2
    assert path.read_text() == "mine"
    assert "--overwrite" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0
    assert "[[pair]]" in path.read_text()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["candidate", "map.toml", "reference"]


@pytest.mark.parametrize("name", ["reference/manifest.json/map.toml", "."])
def test_a_place_that_cannot_be_written_is_trouble(tmp_path: Path, name: str) -> None:
    reference, candidate = tiny_pair(tmp_path)

    assert main(["map", str(reference), str(candidate), "-o", str(tmp_path / name)]) == 2


@pytest.mark.parametrize("option", [["--step", "7"], ["--rank", "1"]])
def test_a_step_that_neither_has_is_trouble(tmp_path: Path, option: list[str]) -> None:
    reference, candidate = tiny_pair(tmp_path)

    assert main(["map", str(reference), str(candidate), *option]) == 2


@pytest.mark.parametrize("command", [["compare"], ["map"], ["weights", "plan"]])
def test_all_that_is_wrong_with_a_map_is_listed(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, candidate = tiny_pair(tmp_path)
    path = tmp_path / "map.toml"
    path.write_text('[[pair]]\nreference = "nrom"\ncandidate = "norm"\n[[ignore]]\nreference = "x"')

    assert main([*command, str(reference), str(candidate), "--map", str(path)]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert "[[pair]] 1: no module of the reference is 'nrom'" in err
    assert "[[ignore]] 1: no module of the reference is 'x'" in err
    assert "hint: padiff show" in err


def test_an_unused_entry_is_noted_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, candidate = tiny_pair(tmp_path)
    path = tmp_path / "map.toml"
    path.write_text('[[pair]]\nreference = "fc1"\ncandidate = "fc1"\n' * 2)

    assert main(["compare", str(reference), str(candidate), "--map", str(path)]) == 0

    assert "[[pair]] 2" in capsys.readouterr().out


def test_a_map_of_dumps_serves_checkpoints_that_know_no_activations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, candidate = tiny_pair(tmp_path)
    path, file = tmp_path / "map.toml", tmp_path / "weights.safetensors"
    write_arrays(
        file, {"fc1.weight": np.ones((5, 3), np.float32), "fc2.weight": np.ones((2, 5), np.float32)}
    )
    assert main(["map", str(reference), str(candidate), "-o", str(path)]) == 0

    assert main(["weights", "plan", str(file), str(candidate), "--map", str(path)]) == 0

    assert "transpose" in capsys.readouterr().out
