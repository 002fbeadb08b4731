"""Proof of written maps: what they say, and that they say it exactly."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.pairing import MapFile, PairedBy, Pairing, pair
from padiff.pairing.maps.mapwriter import pairing_to_toml
from tests.support.dumps import DumpBuilder
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from tests.support.dumps import MemorySide


def stack(
    framework: str,
    block: str,
    leaf: str,
    *,
    blocks: int = 3,
    extra: bool = False,
    seed: int = 0,
) -> MemorySide:
    """A chain of blocks with one linear each; ``extra`` adds a head that the other lacks."""
    random = np.random.default_rng(seed)
    built = DumpBuilder(framework=framework).module("", "Net")
    turn = np.transpose if framework == "paddle" else np.asarray
    weights = []
    for number in range(blocks):
        built.module(f"{block}.{number}", "Block", class_path="net.Block")
        built.module(f"{block}.{number}.{leaf}", "Linear")
        weight = random.standard_normal((4, 4)).astype(np.float32)
        weights.append(weight)
        built.tensor(f"{block}.{number}.{leaf}", "weight", turn(weight))
    if extra:
        built.module("tail", "Linear").tensor("tail", "weight", np.ones((2, 4), np.float32))
    value = np.arange(8, dtype=np.float32).reshape(2, 4)
    built.enter("", inputs=[value])
    for number, weight in enumerate(weights):
        built.enter(f"{block}.{number}", inputs=[value])
        made = value @ weight.T
        built.call(f"{block}.{number}.{leaf}", inputs=[value], outputs=[made])
        value = np.tanh(made)
        built.leave(outputs=[value])
    if extra:
        tail = value @ np.ones((4, 2), np.float32)
        built.call("tail", inputs=[value], outputs=[tail])
        value = tail
    return built.leave(outputs=[value]).side()


def branches(names: tuple[str, str], *, seed: int) -> MemorySide:
    """Two linears of one shape side by side on the same input, summed; random weights."""
    random = np.random.default_rng(seed)
    built = DumpBuilder().module("", "Net")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    weights = [random.standard_normal((4, 4)).astype(np.float32) for _ in names]
    for name, weight in zip(names, weights, strict=True):
        built.module(name, "Linear").tensor(name, "weight", weight)
    built.enter("", inputs=[x])
    for name, weight in zip(names, weights, strict=True):
        built.call(name, inputs=[x], outputs=[x @ weight.T])
    return built.leave(outputs=[np.sum([x @ weight.T for weight in weights], axis=0)]).side()


def modules(found: Pairing) -> set[tuple[int, int]]:
    return {(one.reference, one.candidate) for one in found.modules}


def records(found: Pairing) -> set[tuple[tuple[int, ...], int, str]]:
    return {(one.reference, one.candidate, str(one.rule)) for one in found.records}


@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (tiny_net().side(), tiny_net("paddle").side()),
        (stack("torch", "layers", "q"), stack("paddle", "encoder.blk", "query")),
        (stack("torch", "layers", "q", extra=True), stack("paddle", "h", "query")),
    ],
)
def test_a_written_map_makes_the_same_pairing(reference: MemorySide, candidate: MemorySide) -> None:
    before = pair(reference, candidate)
    text = pairing_to_toml(before, reference, candidate)

    after = pair(reference, candidate, map_file=MapFile.parse(text))

    assert modules(after) == modules(before)
    assert records(after) == records(before)
    assert {one.paired_by for one in after.modules if one.reference} == {PairedBy.MAP}
    assert after.notes == before.notes


def test_numbered_runs_are_one_entry() -> None:
    reference, candidate = stack("torch", "layers", "q"), stack("paddle", "h", "query")

    text = pairing_to_toml(pair(reference, candidate), reference, candidate)

    entries = tomllib.loads(text)["pair"]
    assert {"reference": "layers.{i}.q", "candidate": "h.{i}.query"} in entries
    assert len(entries) == 2


def test_a_run_is_listed_singly_where_a_pattern_would_mean_more() -> None:
    reference = stack("torch", "layers", "q", blocks=3)
    candidate = stack("paddle", "h", "query", blocks=2)
    found = pair(reference, candidate)

    entries = tomllib.loads(pairing_to_toml(found, reference, candidate))["pair"]

    assert all("{" not in entry["reference"] for entry in entries)
    assert len(entries) == len(found.modules) - 1


def test_a_broken_tie_is_flagged_with_what_else_was_possible() -> None:
    reference, candidate = branches(("a", "b"), seed=1), branches(("x", "y"), seed=2)
    found = pair(reference, candidate)

    text = pairing_to_toml(found, reference, candidate)

    assert [one.confidence for one in found.modules[1:]] == [0.5, 0.5]
    assert '# AMBIGUOUS: "a" may also be "y"' in text.splitlines()
    assert "confidence 0.50" in text


@pytest.mark.parametrize("names", [("a", "b"), ("x", "y")])
def test_equal_weights_or_names_leave_no_doubt(names: tuple[str, str]) -> None:
    found = pair(branches(("a", "b"), seed=1), branches(names, seed=1))

    assert {(one.confidence, one.alternatives) for one in found.modules} == {(1.0, ())}


def test_what_has_no_partner_is_a_commented_entry() -> None:
    reference = stack("torch", "layers", "q", extra=True)
    candidate = stack("paddle", "h", "query")

    lines = pairing_to_toml(pair(reference, candidate), reference, candidate).splitlines()

    assert '# reference = "tail"' in lines
    assert 'reference = "tail"' not in lines


def test_hostile_names_stay_inside_their_strings() -> None:
    name = 'x"\n[[ignore]]\u202e*{i}'
    side = branches(("a", name), seed=1)

    text = pairing_to_toml(pair(side, side), side, side, title="t\n[[pair]]")

    assert set(tomllib.loads(text)) == {"pair"}
    assert text.isascii()


def test_a_container_is_as_sure_as_the_share_of_its_layers_that_are_paired() -> None:
    reference = stack("torch", "layers", "q", extra=True)

    found = pair(reference, stack("paddle", "h", "query"))

    assert [round(one.confidence, 3) for one in found.modules[:2]] == [round(6 / 7, 3), 1.0]
