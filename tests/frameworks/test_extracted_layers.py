"""A layer taken out of a dump computes alone what was recorded, in both frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer.extracting.extract import extract
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.inputs import InputFile
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
from padiff.dumper.runs.target import parse_target
from tests.support.command import run_python

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

MODEL = """
from {framework} import nn

class Own(nn.{base}):
    def forward(self, x):
        return x + 1

class Pair(nn.{base}):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, pair, scale=1.0):
        return {{"sum": self.inner(pair[0]) * scale + pair[1], "parts": (pair[0],)}}

class Nested(nn.{base}):
    def __init__(self):
        super().__init__()
        self.pair = Pair()
        self.lstm = nn.LSTM(6, 4, {directions})
        self.block = nn.TransformerEncoderLayer(6, 2, 10, dropout=0.0, {batch_first})
        self.stack = nn.Sequential(nn.Linear(6, 5), nn.Sequential(nn.ReLU(), nn.Linear(5, 6)))
        self.attention = nn.{attention}(6, 2, {batch_first})

    def forward(self, x):
        x = self.block(self.stack(self.pair((x, x), scale=2.0)["sum"][:, None]))
        x = self.attention(x, x, x)
        y, state = self.lstm(x[0] if isinstance(x, tuple) else x)
        return y[:, 0] + state[0].mean()

def build_nested():
    return Nested()

def build():
    return nn.Sequential(
        nn.{conv}(3, 8, 3, 2, 1), nn.{norm}(8), nn.LeakyReLU(0.2), nn.{pool}(2), nn.Flatten(),
        nn.Linear(32, 6), nn.LayerNorm(6), nn.GELU(), nn.Softmax(-1), nn.Dropout(0.3), Own(),
    )
"""
WORDS = {
    "torch": {
        "base": "Module",
        "conv": "Conv2d",
        "norm": "BatchNorm2d",
        "pool": "MaxPool2d",
        "attention": "MultiheadAttention",
        "batch_first": "batch_first=True",
        "directions": "batch_first=True, bidirectional=True",
    },
    "paddle": {
        "base": "Layer",
        "conv": "Conv2D",
        "norm": "BatchNorm2D",
        "pool": "MaxPool2D",
        "attention": "MultiHeadAttention",
        "batch_first": "",
        "directions": 'direction="bidirect"',
    },
}
LAYERS = 10
RUN = ("0", "1", "3", "5")
"""Those whose class takes arguments of every sort; each needs two processes."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("extracted")
    inputs = folder / "x.npy"
    np.save(inputs, np.random.default_rng(0).standard_normal((2, 3, 9, 9)).astype(np.float32))
    found: list[Path] = []
    for framework, words in WORDS.items():
        model = folder / f"layers_{framework}.py"
        model.write_text(MODEL.format(framework=framework, **words), encoding="utf-8")
        found.append(
            run(
                RunSettings(
                    model=parse_target(f"{model}:build"),
                    inputs=(InputFile(path=inputs),),
                    record=RecordSettings(out=folder, name=framework),
                    weights_from=found[0] if found else None,
                )
            )
        )
    return found[0], found[1]


@pytest.mark.parametrize("module", RUN)
def test_script_reproduces_the_recorded_output(
    module: str, dumps: tuple[Path, Path], tmp_path: Path
) -> None:
    assert len(extract(*dumps, module, tmp_path)) == 2

    for side in ("reference", "candidate"):
        done = said_by(tmp_path / f"{side}.py")
        assert done.returncode == 0, done.stderr
        assert "agrees" in done.stdout


def record(
    folder: Path, framework: str, build: str, x: np.ndarray, dtype: str | None = None
) -> Path:
    """Record one of the models in a folder."""
    model = folder / f"layers_{framework}.py"
    text = MODEL.format(framework=framework, **WORDS[framework])
    model.write_text(text, encoding="utf-8")
    np.save(folder / "x.npy", x)
    return run(
        RunSettings(
            model=parse_target(f"{model}:{build}"),
            inputs=(InputFile(path=folder / "x.npy"),),
            record=RecordSettings(out=folder, name=f"{framework} {build}"),
            dtype=dtype,
        )
    )


