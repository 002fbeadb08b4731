"""A renamed, re-nested, shuffled and fused tree of equal values is planned back, never wrongly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff.dumpfile import Role
from padiff.pairing.weights.plan import plan_weights
from tests.support.dumps import DumpBuilder, MemorySide

Array = npt.NDArray[Any]
Leaf = tuple[str, dict[str, Array]]

_NAMES = {"linear": "Linear", "conv": "Conv2d", "norm": "LayerNorm", "table": "Embedding"}
_PADDLE = {"linear": "Linear", "conv": "Conv2D", "norm": "LayerNorm", "table": "Embedding"}


@dataclass
class _Tree:
    """The modules of one side, by path, in definition order."""

    framework: str
    leaves: list[tuple[str, str, dict[str, Array]]] = field(default_factory=list)

    def side(self) -> MemorySide:
        builder = DumpBuilder(framework=self.framework).module("", "Net", class_path="user.Net")
        known = {""}
        for path, kind, arrays in self.leaves:
            parts = path.split(".")
            for depth in range(1, len(parts)):
                above = ".".join(parts[:depth])
                if above not in known:
                    known.add(above)
                    builder.module(above, "Block", class_path="user.Block")
            names = _NAMES if self.framework == "torch" else _PADDLE
            builder.module(path, names[kind])
            for name, array in arrays.items():
                builder.tensor(path, name, array, role=Role.WEIGHT)
        return builder.side()


def _leaf(rng: np.random.Generator, kind: str) -> dict[str, Array]:
    n, m = (int(size) for size in rng.choice([4, 4, 6, 8], 2))
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "linear": {"weight": (n, m), "bias": (n,)},
        "conv": {"weight": (n, m, 3, 3)},
        "norm": {"weight": (n,), "bias": (n,)},
        "table": {"weight": (n, m)},
    }
    return {name: rng.normal(size=shape) for name, shape in shapes[kind].items()}


def _ported(kind: str, arrays: dict[str, Array]) -> dict[str, Array]:
    if kind != "linear":
        return arrays
    return {**arrays, "weight": np.array(arrays["weight"].T, order="C")}


@st.composite
def _trees(draw: st.DrawFn) -> tuple[_Tree, _Tree]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    reference, candidate = _Tree("torch"), _Tree("paddle")
    for block in range(draw(st.integers(1, 4))):
        kinds = draw(st.lists(st.sampled_from(sorted(_NAMES)), min_size=1, max_size=5))
        other = f"wrap.part.n{rng.integers(1000)}x{block}"
        for place, kind in enumerate(kinds):
            arrays = _leaf(rng, kind)
            reference.leaves.append((f"blocks.{block}.m{place}", kind, arrays))
            name = f"{other}.{chr(97 + int(rng.integers(26)))}{rng.integers(100)}y{place}"
            candidate.leaves.append((name, kind, _ported(kind, arrays)))
        if draw(st.booleans()):
            _add_fused(rng, draw(st.sampled_from([1, 2])), reference, candidate, (block, other))
    order = rng.permutation(len(candidate.leaves))
    candidate.leaves = [candidate.leaves[int(place)] for place in order]
    return reference, candidate


def _add_fused(
    rng: np.random.Generator,
    groups: int,
    reference: _Tree,
    candidate: _Tree,
    where: tuple[int, str],
) -> None:
    block, other = where
    parts = [_sized(rng, rows) for rows in (8, 4, 4)]
    for name, part in zip("qkv", parts, strict=True):
        reference.leaves.append((f"blocks.{block}.{name}_proj", "linear", part))
    fused = {
        name: np.concatenate(
            [piece for n in range(groups) for piece in _pieces(parts, name, groups, n)]
        )
        for name in ("weight", "bias")
    }
    candidate.leaves.append((f"{other}.qkv_proj", "linear", _ported("linear", fused)))


def _sized(rng: np.random.Generator, rows: int) -> dict[str, Array]:
    return {"weight": rng.normal(size=(rows, 5)), "bias": rng.normal(size=rows)}


def _pieces(parts: list[dict[str, Array]], name: str, groups: int, number: int) -> list[Array]:
    return [np.split(part[name], groups)[number] for part in parts]


@settings(max_examples=60, deadline=None)
@given(_trees())
def test_equal_values_are_planned_back(trees: tuple[_Tree, _Tree]) -> None:
    reference, candidate = (tree.side() for tree in trees)

    plan = plan_weights(reference, candidate)

    assert not plan.missing
    assert not plan.ambiguous
    assert len(plan.pairs) == len(candidate.index.records)
    _assert_right(reference, candidate)


@settings(max_examples=60, deadline=None)
@given(_trees())
def test_the_other_direction_is_planned_back_too(trees: tuple[_Tree, _Tree]) -> None:
    reference, candidate = (tree.side() for tree in trees)

    assert not plan_weights(candidate, reference).missing
    _assert_right(candidate, reference)


def _assert_right(reference: MemorySide, candidate: MemorySide) -> None:
    for pair in plan_weights(reference, candidate).pairs:
        target = candidate.index.records[pair.candidate]
        sources = [reference.array(reference.index.records[one]) for one in pair.reference]
        made = pair.rule.apply(sources, target.shape)
        assert pair.is_ambiguous or np.array_equal(made, candidate.array(target))
