"""The commands about weights on real models: dumps without a run, conversion, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

from padiff.cli.main import main
from padiff.dumper.weights.checkpoint import read_arrays
from padiff.dumpfile import open_dump, validate

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """
import torch

class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.bn = torch.nn.BatchNorm2d(4)
        self.up_proj = torch.nn.Linear(4, width)
        self.again = self.up_proj
        self.register_buffer("inv_freq", torch.ones(3), persistent=False)
"""
PADDLE = """
import paddle

class Net(paddle.nn.Layer):
    def __init__(self, width=4):
        super().__init__()
        self.conv = paddle.nn.Conv2D(3, 4, 3)
        self.bn = paddle.nn.BatchNorm2D(4)
        self.up_proj = paddle.nn.Linear(4, width)
        self.again = self.up_proj
        self.register_buffer("inv_freq", paddle.ones([3]), persistable=False)
"""


@pytest.fixture(name="dumps")
def _dumps(tmp_path: Path) -> dict[str, Path]:
    """Dump both models without a run; the paddle one with the weights of the torch one."""
    for name, text in (("torch", TORCH), ("paddle", PADDLE)):
        (tmp_path / f"{name}_net.py").write_text(text)
    out = tmp_path / "dumps"
    common = ["dump", "--no-run", "--out", str(out)]
    place = str(tmp_path / "torch_net.py:Net")
    assert main([*common, "--model", place, "--name", "torch"]) == 0
    place = str(tmp_path / "paddle_net.py:Net")
    source = ["--weights-from", str(out / "torch")]
    assert main([*common, "--model", place, "--name", "paddle", *source]) == 0
    return {name: out / name for name in ("torch", "paddle")}


def test_dump_without_a_run_is_valid_and_holds_structure_and_weights(
    dumps: dict[str, Path],
) -> None:
    with open_dump(dumps["torch"]).open() as side:
        index = side.index

    assert validate(dumps["torch"], deep=True) == []
    assert not index.calls
    assert {record.role.value for record in index.records} == {"weight", "buffer"}
    assert [module.path for module in index.modules] == ["", "conv", "bn", "up_proj"]


def test_dump_without_a_run_needs_no_inputs_and_refuses_them(tmp_path: Path) -> None:
    words = ["dump", "--no-run", "--model", "nowhere:Net", "--inputs", str(tmp_path / "x.npy")]

    assert main(words) == 2


def test_all_commands_take_dumps_without_a_run(
    dumps: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [str(dumps["torch"]), str(dumps["paddle"])]

    codes = {
        words: main([*words.split(), *sides])
        for words in ("compare", "weights plan", "weights compare", "weights stats")
    }

    assert set(codes.values()) == {0}, codes
    assert main(["show", sides[0]]) == 0
    assert main(["check", sides[0]]) == 0
    assert "transpose" in capsys.readouterr().out


def test_checkpoint_for_a_paddle_model_loads_without_a_missing_key(
    dumps: dict[str, Path], tmp_path: Path
) -> None:
    made = tmp_path / "made.pdparams"
    model = str(tmp_path / "paddle_net.py:Net")

    code = main(["weights", "convert", str(dumps["torch"]), "--to", str(made), "--model", model])

    assert code == 0
    space: dict[str, Any] = {}
    exec(PADDLE, space)
    layer = space["Net"]()
    assert layer.set_state_dict(paddle.load(str(made))) == ([], [])
    with open_dump(dumps["torch"]).open() as side:
        weight = next(r for r in side.index.records if side.index.modules[r.module].path == "conv")
        np.testing.assert_array_equal(layer.conv.weight.numpy(), side.array(weight))


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_checkpoint_for_a_torch_model_loads_strictly(
    dumps: dict[str, Path], tmp_path: Path, suffix: str
) -> None:
    made = tmp_path / f"made.{suffix}"
    words = ["--model", str(tmp_path / "torch_net.py:Net"), "--model-arg", "width=4"]

    assert main(["weights", "convert", str(dumps["paddle"]), "--to", str(made), *words]) == 0

    space: dict[str, Any] = {}
    exec(TORCH, space)
    model = space["Net"]()
    arrays = read_arrays(made)[0]
    model.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
    assert arrays["bn.num_batches_tracked"].shape == ()


def test_conversion_needs_one_target(dumps: dict[str, Path], tmp_path: Path) -> None:
    words = ["weights", "convert", str(dumps["torch"]), "--to", str(tmp_path / "a.pth")]

    assert main(words) == 2
    assert main([*words, "--like", str(dumps["paddle"]), "--model", "net:Net"]) == 2


def test_failed_load_draws_both_trees_and_marks_what_is_wrong(
    dumps: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(tmp_path / "paddle_net.py:Net")
    words = ["--model-arg", "width=7", "--weights-from", str(dumps["torch"])]

    code = main(["dump", "--no-run", "--model", model, *words, "--out", str(tmp_path / "o")])

    assert code == 2
    shown = capsys.readouterr().err.splitlines()
    marked = [line for line in shown if "<--- HERE" in line]
    assert len(marked) == 4
    assert all("closest: " in line for line in marked)
    assert "     |- weight (4, 7)   <--- HERE" in "\n".join(marked)
    assert "  reference" in shown
    assert "  candidate" in shown
    assert not (tmp_path / "o" / "Net").exists()


def test_damaged_checkpoint_is_trouble_and_leaves_no_dump(
    dumps: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, cut = tmp_path / "whole.pth", tmp_path / "cut.pth"
    like = ["--like", str(dumps["torch"])]
    assert main(["weights", "convert", str(dumps["torch"]), "--to", str(whole), *like]) == 0
    cut.write_bytes(whole.read_bytes()[:-100])
    model = str(tmp_path / "paddle_net.py:Net")

    code = main(
        ["dump", "--no-run", "--model", model, "--weights-from", str(cut), "--out", str(tmp_path)]
    )

    assert code == 2
    assert "cannot read weights" in capsys.readouterr().err


def test_wrong_direction_of_a_users_rule_names_rule_shapes_and_weight(
    dumps: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    map_file = tmp_path / "map.toml"
    map_file.write_text(
        '[[weight]]\nreference = "conv.weight"\ncandidate = "conv.weight"\n'
        'rule = "permute 3 2 1 0"\n'
    )

    code = main(["weights", "plan", *map(str, dumps.values()), "--map", str(map_file)])

    assert code == 2
    shown = capsys.readouterr().err
    assert all(text in shown for text in ("permute 3 2 1 0", "(3, 3, 3, 4)", "(4, 3, 3, 3)"))


def test_what_only_the_source_counts_is_left_out_wherever_it_stands(tmp_path: Path) -> None:
    norms = "torch.nn.Sequential(*[torch.nn.BatchNorm2d(2 + place) for place in range(3)])"
    (tmp_path / "a.py").write_text(f"import torch\ndef build():\n    return {norms}\n")
    other = norms.replace("torch", "paddle").replace("BatchNorm2d", "BatchNorm2D")
    (tmp_path / "b.py").write_text(f"import paddle\ndef build():\n    return {other}\n")
    common = ["dump", "--no-run", "--out", str(tmp_path)]
    for name in ("a", "b"):
        assert main([*common, "--model", f"{tmp_path / name}.py:build", "--name", name]) == 0
    made = tmp_path / "made.safetensors"
    sides = [str(tmp_path / "a"), "--like", str(tmp_path / "b")]

    code = main(["weights", "convert", *sides, "--to", str(made)])

    assert code == 0
    arrays, _ = read_arrays(made)
    assert len(arrays) == 12
