"""Checkpoints of MindSpore, read without it; the bytes were written by MindSpore 2.10."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumper.recording.named import infer_modules
from padiff.dumper.weights.checkpoint import FileSide, read_arrays
from padiff.dumpfile import ConfigError
from padiff.pairing.weights.plan import plan_weights

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = (
    b"\n$\n\x04half\x12\x1c\x08\x02\x08\x03\x12\x08BFloat16\x1a\x0c\x80?\x80?\x80?\x80?\x80?\x80?"
    b"\n\x16\n\x05count\x12\r\x12\x05Int32\x1a\x04\x03\x00\x00\x00"
    b"\n\x14\n\x04flag\x12\x0c\x08\x02\x12\x04Bool\x1a\x02\x01\x00"
)


def test_names_dtypes_sizes_and_elements_are_read(tmp_path: Path) -> None:
    (tmp_path / "net.ckpt").write_bytes(WRITTEN)

    arrays, framework = read_arrays(tmp_path / "net.ckpt")

    assert framework == "mindspore"
    assert list(arrays) == ["half", "count", "flag"]
    assert arrays["half"].dtype.name == "bfloat16"
    assert arrays["half"].tolist() == [[1.0] * 3] * 2
    assert arrays["count"].shape == ()
    assert arrays["count"] == np.int32(3)
    assert arrays["flag"].tolist() == [True, False]


@pytest.mark.parametrize("size", range(1, len(WRITTEN)))
def test_a_file_that_was_cut_off_is_refused_or_lacks_whole_tensors(
    tmp_path: Path, size: int
) -> None:
    (tmp_path / "net.ckpt").write_bytes(WRITTEN[:size])

    try:
        arrays, _ = read_arrays(tmp_path / "net.ckpt")
    except ConfigError as error:
        assert "damaged" in str(error)  # noqa: PT017
    else:
        assert list(arrays) == ["half", "count", "flag"][: len(arrays)]
        assert size in (38, 62)


def test_names_and_sizes_tell_classes() -> None:
    shapes = {"conv.weight": (4, 3, 3, 3), "bn.gamma": (4,), "bn.moving_mean": (4,),
              "norm.gamma": (8,), "fc.weight": (2, 8), "embed.embedding_table": (5, 8)}  # fmt: skip

    modules, _ = infer_modules(shapes, "mindspore")

    found = {one.path: one.class_path for one in modules if one.path}
    assert found == {
        "conv": "mindspore.nn.Conv2d",
        "bn": "mindspore.nn.BatchNorm2d",
        "norm": "mindspore.nn.LayerNorm",
        "fc": "mindspore.nn.Dense",
        "embed": "mindspore.nn.Embedding",
    }


def test_weights_of_norms_find_those_of_torch_without_a_map() -> None:
    names = {
        "bn.weight": "bn.gamma",
        "bn.bias": "bn.beta",
        "bn.running_mean": "bn.moving_mean",
        "bn.running_var": "bn.moving_variance",
        "norm.weight": "norm.gamma",
        "norm.bias": "norm.beta",
    }
    drawn = np.random.default_rng(0)
    torch = FileSide({name: drawn.standard_normal(4) for name in names}, "torch")
    mindspore = FileSide(
        {name: drawn.standard_normal(4) for name in reversed(names.values())}, "mindspore"
    )

    plan = plan_weights(torch, mindspore)

    given, held = list(names), list(reversed(names.values()))
    found = {given[pair.reference[0]]: held[pair.candidate] for pair in plan.pairs}
    assert found == names
    assert not plan.alone


def test_an_unknown_dtype_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.ckpt").write_bytes(WRITTEN.replace(b"Int32", b"Int33"))

    with pytest.raises(ConfigError, match="Int33"):
        read_arrays(tmp_path / "net.ckpt")