def said_by(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script."""
    return run_python(script, *words, cwd=script.parent)


def reproduces(script: Path, *words: str) -> str:
    """Run a script that must succeed; gives what it said."""
    done = said_by(script, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("framework", list(WORDS))
def test_layers_made_of_layers_and_nested_values_run_alone(framework: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
    dump = record(tmp_path, framework, "build_nested", x)

    for module in ("stack", "block", "lstm", "attention"):
        extract(dump, dump, module, tmp_path / module)
        assert "agrees" in reproduces(tmp_path / module / "reference.py")

    # A class of the user: the stub is filled in as it says, all else is put together by itself.
    extract(dump, dump, "pair", tmp_path / "pair")
    script = tmp_path / "pair" / "reference.py"
    text = script.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "raise NotImplementedError" in line)
    filled = f"    sys.path.insert(0, {str(tmp_path)!r})\n"
    filled += f"    from layers_{framework} import Pair\n    return Pair()"
    script.write_text(text.replace(line, filled, 1), encoding="utf-8")
    said = reproduces(script)
    assert "output['sum']: agrees" in said
    assert "output['parts'][0]: agrees" in said


def test_bfloat16_layer_runs_alone(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 9)).astype(np.float32)
    dump = record(tmp_path, "torch", "build", x, dtype="bfloat16")

    for module in ("0", "6"):
        extract(dump, dump, module, tmp_path / module)
        assert "agrees, max abs 0.0" in reproduces(tmp_path / module / "reference.py")


def test_class_of_the_user_gets_a_stub_that_says_what_to_do(
    dumps: tuple[Path, Path], tmp_path: Path
) -> None:
    extract(*dumps, str(LAYERS), tmp_path)

    done = said_by(tmp_path / "candidate.py")

    assert done.returncode == 1
    assert "make the layer here: layers_paddle.Own" in done.stderr


TRAINED = """
from {framework} import nn
import {framework}

def build():
    return nn.Sequential(nn.Linear(6, 5), nn.{norm}(5), nn.Linear(5, 4))

def faulty():
    return nn.Sequential(nn.Linear(6, 5), nn.{norm}(5, {epsilon}=0.5), nn.Linear(5, 4))

def sgd(model):
    return {sgd}
"""
TRAINED_WORDS = {
    "torch": {
        "norm": "BatchNorm1d",
        "epsilon": "eps",
        "sgd": "torch.optim.SGD(model.parameters(), lr=1.0)",
    },
    "paddle": {
        "norm": "LayerNorm",
        "epsilon": "epsilon",
        "sgd": "paddle.optimizer.SGD(1.0, parameters=model.parameters())",
    },
}


def train(folder: Path, framework: str, build: str, weights_from: Path | None = None) -> Path:
    """Record a training step of one of the models."""
    words = TRAINED_WORDS[framework]
    if weights_from is not None:
        words = {**words, "norm": "LayerNorm"}
    model = folder / f"trained_{framework}_{build}.py"
    model.write_text(TRAINED.format(framework=framework, **words), encoding="utf-8")
    x = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)
    np.save(folder / "x.npy", x)
    return run(
        RunSettings(
            model=parse_target(f"{model}:{build}"),
            inputs=(InputFile(path=folder / "x.npy"),),
            record=RecordSettings(out=folder, name=f"{framework} {build}"),
            training=True,
            weights_from=weights_from,
            train=TrainSettings(
                optimizer=parse_target(f"{model}:sgd", noun="optimizer"),
            ),
        )
    )


@pytest.mark.parametrize(("module", "framework"), [("0", "paddle"), ("1", "torch")])
def test_a_layer_of_a_training_step_runs_with_the_weights_before_it(
    module: str, framework: str, tmp_path: Path
) -> None:
    dump = train(tmp_path, framework, "build")

    extract(dump, dump, module, tmp_path / "out")

    assert "agrees" in reproduces(tmp_path / "out" / "reference.py")


def test_the_candidates_layer_is_run_against_the_reference(tmp_path: Path) -> None:
    reference = train(tmp_path, "paddle", "build")
    candidate = train(tmp_path, "torch", "faulty", weights_from=reference)
    extract(reference, candidate, "1", tmp_path / "one")
    extract(reference, candidate, "2", tmp_path / "two")

    assert "agrees" in reproduces(tmp_path / "one" / "candidate.py")
    assert "agrees" in reproduces(tmp_path / "two" / "candidate.py", "--against", "reference")
    wrong = said_by(tmp_path / "one" / "candidate.py", "--against", "reference")
    assert wrong.returncode == 1
    assert "output: DIFFERS" in wrong.stdout

    # The fault is mended where the layer is made, and the script is asked again.
    description = tmp_path / "one" / "candidate.json"
    text = description.read_text(encoding="utf-8")
    assert '"eps": 0.5' in text
    description.write_text(text.replace('"eps": 0.5', '"eps": 1e-05'), encoding="utf-8")
    assert "agrees" in reproduces(tmp_path / "one" / "candidate.py", "--against", "reference")


def test_other_words_are_refused(dumps: tuple[Path, Path], tmp_path: Path) -> None:
    extract(*dumps, "1", tmp_path)

    done = said_by(tmp_path / "candidate.py", "--agianst")

    assert done.returncode == 1
    assert "found --agianst" in done.stderr
