"""Models exported by ``torch.onnx.export``: recorded as graphs, compared with torch, no map.

So are files that a tool quantised or made coarser, which are told as what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.float16 import convert_float_to_float16

from padiff import compare
from padiff.comparer import Verdict
from padiff.comparer.auditing import Soundness
from padiff.dumper.graphs import Optimization
from padiff.dumpfile import open_dump
from tests.support.onnx_models import FAULTS, MODELS, dump_file, export

if TYPE_CHECKING:
    from pathlib import Path

    from padiff import Comparison


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export each model and record it in torch."""
    folder = tmp_path_factory.mktemp("exported")
    for name in MODELS:
        export(name, folder)
    return folder


def against_torch(name: str, dump: Path) -> Comparison:
    return compare(dump.parent / f"{name}_torch", dump)


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_matches_without_a_map(exported: Path, name: str) -> None:
    dump = dump_file(exported / f"{name}.onnx", exported / f"{name}.npz")

    result = against_torch(name, dump)

    assert result.verdict is Verdict.MATCH, result.reasons
    executed = result.steps[0].executed
    assert executed is not None
    assert executed.soundness == (Soundness.SOUND, Soundness.SOUND)
    assert not executed.is_hidden


@pytest.mark.parametrize("name", ["stack", "derived", "bert", "tied llama", "vit"])
def test_what_the_exporter_folded_is_no_reason_for_a_tolerance(exported: Path, name: str) -> None:
    dump = dump_file(exported / f"{name}.onnx", exported / f"{name}.npz")

    executed = against_torch(name, dump).steps[0].executed

    assert executed is not None
    assert executed.function.tolerated == 0
    assert executed.function.lone[1] == 0


@pytest.mark.parametrize("name", ["convolutional", "bert", "llama"])
def test_a_model_matches_by_execution_alone(exported: Path, name: str) -> None:
    dump = dump_file(exported / f"{name}.onnx", exported / f"{name}.npz", no_run=True)

    result = against_torch(name, dump)

    assert result.verdict is Verdict.MATCH, result.reasons
    executed = result.steps[0].executed
    assert executed is not None
    assert executed.soundness == (Soundness.SOUND, Soundness.NOT_RUN)
    assert result.scope.not_run == ("candidate",)


@pytest.mark.parametrize("optimization", [Optimization.BASIC, Optimization.ALL])
@pytest.mark.parametrize("name", ["stack", "convolutional", "bert"])
def test_values_of_an_optimised_run_are_those_of_the_file(
    exported: Path, name: str, optimization: Optimization
) -> None:
    dump = dump_file(exported / f"{name}.onnx", exported / f"{name}.npz", optimization=optimization)

    result = against_torch(name, dump)

    assert result.verdict is Verdict.MATCH, result.reasons


@pytest.mark.parametrize("no_run", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_at_its_module(
    exported: Path, tmp_path: Path, fault: str, *, no_run: bool
) -> None:
    plant, module, cause = FAULTS[fault]
    model = onnx.load(exported / "bert.onnx")
    plant(model)
    onnx.save(model, tmp_path / "bert.onnx")

    dump = dump_file(tmp_path / "bert.onnx", exported / "bert.npz", no_run=no_run)
    result = compare(exported / "bert_torch", dump)

    first = result.origins[0].pair.candidate or result.origins[0].pair.reference
    assert result.verdict is Verdict.DIVERGED
    assert first is not None
    assert first.address.module == module
    assert cause in result.report()


def test_weights_have_the_names_and_axes_of_their_modules(exported: Path) -> None:
    dump = dump_file(exported / "stack.onnx", exported / "stack.npz")

    with (
        open_dump(dump).open(0, 0) as file,
        open_dump(exported / "stack_torch").open(0, 0) as known,
    ):
        weights = [
            {
                f"{one.index.modules[record.module].path}{record.slot}": one.array(record)
                for record in one.index.records
                if record.role == "weight"
            }
            for one in (known, file)
        ]

    assert weights[0].keys() == weights[1].keys()
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_missing_weights_are_told_as_folded(exported: Path) -> None:
    dump = dump_file(exported / "bert.onnx", exported / "bert.npz")

    text = against_torch("bert", dump).report()

    assert "the exporter of the candidate folded it or left it out" in text


@pytest.mark.parametrize("opset", [18, 23])
def test_other_opsets_match_too(tmp_path: Path, opset: int) -> None:
    for name in ("stack", "convolutional"):
        export(name, tmp_path, opset_version=opset)

        result = against_torch(name, dump_file(tmp_path / f"{name}.onnx", tmp_path / f"{name}.npz"))

        assert result.verdict is Verdict.MATCH, (name, result.reasons)
        assert result.candidate.framework_version.startswith(f"opset {opset}")


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
        one.module: edit.times
        for edit in executed.function.edits
        for one in edit.operators[1]
        if one.name == "onnx.MatMulInteger"
    }
    assert sum(named.values()) >= layers, named
    assert len(named) >= len({name.rpartition(".")[2] for name in named}) > 1
