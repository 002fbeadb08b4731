"""Checkpoint files as libraries save them: in several files, in a folder, wrapped, transposed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.dumper.weights.checkpoint import FileSide, open_source, read_arrays, write_arrays
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(6)
ARRAYS: dict[str, Any] = {
    "fc.weight": RNG.normal(size=(3, 5)), "fc.bias": RNG.normal(size=3), "step": np.array(4),
}  # fmt: skip


def _sharded(folder: Path, **changes: str) -> Path:
    write_arrays(folder / "one.safetensors", {"fc.weight": ARRAYS["fc.weight"]})
    rest = {name: ARRAYS[name] for name in ("fc.bias", "step")}
    write_arrays(folder / "two.safetensors", rest)
    files = {
        "fc.weight": "one.safetensors",
        "fc.bias": "two.safetensors",
        "step": "two.safetensors",
    }
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {**files, **changes}}))
    return index


def test_checkpoint_in_several_files_is_read_by_its_index(tmp_path: Path) -> None:
    found, _ = read_arrays(_sharded(tmp_path))

    assert sorted(found) == sorted(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape


def test_folder_of_a_checkpoint_is_a_source(tmp_path: Path) -> None:
    _sharded(tmp_path)

    with open_source(tmp_path) as side:
        assert len(side.index.records) == len(ARRAYS)


@pytest.mark.parametrize(
    "file", ["three.safetensors", "../one.safetensors", "/etc/passwd", "..", ""]
)
def test_index_that_names_no_file_beside_it_is_refused(tmp_path: Path, file: str) -> None:
    with pytest.raises(ConfigError, match="expected all files") as caught:
        read_arrays(_sharded(tmp_path, step=file))

    assert [repr(file) in detail for detail in caught.value.details] == [True]


def test_names_that_the_files_lack_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected all names") as caught:
        read_arrays(_sharded(tmp_path, extra="one.safetensors", more="two.safetensors"))

    assert [detail.split()[-1] for detail in caught.value.details] == ["'extra'", "'more'"]


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"weight_map": 3}', "[" * 10**5])
def test_damaged_index_is_refused(tmp_path: Path, text: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(text)

    with pytest.raises(ConfigError, match="no valid index"):
        read_arrays(index)


def _classes(**shapes: tuple[int, ...]) -> dict[str, str]:
    arrays: dict[str, Any] = {}
    for name, (rows, columns, *bias) in shapes.items():
        path = name.replace("_of_", ".")
        arrays[f"{path}.weight"] = np.zeros((rows, columns))
        if bias:
            arrays[f"{path}.bias"] = np.zeros(bias)
    modules = FileSide(arrays, "torch").index.modules
    return {module.path: module.class_path for module in modules if module.class_path}


def test_biases_tell_that_products_lie_transposed() -> None:
    """GPT-2 of transformers: the square c_proj follows the other c_proj."""
    found = _classes(attn_of_c_proj=(4, 4, 4), mlp_of_c_proj=(16, 4, 4), lm_head=(60, 4))

    assert found == {
        "attn.c_proj": "transformers.pytorch_utils.Conv1D",
        "mlp.c_proj": "transformers.pytorch_utils.Conv1D",
        "lm_head": "torch.nn.Linear",
    }


def test_products_that_lie_as_the_framework_keeps_them_are_its_own() -> None:
    found = _classes(attn_of_c_proj=(4, 4, 4), mlp_of_c_proj=(4, 16, 4))

    assert set(found.values()) == {"torch.nn.Linear"}


def test_class_of_a_name_that_lies_both_ways_is_not_known() -> None:
    assert _classes(one_of_proj=(16, 4, 4), two_of_proj=(4, 16, 4), three_of_proj=(4, 4, 4)) == {}
