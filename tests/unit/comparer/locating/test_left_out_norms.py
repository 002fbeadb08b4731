"""A block whose output is judged only as what the next call was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import TOKENS, normal

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer import Comparison
    from tests.support.layer_pairs import Array

GATE, UP, FC, HEAD = (normal(8, 8, seed=seed) for seed in (1, 2, 6, 7))
SCALE = normal(8, seed=3)


def normed(x: Array) -> Array:
    away = x - x.mean(-1, keepdims=True)
    made: Array = (away / np.sqrt(away.var(-1, keepdims=True) + 1e-5) * SCALE).astype(np.float32)
    return made


def block(path: Path, *, is_reference: bool) -> Path:
    """A gated block and a head: two layers and a norm behind, or one layer and none."""
    built = DumpBuilder().module("", "Net").module("block", "Ours" if is_reference else "Theirs")
    gates = {"gate": GATE, "up": UP} if is_reference else {"both": np.concatenate([GATE, UP])}
    layers = {**{f"block.{name}": matrix for name, matrix in gates.items()}, "block.fc": FC}
    for name in (*layers, "head"):
        built.module(name, "Linear")
    built.module("block.norm", "LayerNorm").enter("", inputs=[TOKENS])
    built.enter("block", inputs=[TOKENS])
    for name, matrix in gates.items():
        made = TOKENS @ matrix.T
        built.call(f"block.{name}", inputs=[TOKENS], outputs=[made])
    branch = (TOKENS @ GATE.T) * (TOKENS @ UP.T)
    built.call("block.fc", inputs=[branch], outputs=[branch @ FC.T])
    total = TOKENS + branch @ FC.T
    made = normed(total) if is_reference else total
    if is_reference:
        built.call("block.norm", inputs=[total], outputs=[made])
    built.leave(outputs=[made]).call("head", inputs=[made], outputs=[made @ HEAD.T])
    built.leave(outputs=[made @ HEAD.T])
    arriving = normal(*made.shape, seed=5)
    built.record("head", Role.GRAD_INPUT, arriving, slot="[0]")
    built.record("block", Role.GRAD_OUTPUT, arriving)
    if is_reference:
        built.record("block.norm", Role.GRAD_OUTPUT, arriving)
    for name, array in {**layers, "block.norm": SCALE, "head": HEAD}.items():
        built.record(name, Role.WEIGHT, array, slot=".weight")
    built.record("block.norm", Role.WEIGHT_GRAD, SCALE if is_reference else None, slot=".weight")
    return built.write(path)


def found(tmp_path: Path) -> Comparison:
    reference = block(tmp_path / "reference", is_reference=True)
    candidate = block(tmp_path / "candidate", is_reference=False)
    return compare(reference, candidate, CompareSettings())


def test_the_block_is_named_whose_output_the_next_call_shows_to_differ(tmp_path: Path) -> None:
    first = found(tmp_path).origins[0]

    ends = first.pair.reference, first.pair.candidate
    assert [end and (end.address.module, end.address.role) for end in ends] == [
        ("block", Role.OUTPUT)
    ] * 2
    assert first.inputs_agree


def test_the_gradient_of_the_norm_that_is_left_out_is_no_other_origin(tmp_path: Path) -> None:
    modules = {one.pair.reference and one.pair.reference.address.module
               for one in found(tmp_path).origins}  # fmt: skip

    assert modules == {"block"}
