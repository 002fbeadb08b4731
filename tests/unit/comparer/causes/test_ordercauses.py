"""Norms that run at another place, and containers that are no difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer import CompareSettings, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import TOKENS, Array, normal

if TYPE_CHECKING:
    from pathlib import Path

SELF, CROSS = normal(2, 6, 8, seed=101), normal(2, 6, 8, seed=102)
SCALES = {"norm1": normal(8, seed=103), "norm2": normal(8, seed=104)}


def block(path: Path, first: str, second: str, *, container: str = "ModuleList") -> Path:
    """Two attentions, each with a sum and a norm behind."""
    built = DumpBuilder().module("", "Net").module("block", "Block")
    built.module("block.parts", container)
    for name in ("self_attn", "cross_attn"):
        built.module(f"block.{name}", "Attention")
    for name, scale in SCALES.items():
        built.module(f"block.{name}", "LayerNorm", class_path="torch.nn.LayerNorm")
        built.tensor(f"block.{name}", "weight", scale, role=Role.WEIGHT)
    built.enter("", inputs=[TOKENS]).enter("block", inputs=[TOKENS])
    x: Array = TOKENS
    for attention, drawn, norm in (("self_attn", SELF, first), ("cross_attn", CROSS, second)):
        given = x + 1 if attention == "cross_attn" else x
        made = drawn * (1 if attention == "self_attn" else given.mean())
        built.call(f"block.{attention}", inputs=[given], outputs=[made])
        total = x + made
        x = total / total.std() * SCALES[norm]
        built.call(f"block.{norm}", inputs=[total], outputs=[x])
    return built.leave(outputs=[x]).leave(outputs=[x]).write(path)


def test_norms_whose_names_are_exchanged_are_told_by_their_order(tmp_path: Path) -> None:
    reference = block(tmp_path / "reference", "norm2", "norm1")
    candidate = block(tmp_path / "candidate", "norm1", "norm2")

    first = compare(reference, candidate, CompareSettings()).origins[0]

    assert first.pair.reference is not None
    assert first.pair.reference.address.module == "block"
    said = ".norm2 comes before .cross_attn on the reference, after it on the candidate"
    assert [cause.text for cause in first.causes if str(cause.name) == "order"] == [said]


def test_a_list_of_another_class_is_no_attribute_that_differs(tmp_path: Path) -> None:
    reference = block(tmp_path / "reference", "norm2", "norm1")
    candidate = block(tmp_path / "candidate", "norm1", "norm2", container="Sequential")

    first = compare(reference, candidate, CompareSettings()).origins[0]

    assert not [line for line in first.evidence if line.startswith("attribute parts")]
