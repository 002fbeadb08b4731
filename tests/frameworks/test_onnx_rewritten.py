"""Files that a tool quantised or made coarser, told as what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.float16 import convert_float_to_float16

from padiff.comparer import Verdict, compare
from tests.support.onnx_models import dump_file, export

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    for name in ("stack", "bert"):
        export(name, folder)
    return folder


@pytest.mark.parametrize("name", ["stack", "bert"])
def test_float16_matches_and_its_dtype_is_told(exported: Path, tmp_path: Path, name: str) -> None:
    model = convert_float_to_float16(onnx.load(exported / f"{name}.onnx"), keep_io_types=True)
    onnx.save(model, tmp_path / "half.onnx")

    dump = dump_file(
        tmp_path / "half.onnx",
        exported / f"{name}.npz",
        scopes_from=exported / f"{name}.onnx",
    )
    result = compare(exported / f"{name}_torch", dump)

    assert result.verdict is Verdict.MATCH, result.reasons
    assert "recorded differently: dtype float32 against float16" in result.notes


@pytest.mark.parametrize(("name", "layers"), [("stack", 5), ("bert", 12)])
def test_each_quantised_layer_is_named(
    exported: Path, tmp_path: Path, name: str, layers: int
) -> None:
    model = onnx.load(exported / f"{name}.onnx")
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "plain.onnx")
    quantize_dynamic(
        tmp_path / "plain.onnx",
        tmp_path / "int8.onnx",
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul"],
    )

    dump = dump_file(
        tmp_path / "int8.onnx",
        exported / f"{name}.npz",
        scopes_from=exported / f"{name}.onnx",
    )
    result = compare(exported / f"{name}_torch", dump)

    executed = result.steps[0].executed
    assert result.verdict is Verdict.DIVERGED
    assert executed is not None
    named = {
        one.module
        for edit in executed.function.edits
        for one in edit.operators[1]
        if one.name == "onnx.MatMulInteger"
    }
    assert len(named) >= layers, named
