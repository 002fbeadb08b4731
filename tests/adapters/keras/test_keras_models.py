"""Models of Keras on torch against the same in torch: no map; run by ``make adapter-keras``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from padiff import compare
from padiff.comparer import Verdict

HERE = Path(__file__).parent
CLASSES = {"perceptron": "Perceptron", "convolutions": "Convolutions", "encoder": "Encoder"}


def dump(folder: Path, file: str, name: str, *more: str) -> str:
    """Record a model in a process of its own and return what it says."""
    command = [sys.executable, "-m", "padiff", "dump", "--model", f"{HERE / file}:{name}"]
    command += ["--name", name, "--out", str(folder), "--overwrite", *more]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False,
        env={**os.environ, "KERAS_BACKEND": "torch"},
    )  # fmt: skip
    return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record the models of torch."""
    made = tmp_path_factory.mktemp("models")
    drawn = np.random.default_rng(0)
    image = drawn.standard_normal((2, 8, 8, 3)).astype(np.float32)
    np.save(made / "convolutions.npy", image)
    np.save(made / "Convolutions.npy", np.ascontiguousarray(image.transpose(0, 3, 1, 2)))
    for name in ("perceptron.npy", "Perceptron.npy"):
        np.save(made / name, np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32))
    for name in ("encoder.npy", "Encoder.npy"):
        np.save(made / name, np.random.default_rng(2).integers(0, 20, (2, 5)))
    for name in CLASSES.values():
        assert not dump(made, "torch_models.py", name, "--inputs", str(made / f"{name}.npy"))
    return made


def in_keras(folder: Path, name: str, *more: str) -> Path:
    given = ("--inputs", str(folder / f"{name}.npy"))
    source = ("--weights-from", str(folder / CLASSES[name]))
    assert not dump(folder, "keras_models.py", name, *given, *source, *more)
    return folder / name


@pytest.mark.parametrize("name", CLASSES)
def test_a_model_matches_that_of_torch_without_a_map(folder: Path, name: str) -> None:
    made = in_keras(folder, name)

    result = compare(folder / CLASSES[name], made)

    assert result.verdict is Verdict.MATCH, result.report()
    assert "same function, same leaves, sound execution" in result.report()


def test_a_planted_epsilon_is_proved_at_its_layer(folder: Path) -> None:
    made = in_keras(folder, "perceptron", "--model-arg", "epsilon=0.01")

    result = compare(folder / "Perceptron", made)

    assert result.verdict is Verdict.DIVERGED
    first = result.origins[0].pair.candidate
    assert first is not None
    assert first.address.module == "norm"
    assert "0.01 where the reference has 0.001" in result.report()


def test_training_is_refused_as_keras_asks_for_no_mode(folder: Path) -> None:
    inputs = ("--inputs", str(folder / "perceptron.npy"))

    said = dump(folder, "keras_models.py", "perceptron", *inputs, "--train")

    assert "forward calls model(x, training=True)" in said
