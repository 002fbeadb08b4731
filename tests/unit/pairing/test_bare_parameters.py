"""Parameters that one author keeps bare, beside a layer, or under a word of his own."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.pairing import plan_weights
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder, MemorySide

Leaf = tuple[str, dict[str, tuple[int, ...]]]
Leaves = dict[str, Leaf]


def side(framework: str, leaves: Leaves, seed: int = 0) -> MemorySide:
    """Build modules by path, with class and shapes of parameters; ``""`` is the root."""
    random = np.random.default_rng(seed)
    built = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    for path, (class_path, shapes) in leaves.items():
        if path:
            built.module(path, class_path.rpartition(".")[2], class_path=class_path)
        for name, shape in shapes.items():
            built.tensor(path, name, random.standard_normal(shape))
    return built.side()


LINEAR: Leaves = {"out": ("torch.nn.Linear", {"weight": (3, 6), "bias": (3,)})}
DENSE: Leaves = {"last": ("paddle.nn.Linear", {"weight": (6, 3), "bias": (3,)})}
FC: Leaf = ("torch.nn.Linear", {"weight": (6, 8)})
FULL: Leaf = ("paddle.nn.Linear", {"weight": (8, 6), "bias": (6,)})
NORM: Leaf = ("paddle.nn.LayerNorm", {"weight": (6,), "bias": (6,)})
PAIRS: dict[str, tuple[Leaves, Leaves, dict[str, str]]] = {
    "parameters of the root": (
        {"": ("", {"pos": (1, 7, 8), "cls": (1, 1, 8)})},
        {"": ("", {"class_token": (1, 1, 8), "position_embedding": (1, 7, 8)})},
        {"class_token": "cls", "position_embedding": "pos"},
    ),
    "of the root against those of a module": (
        {"": ("", {"pos": (1, 7, 8), "cls": (1, 1, 8)})},
        {"embeddings": ("user.Embeddings", {"token": (1, 1, 8), "places": (1, 7, 8)})},
        {"embeddings.token": "cls", "embeddings.places": "pos"},
    ),
    "numbered ones": (
        {"": ("", {"gamma1": (8,), "gamma2": (8,), "scale": ()})},
        {"": ("", {"temperature": (1,), "ls_2": (8,), "ls_1": (8,)})},
        {"temperature": "scale", "ls_2": "gamma2", "ls_1": "gamma1"},
    ),
    "a scale and an offset against a norm": (
        {"norm": ("user.Norm", {"scale": (6,), "offset": (6,)})},
        {"ln": NORM},
        {"ln.weight": "norm.scale", "ln.bias": "norm.offset"},
    ),
    "one word that is known, the other left over": (
        {"norm": ("user.Norm", {"strength": (6,), "b": (6,)})},
        {"ln": NORM},
        {"ln.weight": "norm.strength", "ln.bias": "norm.b"},
    ),
    "a bare matrix and vector against a linear": (
        {"": ("", {"w": (8, 6), "b": (6,)}), **LINEAR},
        {"dense": FULL, **DENSE},
        {
            "dense.weight": "w",
            "dense.bias": "b",
            "last.weight": "out.weight",
            "last.bias": "out.bias",
        },
    ),
    "a vector of the block against the bias of its layer": (
        {"": ("", {"shift": (6,)}), "fc": FC, **LINEAR},
        {"dense": FULL, **DENSE},
        {
            "dense.weight": "fc.weight",
            "dense.bias": "shift",
            "last.weight": "out.weight",
            "last.bias": "out.bias",
        },
    ),
    "a layer that adds an offset against the bias before it": (
        {"fc": FC, "add": ("user.Offset", {"offset": (6,)}), **LINEAR},
        {"dense": FULL, **DENSE},
        {
            "dense.weight": "fc.weight",
            "dense.bias": "add.offset",
            "last.weight": "out.weight",
            "last.bias": "out.bias",
        },
    ),
}


@pytest.mark.parametrize("is_forward", [True, False])
@pytest.mark.parametrize("name", PAIRS)
def test_bare_parameters_find_their_partners(name: str, *, is_forward: bool) -> None:
    one, two, expected = PAIRS[name]
    reference, candidate = side("torch", one), side("paddle", two, seed=1)
    if not is_forward:
        reference, candidate = candidate, reference
        expected = {mine: theirs for theirs, mine in expected.items()}

    plan = plan_weights(reference, candidate)

    assert {
        names_of(candidate, [pair.candidate]): names_of(reference, pair.reference)
        for pair in plan.pairs
    } == expected
    assert not plan.missing
    assert not plan.ambiguous


def test_two_vectors_that_could_be_the_bias_stay_alone() -> None:
    reference = side("torch", {"": ("", {"one": (6,), "two": (6,)}), "fc": FC})
    candidate = side("paddle", {"dense": FULL}, seed=1)

    plan = plan_weights(reference, candidate)

    assert {names_of(candidate, [pair.candidate]) for pair in plan.pairs} == {"dense.weight"}
    assert len(plan.missing) == 3


def test_directions_of_a_layer_are_cells_of_those_names() -> None:
    shapes: dict[str, tuple[int, ...]] = {"weight_ih": (24, 5), "weight_hh": (24, 6)}
    shapes |= {"bias_ih": (24,), "bias_hh": (24,)}
    layer = {f"{name}_l0{end}": shape for end in ("", "_reverse") for name, shape in shapes.items()}
    cells: Leaves = {
        "reverse_cell": ("paddle.nn.LSTMCell", shapes),
        "forward_cell": ("paddle.nn.LSTMCell", shapes),
    }
    reference = side("torch", {"rnn": ("torch.nn.LSTM", layer)})
    candidate = side("paddle", cells, seed=1)

    plan = plan_weights(reference, candidate)

    assert {
        names_of(candidate, [pair.candidate]): names_of(reference, pair.reference)
        for pair in plan.pairs
    } == {
        f"{cell}.{name}": f"rnn.{name}_l0{end}"
        for cell, end in (("forward_cell", ""), ("reverse_cell", "_reverse"))
        for name in shapes
    }
