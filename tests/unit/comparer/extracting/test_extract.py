"""Extraction writes what was recorded, under harmless names, and no code out of a dump."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer.extracting.extract import extract
from padiff.comparer.extracting.layer_script import script_for
from padiff.dumpfile import ConfigError, Role, open_dump
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path


def test_arrays_are_those_of_the_dump(tmp_path: Path) -> None:
    dumps = tiny_pair(tmp_path)

    found = extract(*dumps, "fc1", tmp_path / "out")

    assert [side.side for side in found] == ["reference", "candidate"]
    about = json.loads((tmp_path / "out" / "reference.json").read_text(encoding="ascii"))
    data = np.load(tmp_path / "out" / "reference.npz")
    assert set(data.files) == {entry["key"] for entry in about["arrays"]}
    with open_dump(dumps[0]).open(0, 0) as file:
        module = next(one.id for one in file.index.modules if one.path == "fc1")
        weight = next(
            record
            for record in file.index.records
            if record.module == module and record.role is Role.WEIGHT
        )
        expected = file.array(weight)
        np.testing.assert_array_equal(data[f"weight{weight.slot}"], expected)


def test_root_brings_the_weights_of_all_inside_by_relative_name(tmp_path: Path) -> None:
    extract(*tiny_pair(tmp_path), "", tmp_path / "out")

    about = json.loads((tmp_path / "out" / "candidate.json").read_text(encoding="ascii"))
    names = {entry["name"] for entry in about["arrays"] if entry["role"] == "weight"}
    assert ".fc1.weight" in names


@pytest.mark.parametrize(("module", "call"), [("fc9", 0), ("fc1", 7)])
def test_what_is_not_there_is_said(module: str, call: int, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no"):
        extract(*tiny_pair(tmp_path), module, tmp_path / "out", call=call)


@pytest.mark.parametrize(
    "class_path",
    [
        "os.system",
        'torch.nn.Linear"); import os; os.system("x',
        "torch.nn.Linear\nimport os",
        "torch.nnx.Linear",
        "paddle.nn.Linear",
        "",
    ],
)
def test_only_the_frameworks_own_classes_get_into_a_script(class_path: str) -> None:
    script = script_for("reference", "torch", class_path)

    assert "NotImplementedError" in script
    assert not class_path or class_path not in script
    ast.parse(script)


@pytest.mark.parametrize("framework", ["torch", "paddle", "mindspore", "", 'x"\nimport os'])
def test_script_is_python_for_every_framework(framework: str) -> None:
    script = script_for("candidate", framework, f"{framework}.nn.Linear")

    ast.parse(script)
    assert "import os" not in script
