"""MindSpore against torch, each in its own interpreter; run by ``make adapter-mindspore``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import padiff

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
TORCH = os.environ.get("PADIFF_TORCH_PYTHON", "")
"""The interpreter of an environment with torch."""
REFERENCE, CANDIDATE = HERE / "torch_models.py", HERE / "mindspore_models.py"
INPUTS = {
    "LeNet": "auto:2x1x28x28:float32",
    "ResNet": "auto:4x3x32x32:float32",
    "Encoder": "auto:2x7:int64:0:50",
    "Mint": "auto:3x8:float32",
}
FAULTS = {
    "epsilon": ("ResNet", "layer2.0.bn1", "epsilon"),
    "scaled": ("Encoder", "layers.1.attention", "mul"),
}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the dumps of torch."""
    assert Path(TORCH).is_file(), "PADIFF_TORCH_PYTHON names no interpreter"
    folder = tmp_path_factory.mktemp("dumps")
    for name, inputs in INPUTS.items():
        run(TORCH, f"{REFERENCE}:{name}", name, folder, ["--inputs", inputs])
    return folder


def run(python: str, model: str, name: str, folder: Path, options: Sequence[str]) -> str:
    command = [python, "-m", "padiff", "dump", "--model", model, "--name", name]
    command += ["--out", str(folder), "--overwrite", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def compared(dumps: Path, known: str, built: str, *options: str) -> padiff.Comparison:
    """Dump a model of MindSpore with the inputs and weights of a dump of torch, and compare."""
    source = str(dumps / known)
    given = ["--inputs-from", source, "--weights-from", source, *options]
    run(sys.executable, f"{CANDIDATE}:{built}", f"m_{built}", dumps, given)
    return padiff.compare(source, dumps / f"m_{built}")


@pytest.mark.parametrize("name", INPUTS)
def test_a_port_matches_forward_and_backward_without_a_map(dumps: Path, name: str) -> None:
    found = compared(dumps, name, name)

    assert found, found.report()
    assert "gradients agree; same function, same leaves, sound execution" in found.report()


@pytest.mark.parametrize("built", FAULTS)
def test_a_planted_fault_is_proved_at_its_module(dumps: Path, built: str) -> None:
    known, module, cause = FAULTS[built]

    found = compared(dumps, known, built)

    assert not found
    assert found.first is not None
    assert found.first.pair.candidate is not None
    assert found.first.pair.candidate.address.module == module
    assert "proved" in found.report()
    assert cause in found.first.cause


def test_training_steps_match(dumps: Path) -> None:
    common = ["--train", "--steps", "3", "--optimizer-arg", "momentum=0.9"]
    inputs = ["--inputs", INPUTS["ResNet"]]
    loss = "mean_square"
    torch = [*inputs, *common, "--loss", f"{REFERENCE}:{loss}", "--optimizer", "torch.optim:SGD"]
    run(TORCH, f"{REFERENCE}:ResNet", "trained", dumps, [*torch, "--optimizer-arg", "lr=0.1"])

    found = compared(
        dumps, "trained", "ResNet", *common, "--loss", f"{CANDIDATE}:{loss}",
        "--optimizer", "mindspore.nn:Momentum", "--optimizer-arg", "learning_rate=0.1",
    )  # fmt: skip

    assert found, found.report()
    assert len(found.steps) == 3


def test_one_call_compares_two_environments(dumps: Path) -> None:
    found = padiff.compare_models(
        f"{REFERENCE}:LeNet", f"{CANDIDATE}:LeNet", (2, 1, 28, 28), python_reference=TORCH
    )

    assert found


def test_weights_go_back_to_torch(dumps: Path) -> None:
    run(sys.executable, f"{CANDIDATE}:LeNet", "own", dumps, ["--inputs", INPUTS["LeNet"]])
    source = str(dumps / "own")
    run(TORCH, f"{REFERENCE}:LeNet", "back", dumps,
        ["--inputs-from", source, "--weights-from", source])  # fmt: skip

    assert padiff.compare(source, dumps / "back")


def test_a_checkpoint_is_loaded_into_torch(dumps: Path) -> None:
    import mindspore  # noqa: PLC0415 - only where it is installed

    sys.path.insert(0, str(HERE))
    import mindspore_models  # noqa: PLC0415

    mindspore.save_checkpoint(mindspore_models.LeNet(), str(dumps / "net.ckpt"))
    options = ["--inputs", INPUTS["LeNet"], "--weights-from", str(dumps / "net.ckpt")]

    run(TORCH, f"{REFERENCE}:LeNet", "loaded", dumps, options)


def test_recording_changes_no_result_and_leaves_nothing_behind(tmp_path: Path) -> None:
    import mindspore  # noqa: PLC0415 - only where it is installed

    sys.path.insert(0, str(HERE))
    import mindspore_models  # noqa: PLC0415

    patched = mindspore.nn.Cell.__call__, mindspore.ops.MatMul.__call__, type(mindspore.Tensor)
    net = mindspore_models.LeNet()
    data = mindspore.Tensor(np.random.default_rng(0).normal(size=(2, 1, 28, 28)), mindspore.float32)
    weights = mindspore.ParameterTuple(net.trainable_params())
    gradients = mindspore.grad(lambda x: net(x).mean(), None, weights)
    plain, expected = net(data).asnumpy(), [one.asnumpy() for one in gradients(data)]

    with padiff.record(net, name="own", out=tmp_path):
        recorded = gradients(data)

    assert (net(data).asnumpy() == plain).all()
    for one, other in zip(expected, recorded, strict=True):
        assert (one == other.asnumpy()).all()
    assert patched[:2] == (mindspore.nn.Cell.__call__, mindspore.ops.MatMul.__call__)
    assert "__call__" not in vars(patched[2])
    assert "__add__" not in vars(mindspore.Tensor)
