"""``padiff dump --model FILE.onnx`` as users run it: what it writes, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from padiff.dumpfile import LeafKind, open_dump
from padiff.program import read_program
from tests.support.command import run_padiff
from tests.support.onnx_models import small_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DUMP = ("dump", "--model", "small.onnx", "--inputs", "x.npz")


def test_a_graph_without_metadata_is_recorded(tmp_path: Path) -> None:
    small_file(tmp_path)

    done = run_padiff(*DUMP, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    dump = open_dump(tmp_path / "padiff_dump" / "small")
    assert dump.problems() == []
    assert dump.manifest.framework == "onnx"
    assert dump.manifest.framework_version.startswith("opset 20, onnxruntime ")
    with dump.open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        names = [one.name for one in recorded.program.operators]
        kinds = {one.name: one.kind for one in recorded.program.values if one.name}
        modules = [module.path for module in file.index.modules]
        values = [recorded.elements(one.id) for one in recorded.program.values if one.kind is None]
    assert names == ["onnx.MatMul", "onnx.Relu"]
    assert kinds == {"fc.weight": LeafKind.PARAMETER}
    assert modules == ["", "fc", "act"]
    assert [None if one is None else one.tolist() for one in values] == [[[6.0, 9.0]] * 2] * 2


def test_a_graph_that_did_not_run_matches_its_run(tmp_path: Path) -> None:
    small_file(tmp_path)

    dumps = (
        run_padiff(*DUMP, cwd=tmp_path),
        run_padiff(*DUMP, "--no-run", "--name", "still", cwd=tmp_path, blocked=("onnxruntime",)),
    )
    compared = run_padiff("compare", "padiff_dump/small", "padiff_dump/still", cwd=tmp_path)
    audited = run_padiff("audit", "padiff_dump/still", cwd=tmp_path)

    assert [one.returncode for one in dumps] == [0, 0]
    assert compared.returncode == 0, compared.stdout
    assert "the candidate did not run" in compared.stdout
    assert audited.returncode == 2
    assert "the model did not run" in audited.stderr


def test_without_inputs_structure_program_and_weights_are_recorded(tmp_path: Path) -> None:
    small_file(tmp_path)

    done = run_padiff("dump", "--model", "small.onnx", "--no-run", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    with open_dump(tmp_path / "padiff_dump" / "small").open(0, 0) as file:
        recorded = read_program(file)
        assert recorded is not None
        shapes = [one.shape for one in recorded.program.values]
        assert [record.role for record in file.index.records] == ["weight"]
    assert shapes == [(3, 2), (2, 3), (2, 2), (2, 2)]


def _write(name: str, **arrays: Any) -> Callable[[Path], None]:  # noqa: ANN401
    return lambda folder: np.savez(folder / name, **arrays)


def _opset(number: int) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        small_file(folder, opset=number)

    return change


def _custom(folder: Path) -> None:
    small_file(folder, domain="acme")


def _damaged(folder: Path) -> None:
    file = folder / "small.onnx"
    file.write_bytes(file.read_bytes()[:90])


def _unknown_operator(folder: Path) -> None:
    model = onnx.load(folder / "small.onnx")
    model.graph.node[1].op_type = "Rellu"
    onnx.save(model, folder / "small.onnx")


def _text(folder: Path) -> None:
    (folder / "small.onnx").write_text("not a graph")


def _external(location: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        model = onnx.load(folder / "small.onnx")
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "0"), ("length", "24")):
            tensor.external_data.add(key=key, value=value)
        onnx.save(model, folder / "small.onnx")

    return change


X = np.ones((2, 3), np.float32)
REFUSED: tuple[tuple[str, Callable[[Path], None], tuple[str, ...], str], ...] = (
    ("no file", lambda folder: (folder / "small.onnx").unlink(), (), "no such file"),
    ("text", _text, (), "expected a file of ONNX"),
    ("truncated", _damaged, (), "copy it again"),
    ("unknown operator", _unknown_operator, (), "no valid graph"),
    ("old opset", _opset(9), (), "expected opset 13 to 28, found 9"),
    ("new opset", _opset(99), (), "expected opset 13 to 28, found 99"),
    ("custom operator", _custom, (), "--no-run records it without a runtime"),
    ("another name", _write("x.npz", y=X, z=X), (), "'y', which is no parameter"),
    ("another shape", _write("x.npz", x=X[:, :2]), (), "of shape (2, 3), found (2, 2)"),
    ("another dtype", _write("x.npz", x=X.astype(np.int64)), (), "of dtype float32, found int64"),
    ("too many", _write("x.npz", arr_0=X, arr_1=X), (), "expected 1 inputs, found 2"),
    ("data missing", _external("small.data"), (), "which is not there"),
    ("data outside", _external("../x.data"), (), "below the model's folder"),
    ("provider", lambda _: None, ("--provider", "Nope"), "no provider 'Nope'"),
    ("no run", lambda _: None, ("--no-run", "--optimization", "all"), "with --no-run"),
    ("training", lambda _: None, ("--train",), "cannot be used with a graph file"),
    ("backward", lambda _: None, ("--phase", "backward"), "cannot be used with a graph file"),
    ("scopes", lambda _: None, ("--scopes-from", "other.onnx"), "no such file"),
)


@pytest.mark.parametrize(("change", "words", "message"), [one[1:] for one in REFUSED],
                         ids=[one[0] for one in REFUSED])  # fmt: skip
def test_bad_input_is_refused_and_leaves_nothing(
    tmp_path: Path, change: Callable[[Path], None], words: tuple[str, ...], message: str
) -> None:
    small_file(tmp_path)
    change(tmp_path)

    done = run_padiff(*DUMP, *words, cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "internal error" not in done.stderr
    assert list((tmp_path / "padiff_dump").rglob("*.h5")) == []


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, missing: str) -> None:
    small_file(tmp_path)

    done = run_padiff(*DUMP, cwd=tmp_path, blocked=(missing,))

    assert done.returncode == 2
    assert f"{missing} is not installed" in done.stderr
    assert "hint: pip install 'padiff-align[onnx]'" in done.stderr


def test_graph_options_need_a_graph(tmp_path: Path) -> None:
    done = run_padiff("dump", "--model", "net.py:build", "--optimization", "all", cwd=tmp_path)

    assert done.returncode == 2
    assert "--optimization needs --model FILE.onnx." in done.stderr
