"""Lists nested otherwise: what numbers on unlike paths say is no order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.weight_text import names_of
from tests.support.dumps import DumpBuilder, MemorySide

Array = npt.NDArray[Any]
RNG = np.random.default_rng(13)
PLACES = [(stage, inner) for stage in range(2) for inner in (None, 0, 1)]
"""Of the networks in the order of a run: in each stage a first one, and a list of two."""


def _nested(stage: int, inner: int | None) -> str:
    return f"layers.{stage}.1" if inner is None else f"layers.{stage}.2.{inner}.1"


def _by_kind(stage: int, inner: int | None) -> str:
    return f"cross.{stage}.mlp" if inner is None else f"selfs.{stage}.{inner}.mlp"


def _side(
    framework: str, mixers: list[str], paths: list[str], leaves: tuple[str, str]
) -> MemorySide:
    built = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    shapes = dict(zip(leaves, ((8, 4), (4, 8)), strict=True))
    layers = {f"{path}.{leaf}": shape for path in paths for leaf, shape in shapes.items()}
    whole = [*mixers, *layers]
    around = {path.rsplit(".", depth)[0] for path in whole for depth in range(path.count(".") + 1)}
    for path in sorted({*around, *whole}):
        kind = "Linear" if path in layers else "Mixer" if path in mixers else "List"
        owner = f"{framework}.nn" if kind == "Linear" else "user"
        built.module(path, kind, class_path=f"{owner}.{kind}")
        if kind == "Mixer":
            built.tensor(path, "scale", RNG.normal(size=5))
        elif kind == "Linear":
            weight: Array = RNG.normal(size=layers[path])
            built.tensor(path, "weight", weight if framework == "torch" else weight.T)
    return built.side()


def test_nothing_wrong_is_certain_where_paths_have_unlike_numbers() -> None:
    paths = [_nested(*place) for place in PLACES], [_by_kind(*place) for place in PLACES]
    mixers = [f"layers.{stage}.0" for stage in range(2)], [f"cross.{stage}" for stage in range(2)]
    one = _side("torch", mixers[0], paths[0], ("fn.net.0", "fn.net.2"))
    two = _side("paddle", mixers[1], paths[1], ("w1", "w2"))
    true = dict(zip(*paths[::-1], strict=True))

    plan = plan_weights(one, two)

    for pair in plan.pairs:
        made, own = names_of(one, pair.reference), names_of(two, (pair.candidate,))
        if ".mlp." in own and not pair.is_ambiguous:
            assert made.startswith(f"{true[own.rpartition('.w')[0].rpartition('.w')[0]]}.")
    assert len(plan.pairs) == 2 * len(PLACES) + len(mixers[0])
