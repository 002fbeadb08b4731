"""``padiff export`` writes a whole model or nothing, and says what it cannot write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from padiff.cli.main import main
from padiff.dumpfile import LeafKind, ProgramBuilder, ValueRef
from tests.support.command import run_padiff
from tests.support.dumps import DumpBuilder
from tests.support.tiny_net import tiny_net
from tests.support.tiny_program import tiny_program

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return tiny_program().write(tmp_path / "net")


def test_the_model_gives_what_was_recorded(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.onnx"
    records = tiny_net().records
    x, out = (next(array for one, array in records if one.role == role and not one.module)
              for role in ("input", "output"))  # fmt: skip
    assert x is not None
    assert out is not None

    assert main(["export", str(dump), "-o", str(file)]) == 0

    model = onnx.load(file)
    onnx.checker.check_model(model, full_check=True)
    assert {"fc1.weight", "fc2.weight"} <= {one.name for one in model.graph.initializer}
    found: Any = ReferenceEvaluator(model).run(None, {"input_0": x})
    np.testing.assert_allclose(found[0], out, rtol=1e-5)
    assert capsys.readouterr().out == f"{file}: 6 nodes, 1 input, 1 output\n"


def test_nodes_say_their_module_and_line(dump: Path, tmp_path: Path) -> None:
    file = tmp_path / "net.onnx"

    main(["export", str(dump), "-o", str(file)])

    matmul = next(one for one in onnx.load(file).graph.node if one.op_type == "MatMul")
    assert (matmul.name, matmul.doc_string) == ("fc1/linear_0", "models/net.py:10")


def test_a_dump_without_a_program_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tiny_net().write(tmp_path / "plain")

    code = main(["export", str(plain), "-o", str(tmp_path / "x.onnx")])

    assert code == 2
    assert capsys.readouterr().err == (
        f"padiff: error: cannot export {str(plain)!r}: no program was recorded\n"
        "hint: record again without `--program none`\n"
    )
    assert not (tmp_path / "x.onnx").exists()


def test_an_unknown_framework_and_an_empty_program_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = DumpBuilder().module("", "Net").call("")
    built.program = lambda _: ProgramBuilder()
    other = str(built.write(tmp_path / "other", framework="tensorflow"))
    empty = str(built.write(tmp_path / "empty"))

    codes = [main(["export", path, "-o", str(tmp_path / "x")]) for path in (other, empty)]

    assert codes == [2, 2]
    said = capsys.readouterr().err
    assert "expected a program of torch or paddle or onnx" in said
    assert "found one of 'tensorflow'" in said
    assert "expected a program that makes a value, found none" in said


def test_what_is_too_large_for_a_file_is_refused(
    dump: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("padiff.program.exporting.export.LARGEST_MODEL_BYTES", 99)
    words = ["export", str(dump), "-o", str(tmp_path / "x.onnx")]

    assert main(words) == 2
    assert "hint: --no-weights makes inputs of them" in capsys.readouterr().err
    assert main([*words, "--no-weights"]) == 0


def test_a_file_is_written_whole_or_not_at_all(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    before = sorted(tmp_path.iterdir())

    codes = [
        main(["export", str(dump), "-o", str(tmp_path / place)]) for place in ("file/x", "folder")
    ]

    assert codes == [2, 2]
    assert "expected a file name in a folder" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_the_folder_of_the_file_is_made(dump: Path, tmp_path: Path) -> None:
    assert main(["export", str(dump), "-o", str(tmp_path / "new" / "folder" / "x.onnx")]) == 0
    assert (tmp_path / "new" / "folder" / "x.onnx").is_file()


def test_names_from_a_dump_may_collide(tmp_path: Path) -> None:
    built = DumpBuilder().module("", "Net").call("")

    def program(_: object) -> ProgramBuilder:
        builder = ProgramBuilder()
        for name in ("v3", "v3", ""):
            builder.add_value(
                dtype="float32", shape=(2,), content=None, kind=LeafKind.PARAMETER, name=name
            )
        for place in range(2):
            made = builder.add_value(dtype="float32", shape=(2,), content=None)
            taken = [(None, ValueRef(place)), (None, ValueRef(made - 1))]
            builder.add_operator("torch.add", taken, [made], call=0)
        return builder

    built.program = program
    file = tmp_path / "net.onnx"

    assert main(["export", str(built.write(tmp_path / "net")), "-o", str(file)]) == 0

    onnx.checker.check_model(onnx.load(file), full_check=True)


def test_without_onnx_the_way_out_is_said(dump: Path, tmp_path: Path) -> None:
    done = run_padiff("export", str(dump), "-o", "net.onnx", cwd=tmp_path, blocked=("onnx",))

    assert done.returncode == 2
    assert "cannot export: onnx is not installed" in done.stderr
    assert "hint: pip install 'padiff-align[onnx]'" in done.stderr
