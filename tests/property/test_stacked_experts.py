"""Stacked experts against lists of them: planned back where values are equal, never wrongly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff.dumpfile import Index, Role
from padiff.pairing.weights.plan import plan_weights
from tests.support.dumps import DumpBuilder, MemorySide

Array = npt.NDArray[Any]

_NAMES = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"), ("a", "b", "c"))


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A mixture of experts: how one author keeps it, and how the other."""

    seed: int
    layers: int
    experts: int
    wide: int
    narrow: int
    names: tuple[str, str, str]
    """Of gate, up and down in the list."""
    framework: str
    """Of the list."""
    has_bias: bool
    is_fused: bool
    is_turned: bool
    is_alternating: bool
    is_stated: bool
    """Whether the stack states in attributes how it lies."""

    def sides(self) -> tuple[MemorySide, MemorySide]:
        """Give the list and the stack, which hold the same values."""
        rng = np.random.default_rng(self.seed)
        listed = DumpBuilder(framework=self.framework).module("", "Net", class_path="user.Net")
        stacked = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
        order = rng.permutation(3)
        for layer in range(self.layers):
            weights = {
                role: rng.normal(size=(self.experts, *shape))
                for role, shape in zip(("gate", "up", "down"), self._shapes(), strict=True)
            }
            biases = {role: rng.normal(size=cube.shape[:2]) for role, cube in weights.items()}
            self._list(listed, f"layers.{layer}.moe", weights, biases, order)
            self._stack(stacked, f"blocks.{layer}", weights, biases)
        return listed.side(), stacked.side()

    def _shapes(self) -> tuple[tuple[int, int], ...]:
        return (self.wide, self.narrow), (self.wide, self.narrow), (self.narrow, self.wide)

    def _list(
        self,
        builder: DumpBuilder,
        path: str,
        weights: dict[str, Array],
        biases: dict[str, Array],
        order: npt.NDArray[np.int64],
    ) -> None:
        roles = dict(zip(("gate", "up", "down"), self.names, strict=True))
        for above in (path.rpartition(".")[0], path, f"{path}.experts"):
            builder.module(above, "Block", class_path="user.Block")
        for expert in range(self.experts):
            builder.module(f"{path}.experts.{expert}", "Expert", class_path="user.Expert")
            for role in np.array(["gate", "up", "down"])[order]:
                place = f"{path}.experts.{expert}.{roles[str(role)]}"
                builder.module(place, "Linear")
                matrix = weights[str(role)][expert]
                lies = matrix if self.framework == "torch" else np.array(matrix.T, order="C")
                builder.tensor(place, "weight", lies, role=Role.WEIGHT)
                if self.has_bias:
                    builder.tensor(place, "bias", biases[str(role)][expert], role=Role.WEIGHT)

    def _stack(
        self,
        builder: DumpBuilder,
        path: str,
        weights: dict[str, Array],
        biases: dict[str, Array],
    ) -> None:
        stated = {"is_transposed": self.is_turned, "is_concatenated": not self.is_alternating}
        builder.module(path, "Block", class_path="user.Block")
        builder.module(
            f"{path}.experts",
            "Experts",
            class_path="user.Experts",
            attributes=stated if self.is_stated else {},
        )
        cubes, shifts = dict(weights), dict(biases)
        if self.is_fused:
            cubes = {"gate_up": self._fused(weights), "down": weights["down"]}
            shifts = {"gate_up": self._fused(biases), "down": biases["down"]}
        for role, cube in cubes.items():
            lies = np.array(np.swapaxes(cube, 1, 2), order="C") if self.is_turned else cube
            builder.tensor(f"{path}.experts", f"{role}_proj", lies, role=Role.WEIGHT)
            if self.has_bias:
                name = f"{role}_proj_bias"
                builder.tensor(f"{path}.experts", name, shifts[role], role=Role.WEIGHT)

    def _fused(self, parts: dict[str, Array]) -> Array:
        if not self.is_alternating:
            return np.concatenate([parts["gate"], parts["up"]], axis=1)
        both = np.stack([parts["gate"], parts["up"]], axis=2)
        return both.reshape(self.experts, 2 * self.wide, *both.shape[3:])


@st.composite
def _cases(draw: st.DrawFn) -> _Case:
    return _Case(
        seed=draw(st.integers(0, 2**32)),
        layers=draw(st.integers(1, 2)),
        experts=draw(st.integers(2, 4)),
        wide=draw(st.sampled_from([2, 3, 4, 6])),
        narrow=draw(st.sampled_from([3, 4])),
        names=draw(st.sampled_from(_NAMES)),
        framework=draw(st.sampled_from(["torch", "paddle"])),
        has_bias=draw(st.booleans()),
        is_fused=(is_fused := draw(st.booleans())),
        is_turned=draw(st.booleans()),
        is_alternating=is_fused and draw(st.booleans()),
        is_stated=draw(st.booleans()),
    )


@settings(max_examples=150, deadline=None)
@given(_cases())
def test_equal_values_are_planned_back_in_both_directions(case: _Case) -> None:
    for reference, candidate in (case.sides(), case.sides()[::-1]):
        plan = plan_weights(reference, candidate)

        assert not plan.missing
        assert not plan.ambiguous
        assert len(plan.pairs) == len(candidate.index.records)
        assert _wrong(reference, candidate, reference, candidate) == []


@settings(max_examples=150, deadline=None)
@given(_cases())
def test_without_equal_values_what_is_sure_is_right(case: _Case) -> None:
    """What a class that states nothing alternates without a bias is beyond any evidence."""
    if case.is_alternating and not case.is_stated and not case.has_bias:
        return
    truth = case.sides()
    blind = tuple(_without_values(side) for side in truth)
    for place in ((0, 1), (1, 0)):
        reference, candidate = (blind[side] for side in place)
        known = tuple(truth[side] for side in place)

        assert _wrong(reference, candidate, *known) == []


def _without_values(side: MemorySide) -> MemorySide:
    """Give a side as a live model is: names and shapes alone."""
    records = tuple(replace(record, value=None) for record in side.index.records)
    known = side.index
    index = Index(
        step=known.step,
        rank=known.rank,
        modules=known.modules,
        calls=known.calls,
        records=records,
        values=known.values,
    )
    return replace(side, index=index)


def _wrong(
    reference: MemorySide, candidate: MemorySide, source: MemorySide, target: MemorySide
) -> list[str]:
    """Name what a plan makes of the values that it should not, unless it says that it is unsure."""
    found = []
    for pair in plan_weights(reference, candidate).pairs:
        record = target.index.records[pair.candidate]
        arrays = [source.array(source.index.records[one]) for one in pair.reference]
        made = pair.rule.apply(arrays, record.shape)
        if not pair.is_ambiguous and not np.array_equal(made, target.array(record)):
            found.append(f"{record.slot}: {pair.rule}")
    return found
