"""``padiff.probe`` records where somebody records, and does nothing elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff.dumpfile import ConfigError, RecordError

if TYPE_CHECKING:
    from pathlib import Path


class Probed(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padiff.probe("before", x)
        return super().forward(x)


def named(path: Path) -> set[str]:
    table = padiff.open_dump(path).to_dataframe()
    return set(table[table.role == "named"].slot)


def test_a_value_is_recorded_under_its_name(tmp_path: Path) -> None:
    model = Probed(3, 2)

    model(torch.ones(1, 3))
    with padiff.record(model, name="net", out=tmp_path, phase="forward") as recorder:
        assert repr(recorder) == "<Recorder of 'net': recording, 0 calls, 0 records>"
        model(torch.ones(1, 3))
        padiff.probe("accuracy", 0.5)
    padiff.probe("later", 0.5)

    assert named(recorder.path) == {"['before']", "['accuracy']"}
    assert repr(recorder).endswith(f" at {str(recorder.path)!r}>")


def test_a_recorder_shows_its_dump_once_it_is_written(tmp_path: Path) -> None:
    model = Probed(3, 2)

    with padiff.record(model, name="net", out=tmp_path, phase="forward") as recorder:
        model(torch.ones(1, 3))
        running = recorder._repr_html_()
        with pytest.raises(RecordError, match="not been finished"):
            recorder.to_dataframe()

    dump = padiff.open_dump(recorder)
    assert "recording, " in running
    assert recorder.report() == dump.report()
    assert recorder.to_dataframe().equals(dump.to_dataframe())
    assert "step 0  1 calls" in recorder._repr_html_()
    assert "  Probed</span>" in recorder.to_html(tmp_path / "dump.html").read_text()
    shown = json.loads(recorder.to_json(tmp_path / "new" / "dump.json").read_text())
    assert [step["step"] for step in shown["steps"]] == [0]


def test_a_recorder_that_has_failed_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Probed(3, 2)

    with pytest.raises(ZeroDivisionError), padiff.record(model, out=tmp_path) as recorder:
        raise ZeroDivisionError

    assert repr(recorder) == "<Recorder of 'Probed': given up, no dump>"
    assert recorder.report().strip() == repr(recorder)
    assert "no dump" in recorder._repr_html_()
    assert capsys.readouterr().err == ""


def test_of_two_recorders_the_one_of_the_framework_takes_a_tensor(tmp_path: Path) -> None:
    module, layer = torch.nn.Linear(3, 2), paddle.nn.Linear(3, 2)

    with (
        padiff.record(module, name="torch", out=tmp_path, phase="forward") as one,
        padiff.record(layer, name="paddle", out=tmp_path, phase="forward") as other,
    ):
        module(torch.ones(1, 3))
        layer(paddle.ones([1, 3]))
        padiff.probe("a", torch.ones(1))
        padiff.probe("b", paddle.ones([1]))
        padiff.probe("c", np.ones(1))

    assert (named(one.path), named(other.path)) == ({"['a']"}, {"['b']", "['c']"})


def test_what_no_recorder_takes_is_refused(tmp_path: Path) -> None:
    model: Any = torch.nn.Linear(3, 2)

    with (
        pytest.raises(ConfigError, match="cannot record"),
        padiff.record(model, name="net", out=tmp_path),
    ):
        padiff.probe("a", "text")
    padiff.probe("a", "text")


def test_nothing_is_imported_where_nobody_records() -> None:
    code = (
        "import sys, padiff; padiff.probe('a', object());"
        "print(sorted({'numpy', 'h5py', 'torch', 'padiff.dumper'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
