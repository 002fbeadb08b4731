"""Models of flax.nnx against the same in torch: no map, and planted faults are proved."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from padiff import compare
from padiff.comparer import Verdict
from padiff.comparer.auditing import Soundness

MODELS = Path(__file__).parent / "models"
CLASSES = {"resnet": "ResNet", "encoder": "Encoder"}
FAULTS = {
    "epsilon": ("resnet", "epsilon=0.001", "blocks.1.bn2", "0.001 where the reference has 1e-05"),
    "activation": ("encoder", "approximate=true", "layers.1", "gelu"),
    "scale": ("encoder", "share=0.9", "layers.1", "mul"),
}
"""The model, the argument that plants it, the module at which it is found, a word of the proof."""


def dump(python: str, name: str, framework: str, folder: Path, *more: str) -> Path:
    """Record a model in a process of its own."""
    suffix = "" if framework == "jax" or name == "encoder" else "_nchw"
    model = f"{MODELS / f'{name}_{framework}.py'}:{CLASSES[name]}"
    command = [python, "-m", "padiff", "dump", "--model", model, "--out", str(folder)]
    command += ["--inputs", str(folder / f"{name}{suffix}.npz"), "--overwrite", *more]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / command[command.index("--name") + 1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record both models in torch."""
    made = tmp_path_factory.mktemp("models")
    drawn = np.random.default_rng(0)
    image = drawn.standard_normal((2, 8, 8, 3)).astype(np.float32)
    np.savez(made / "resnet.npz", x=image)
    np.savez(made / "resnet_nchw.npz", x=np.ascontiguousarray(image.transpose(0, 3, 1, 2)))
    mask = np.ones((2, 12), np.int64)
    mask[1, 8:] = 0
    np.savez(made / "encoder.npz", ids=drawn.integers(0, 50, (2, 12)), mask=mask)
    for name in CLASSES:
        dump(os.environ["PADIFF_TORCH_PYTHON"], name, "torch", made, "--name", f"{name}_torch")
    return made


def in_jax(name: str, folder: Path, *more: str) -> Path:
    weights = ("--weights-from", str(folder / f"{name}_torch"), "--name", f"{name}_jax")
    return dump(sys.executable, name, "jax", folder, *weights, *more)


@pytest.mark.parametrize("name", CLASSES)
def test_a_model_matches_that_of_torch_without_a_map(folder: Path, name: str) -> None:
    made = in_jax(name, folder)

    result = compare(folder / f"{name}_torch", made)

    assert result.verdict is Verdict.MATCH, result.report()
    assert "gradients" in result.report()
    executed = result.steps[0].executed
    assert executed is not None
    assert executed.soundness == (Soundness.SOUND, Soundness.SOUND)
    assert executed.function.tolerated == 0


@pytest.mark.parametrize("name", CLASSES)
def test_weights_can_be_carried_back_into_torch(folder: Path, name: str) -> None:
    made = in_jax(name, folder)
    more = ("--weights-from", str(made), "--name", f"{name}_back")

    back = dump(os.environ["PADIFF_TORCH_PYTHON"], name, "torch", folder, *more)

    result = compare(made, back)
    assert result.verdict is Verdict.MATCH, result.report()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_proved_at_its_module(folder: Path, fault: str) -> None:
    name, argument, module, cause = FAULTS[fault]
    made = in_jax(name, folder, "--model-arg", argument)

    result = compare(folder / f"{name}_torch", made)

    first = result.origins[0].pair.candidate or result.origins[0].pair.reference
    assert result.verdict is Verdict.DIVERGED
    assert first is not None
    assert first.address.module == module
    proofs = [line for line in result.report().splitlines() if "proved" in line]
    assert proofs, result.report()
    assert cause in proofs[0]
