"""A sampled dump stands in for a full one: NCHW against NHWC, transposed weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, compare
from padiff.comparer.result import Evidence, Verdict
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.inputs import InputFile
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import Keep

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32, eps=eps)
        self.pool, self.fc = nn.AvgPool2d(2), nn.Linear(32 * 8 * 8, 100)

    def forward(self, x):
        return self.fc(self.pool(self.norm(self.conv(x))).flatten(1))

def build(eps=1e-5):
    torch.manual_seed(0)
    return Net(eps)
"""
PADDLE = """
from paddle import nn

class Net(nn.Layer):
    def __init__(self, eps):
        super().__init__()
        self.conv = nn.Conv2D(3, 32, 3, padding=1, data_format="NHWC")
        self.norm = nn.BatchNorm2D(32, epsilon=eps, data_format="NHWC")
        self.pool, self.fc = nn.AvgPool2D(2, data_format="NHWC"), nn.Linear(32 * 8 * 8, 100)

    def forward(self, x):
        x = self.pool(self.norm(self.conv(x.transpose([0, 2, 3, 1]))))
        return self.fc(x.transpose([0, 3, 1, 2]).flatten(1))

def build(eps=1e-5):
    return Net(eps)
"""
SAMPLE = Keep.parse("sample=1024")


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sampled")
    x = np.random.default_rng(0).standard_normal((16, 3, 16, 16)).astype(np.float32)
    np.save(folder / "x.npy", x)
    (folder / "net_torch.py").write_text(TORCH, encoding="utf-8")
    (folder / "net_paddle.py").write_text(PADDLE, encoding="utf-8")
    made: dict[str, Path] = {}
    for name, framework, keep, eps in (
        ("torch", "torch", Keep(), None),
        ("torch sampled", "torch", SAMPLE, None),
        ("paddle", "paddle", Keep(), None),
        ("paddle sampled", "paddle", SAMPLE, None),
        ("paddle faulty", "paddle", SAMPLE, 0.1),
    ):
        arguments = {} if eps is None else {"eps": eps}
        made[name] = run(
            RunSettings(
                model=parse_target(f"{folder / f'net_{framework}.py'}:build", arguments),
                inputs=(InputFile(path=folder / "x.npy"),),
                record=RecordSettings(out=folder, name=name, content=keep),
                weights_from=made.get("torch"),
            )
        )
    return made


def size_of(dump: Path) -> int:
    return sum(file.stat().st_size for file in dump.rglob("*") if file.is_file())


def test_sampled_dump_is_small(dumps: dict[str, Path]) -> None:
    assert size_of(dumps["torch sampled"]) * 20 < size_of(dumps["torch"])


@pytest.mark.parametrize(
    "names",
    [("torch", "paddle sampled"), ("torch sampled", "paddle"), ("torch sampled", "paddle sampled")],
)
def test_right_port_matches_element_by_element(
    names: tuple[str, str], dumps: dict[str, Path]
) -> None:
    found = compare(dumps[names[0]], dumps[names[1]], CompareSettings())

    pairs = found.steps[0].pairs
    assert found.verdict is Verdict.MATCH, found.reasons
    moved = [pair for pair in pairs if "permute" in pair.layout]
    assert len(moved) >= 4
    # One gradient of torch was met flattened first: its sample is of another shape.
    kinds = [pair.rests_on for pair in moved]
    assert kinds.count(Evidence.STATISTICS) <= 1
    assert kinds.count(Evidence.SAMPLE) >= len(moved) - 1
    weight = next(
        pair
        for pair in pairs
        if pair.reference is not None
        and (pair.reference.address.module, pair.reference.address.role) == ("fc", "weight")
    )
    assert (weight.layout, weight.rests_on) == ("transpose", Evidence.SAMPLE)
    assert weight.metrics is not None
    assert weight.metrics.size >= 1024


@pytest.mark.parametrize("reference", ["torch", "torch sampled"])
def test_fault_is_found_where_it_is(reference: str, dumps: dict[str, Path]) -> None:
    found = compare(dumps[reference], dumps["paddle faulty"], CompareSettings())

    (origin,) = found.origins
    assert origin.pair.reference is not None
    assert origin.pair.reference.address.module == "norm"
    assert origin.pair.rests_on is Evidence.SAMPLE
    assert any("eps" in line for line in origin.evidence)
