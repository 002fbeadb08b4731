"""The entry that a refusal proposes is one that a map file takes, and that settles the weights."""

from __future__ import annotations

import numpy as np

from padiff.pairing.maps.mapfile import MapFile
from padiff.pairing.result import PairedBy
from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.weight_text import example_of
from tests.support.dumps import DumpBuilder, MemorySide

NUMBERS = np.random.default_rng(2)


def _side(*names: str, rows: int = 4) -> MemorySide:
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    builder.module("blocks", "ModuleList", class_path="torch.nn.ModuleList")
    for place in range(2):
        builder.module(f"blocks.{place}", "Block", class_path="user.Block")
        for name in names:
            path = f"blocks.{place}.{name}"
            builder.module(path, "Linear", class_path="torch.nn.Linear")
            builder.tensor(path, "weight", NUMBERS.normal(size=(rows, 4)))
            builder.tensor(path, "bias", NUMBERS.normal(size=rows))
    return builder.side()


def _settled(reference: MemorySide, candidate: MemorySide) -> tuple[str, set[str]]:
    """Follow the proposal; what it says, and the candidate's weights that the map then makes."""
    plan = plan_weights(reference, candidate)
    introduction, *lines = example_of(plan, reference, candidate)
    assert introduction.endswith(("first way of the list:", "first way of each list:"))
    text = "\n".join(lines)

    again = plan_weights(reference, candidate, map_file=MapFile.parse(text))

    made = {
        f"{candidate.index.modules[record.module].path}{record.slot}"
        for pair in again.pairs
        if pair.paired_by is PairedBy.MAP
        for record in (candidate.index.records[pair.candidate],)
    }
    return text, made


def test_layers_that_nothing_tells_apart_are_settled_by_a_pair_for_all_blocks() -> None:
    text, made = _settled(_side("aa", "bb"), _side("xx", "yy"))

    assert "[[pair]]" in text
    assert 'reference = "blocks.{i}.aa"' in text
    assert {"blocks.0.xx.weight", "blocks.1.xx.weight", "blocks.0.xx.bias"} <= made


def test_a_split_projection_is_settled_by_a_weight() -> None:
    text, made = _settled(_side("c_attn", rows=12), _side("q", "k", "v"))

    assert 'reference = "blocks.{i}.c_attn.weight"' in text
    assert 'rule = "rows 0/3"' in text
    assert made == {
        f"blocks.{place}.{name}.{weight}"
        for place in range(2)
        for name in "qkv"
        for weight in ("weight", "bias")
    }


def test_a_fused_projection_is_settled_by_a_list() -> None:
    text, made = _settled(_side("q", "k", "v"), _side("c_attn", rows=12))

    assert '["blocks.{i}.q.weight", "blocks.{i}.k.weight", "blocks.{i}.v.weight"]' in text
    assert 'rule = "concat 0"' in text
    assert made == {f"blocks.{at}.c_attn.{one}" for at in range(2) for one in ("weight", "bias")}


def test_layers_whose_numbers_differ_are_not_written_as_one() -> None:
    builder = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    builder.module("parts", "ModuleList", class_path="torch.nn.ModuleList")
    for place in range(4):
        builder.module(f"parts.{place}", "Part", class_path="user.Part")
        builder.module(f"parts.{place}.x", "Linear", class_path="torch.nn.Linear")
        builder.tensor(f"parts.{place}.x", "weight", NUMBERS.normal(size=(4, 4)))
        builder.tensor(f"parts.{place}.x", "bias", NUMBERS.normal(size=4))

    text, made = _settled(_side("aa", "bb"), builder.side())

    assert "{i}" not in text
    assert made == {"parts.0.x.weight", "parts.0.x.bias"}


def test_nothing_is_proposed_where_nothing_is_ambiguous() -> None:
    side = _side("aa", "bb")

    assert example_of(plan_weights(side, side), side, side) == ()
