"""What torch.save writes is read without torch, whatever the tensor and the form of the file."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from padiff.dumper.weights.checkpoint import read_arrays
from padiff.dumpfile import ConfigError
from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

BASE = torch.arange(12.0).reshape(3, 4)
COMPLEX = torch.tensor([1 + 2j, 3])
TENSORS: dict[str, torch.Tensor] = {
    "plain": BASE,
    "turned": BASE.t(),
    "view": BASE[1:, ::2],
    "half": BASE.half(),
    "bfloat16": BASE.bfloat16(),
    "float8": BASE.to(torch.float8_e5m2),
    "double": BASE.double(),
    "count": torch.tensor(5),
    "flags": torch.tensor([True, False]),
    "complex": COMPLEX,
    "conjugate": COMPLEX.conj(),
    "negative": torch.tensor([1 + 2j, 3]).conj().imag,
    "expanded": torch.zeros(1).expand(3, 4),
    "empty": torch.zeros(0, 3),
    "unsigned": torch.tensor([1, 2], dtype=torch.uint16),
    "parameter": torch.nn.Parameter(BASE),
    "buffer": torch.nn.Buffer(BASE.clone()),
}
OTHERS = {
    "epoch": 3,
    "options": {"names": {"a"}, "device": torch.device("cpu"), "size": torch.Size([1])},
    "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"lr": 0.1}]},
    "numpy": np.float32(3),
}


def parameter_with_an_attribute() -> torch.Tensor:
    found = torch.nn.Parameter(BASE.clone())
    found.note = "x"  # type: ignore[attr-defined]
    return found


def as_floats(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float32) if array.dtype.kind == "V" else array


@pytest.mark.parametrize("is_archive", [True, False])
def test_all_tensors_come_back(tmp_path: Path, *, is_archive: bool) -> None:
    path = tmp_path / "x.pth"
    tensors = OrderedDict(TENSORS, noted=parameter_with_an_attribute())
    torch.save({**OTHERS, "state_dict": tensors}, path, _use_new_zipfile_serialization=is_archive)

    found, framework = read_arrays(path)

    assert framework == "torch"
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        plain = tensor.detach().resolve_conj().resolve_neg()
        if plain.dtype in {torch.bfloat16, torch.float8_e5m2}:
            plain = plain.float()
        np.testing.assert_array_equal(as_floats(found[name]), plain.numpy(), err_msg=name)


def test_elements_are_mapped_and_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    torch.save({"w": BASE}, path)

    array = read_arrays(path)[0]["w"]

    assert not array.flags.owndata
    assert not array.flags.writeable


def test_another_byte_order_is_turned(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    torch.save({"w": BASE.double()}, path)
    data = path.read_bytes()
    there, turned = BASE.double().numpy(), BASE.double().numpy().byteswap()
    path.write_bytes(data.replace(b"little", b"big   ").replace(there.tobytes(), turned.tobytes()))

    found = read_arrays(path)[0]["w"]

    np.testing.assert_array_equal(found, there)


@pytest.mark.parametrize(
    "content", [BASE, [BASE], {"w": BASE.to_sparse()}, torch.nn.Linear(2, 3), {"w": "text"}]
)
def test_what_is_no_state_dict_is_refused(content: object, tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    torch.save(content, path)

    with pytest.raises(ConfigError, match="expected a state dict"):
        read_arrays(path)


def test_torch_is_not_needed_to_read(tmp_path: Path) -> None:
    torch.save({"w": BASE}, tmp_path / "x.pth")

    done = run_padiff("weights", "stats", "x.pth", cwd=tmp_path, blocked=["torch"])

    assert done.returncode == 0, done.stderr
    assert "3x4" in done.stdout


@pytest.mark.parametrize(
    "name", ["x.pth", "x.pdparams", "x.safetensors", "x.safetensors.index.json"]
)
def test_a_missing_file_is_called_one(name: str, tmp_path: Path) -> None:
    done = run_padiff("weights", "stats", name, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.startswith(f"padiff: error: cannot read weights {name!r}: no such file")
