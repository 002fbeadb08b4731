"""Decoder LLMs of transformers and of paddleformers: each in an environment of its own.

The two libraries do not live in one environment, as little as their users' models do: the reference
is dumped by the python that runs the tests, the candidate by that of ``.venv/pairs``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from padiff.dumpfile import Role, open_dump

pytestmark = pytest.mark.pairs

TOLERANCE = 1e-4
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PADDLE = Path(os.environ.get("PADIFF_PAIRS_PYTHON", ROOT / ".venv/pairs/bin/python"))
FUSED = """
[[weight]]
reference = [
  "model.layers.{i}.self_attn.q_proj.weight",
  "model.layers.{i}.self_attn.k_proj.weight",
  "model.layers.{i}.self_attn.v_proj.weight",
]
candidate = "model.layers.{i}.self_attn.qkv_proj.weight"
rule = "interleave 2 | transpose"

[[weight]]
reference = [
  "model.layers.{i}.self_attn.q_proj.bias",
  "model.layers.{i}.self_attn.k_proj.bias",
  "model.layers.{i}.self_attn.v_proj.bias",
]
candidate = "model.layers.{i}.self_attn.qkv_proj.bias"
rule = "interleave 2"

[[weight]]
reference = ["model.layers.{i}.mlp.gate_proj.weight", "model.layers.{i}.mlp.up_proj.weight"]
candidate = "model.layers.{i}.mlp.up_gate_proj.weight"
rule = "concat 0 | transpose"
"""
"""A group for each of two key-value heads; up_gate_proj says up first and takes gate first."""


def _padiff(python: Path | str, *words: Path | str) -> subprocess.CompletedProcess[str]:
    settings = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        [str(python), "-m", "padiff.cli", *map(str, words)],
        env={**os.environ, **settings},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _dump(
    folder: Path, framework: str, *words: Path | str, **options: object
) -> subprocess.CompletedProcess[str]:
    """Dump one side, named after its framework."""
    tokens = folder / "tokens.npz"
    np.savez(tokens, input_ids=np.random.default_rng(4).integers(3, 31, (2, 9)))
    arguments = [f"--model-arg={key}={json.dumps(value)}" for key, value in options.items()]
    return _padiff(
        sys.executable if framework == "torch" else PADDLE,
        "dump",
        f"--model={HERE}/decoder_{framework}.py:build",
        *arguments,
        f"--inputs={tokens}",
        f"--out={folder}",
        f"--name={framework}",
        *words,
    )


def _logits(dump: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    with open_dump(dump).open() as side:
        found = [
            record
            for record in side.index.records
            if record.role is Role.OUTPUT and side.index.modules[record.module].path == ""
        ]
        return np.asarray(side.array(found[0]), np.float32)


def _assert_equal_outputs(folder: Path) -> None:
    expected, found = _logits(folder / "torch"), _logits(folder / "paddle")
    assert float(np.abs(expected).max()) > 0.5
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=0)


def _compare(folder: Path, *words: Path | str) -> subprocess.CompletedProcess[str]:
    sides = folder / "torch", folder / "paddle"
    return _padiff(sys.executable, "compare", *sides, "--atol", str(TOLERANCE), *words)


def _assert_same_function(folder: Path) -> None:
    """No tolerance decides: both programs are executed."""
    compared = _compare(folder)
    assert compared.returncode == 0, compared.stdout
    words = " ".join(compared.stdout.split())  # a narrow terminal breaks the first line
    assert "gradients agree; same function, same leaves, sound execution" in words


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "phi3"])
def test_decoder_of_other_authors_loads_without_a_map_and_agrees(
    name: str, *, tied: bool, tmp_path: Path
) -> None:
    reference = _dump(tmp_path, "torch", name=name, tied=tied)
    assert reference.returncode == 0, reference.stderr

    candidate = _dump(
        tmp_path, "paddle", "--weights-from", tmp_path / "torch", name=name, tied=tied
    )

    assert candidate.returncode == 0, candidate.stderr
    _assert_equal_outputs(tmp_path)
    _assert_same_function(tmp_path)


def test_fused_decoder_is_told_by_a_run_how_its_projections_lie(tmp_path: Path) -> None:
    reference = _dump(tmp_path, "torch", name="qwen2")
    assert reference.returncode == 0, reference.stderr

    source = tmp_path / "torch"
    candidate = _dump(tmp_path, "paddle", "--weights-from", source, name="qwen2", fused=True)

    assert candidate.returncode == 0, candidate.stderr
    assert "q_proj, k_proj, v_proj for each group of heads" in candidate.stderr
    assert "gate_proj, up_proj in blocks" in candidate.stderr
    _assert_equal_outputs(tmp_path)
    _assert_same_function(tmp_path)


def test_fused_decoder_without_a_run_is_refused_with_the_layouts_that_it_could_have(
    tmp_path: Path,
) -> None:
    reference = _dump(tmp_path, "torch", name="qwen2")
    assert reference.returncode == 0, reference.stderr
    candidate = _dump(tmp_path, "paddle", name="qwen2", fused=True)
    assert candidate.returncode == 0, candidate.stderr
    sides = tmp_path / "torch", tmp_path / "paddle"

    made = tmp_path / "made.safetensors"
    words = ("weights", "convert", sides[0], "--to", made, "--like", sides[1])
    refused = _padiff(sys.executable, *words)

    assert refused.returncode == 2
    assert "interleave 2" in refused.stderr
    for layer in ("self_attn.qkv_proj", "mlp.up_gate_proj"):
        line = f"candidate model.layers.{{i}}.{layer} (2 blocks) is ambiguous"
        assert line in refused.stderr


def test_square_head_of_a_class_that_padiff_does_not_know_is_told_by_a_run(tmp_path: Path) -> None:
    reference = _dump(tmp_path, "torch", vocab=32)
    assert reference.returncode == 0, reference.stderr

    candidate = _dump(tmp_path, "paddle", "--weights-from", tmp_path / "torch", vocab=32)

    assert candidate.returncode == 0, candidate.stderr
    assert "lm_head.weight: identity: tried" in candidate.stderr
    _assert_equal_outputs(tmp_path)


def test_fused_decoder_agrees_with_a_map_of_three_entries(tmp_path: Path) -> None:
    map_file = tmp_path / "map.toml"
    map_file.write_text(FUSED)
    reference = _dump(tmp_path, "torch", name="qwen2")
    assert reference.returncode == 0, reference.stderr
    words = "--weights-from", tmp_path / "torch", "--map", map_file

    candidate = _dump(tmp_path, "paddle", *words, name="qwen2", fused=True)

    assert candidate.returncode == 0, candidate.stderr
    _assert_equal_outputs(tmp_path)
    assert _compare(tmp_path, "--map", map_file).returncode == 0


def test_equal_values_tell_how_a_fused_decoder_lies(tmp_path: Path) -> None:
    map_file = tmp_path / "map.toml"
    map_file.write_text(FUSED)
    reference = _dump(tmp_path, "torch", name="qwen2")
    assert reference.returncode == 0, reference.stderr
    words = "--weights-from", tmp_path / "torch", "--map", map_file
    candidate = _dump(tmp_path, "paddle", *words, name="qwen2", fused=True)
    assert candidate.returncode == 0, candidate.stderr

    plan = _padiff(sys.executable, "weights", "plan", tmp_path / "torch", tmp_path / "paddle")

    assert plan.returncode == 0, plan.stdout
    assert "0 ambiguous, 0 missing" in plan.stdout


def test_converted_checkpoint_fits_the_other_library(tmp_path: Path) -> None:
    made = tmp_path / "made.pdparams"
    for framework in ("torch", "paddle"):
        dumped = _dump(tmp_path, framework)
        assert dumped.returncode == 0, dumped.stderr
    like = "--like", tmp_path / "paddle"

    code = _padiff(
        sys.executable, "weights", "convert", tmp_path / "torch", "--to", made, *like
    ).returncode

    assert code == 0
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import decoder_paddle, paddle; "
        "print(decoder_paddle.build().set_state_dict(paddle.load(sys.argv[2])))"
    )
    words = str(PADDLE), "-c", script, str(HERE), str(made)
    loaded = subprocess.run(words, capture_output=True, text=True, check=True)
    assert loaded.stdout.splitlines()[-1] == "([], [])"
