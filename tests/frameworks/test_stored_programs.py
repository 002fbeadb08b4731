"""Commands that read programs say of a dump in a store what they say of one on a disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import fsspec
import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.dumpfile import Role, open_dump
from padiff.dumpfile.transfer import push

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = "reference", "candidate"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Record a net and one with another epsilon, and push both."""
    made = tmp_path_factory.mktemp("stored")
    for name, eps in zip(NAMES, (1e-5, 1e-1), strict=True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32, eps=eps), nn.Linear(32, 2))
        with padiff.record(model, name=name, out=made):
            model(torch.randn(4, 8)).square().mean().backward()
        push(made / name, f"memory://stored/{name}")
    yield made
    fsspec.filesystem("memory").store.clear()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("compare REFERENCE CANDIDATE", 1),
        ("compare REFERENCE CANDIDATE --json report.json", 1),
        ("audit REFERENCE", 0),
        ("export REFERENCE -o program.onnx", 0),
        ("show CANDIDATE --program", 0),
        ("extract REFERENCE CANDIDATE --module 1 -o layer", 0),
        ("weights plan REFERENCE CANDIDATE", 0),
        ("check CANDIDATE --deep", 0),
    ],
)
def test_a_url_takes_the_place_of_a_directory(
    folder: Path,
    tmp_path: Path,
    words: str,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = []
    for where, place in (("disk", str(folder)), ("store", "memory://stored")):
        (tmp_path / where).mkdir()
        monkeypatch.chdir(tmp_path / where)
        given = words
        for name in NAMES:
            given = given.replace(name.upper(), f"{place}/{name}")
        found = main(given.split())
        written = capsys.readouterr()
        assert (found, written.err) == (code, "")
        files = sorted(os.walk("."))
        said.append((written.out.replace(place, "").replace("memory:/stored", ""), files))

    assert said[0] == said[1]


def test_weights_and_inputs_come_out_of_a_store(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        "    return nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 2))\n"
    )
    monkeypatch.chdir(tmp_path)
    url = "memory://stored/reference"
    sources = ["--weights-from", url, "--inputs-from", url]

    assert main(["dump", "--model", "net.py:build", "--name", "again", *sources]) == 0

    assert outputs("padiff_dump/again") == outputs(folder / "reference")


def outputs(dump: Path | str) -> list[bytes]:
    with open_dump(dump).open() as file:
        return [file.array(one).tobytes() for one in file.index.records if one.role is Role.OUTPUT]
