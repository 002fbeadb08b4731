"""Whose fault a divergence is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Kind, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

LAYERS = [f"layers.{place}" for place in range(5)]


def chain(fault: str = "", *, size: float = 1.0, inside: str = "") -> DumpBuilder:
    """Five layers in a container; the fault is in one, or between it and the one before."""
    built = DumpBuilder().module("", "Net").module("layers", "Chain")
    for path in LAYERS:
        built.module(path, "Layer")
    hidden: npt.NDArray[np.float32] = np.ones((2, 3), np.float32)
    built.enter("", inputs=[hidden]).enter("layers", inputs=[hidden])
    for path in LAYERS:
        given = hidden + np.float32(size) if path == inside else hidden
        hidden = given * np.float32(1.5) + np.float32(size if path == fault else 0)
        built.call(path, inputs=[given], outputs=[hidden])
    return built.leave(outputs=[hidden]).leave(outputs=[hidden])


def compared(known: DumpBuilder, found: DumpBuilder, tmp_path: Path) -> Comparison:
    paths = known.write(tmp_path / "known"), found.write(tmp_path / "found")
    return compare(*paths, CompareSettings())


def origins(found: Comparison) -> list[str]:
    return [
        origin.pair.reference.address.module for origin in found.origins if origin.pair.reference
    ]


@pytest.mark.parametrize("fault", LAYERS)
def test_a_single_fault_in_a_chain_is_found(fault: str, tmp_path: Path) -> None:
    found = compared(chain(), chain(fault), tmp_path)

    assert origins(found) == [fault]
    kinds = {divergence.kind for divergence in found.divergences[1:]}
    assert kinds <= {Kind.INHERITED}


@pytest.mark.parametrize("inside", LAYERS)
def test_a_fault_between_layers_is_the_containers(inside: str, tmp_path: Path) -> None:
    found = compared(chain(), chain(inside=inside), tmp_path)

    assert origins(found) == ["layers"]


def test_other_inputs_are_named_at_the_root(tmp_path: Path) -> None:
    built = []
    for number in (1.0, 2.0):
        x = np.full((2, 3), number, np.float32)
        made = DumpBuilder().module("", "Net").module("fc", "Linear").enter("", inputs=[x])
        built.append(made.call("fc", inputs=[x], outputs=[x]).leave(outputs=[x]))

    found = compared(built[0], built[1], tmp_path)

    assert origins(found) == [""]
    assert found.origins[0].inputs_agree is False


def test_a_diverged_loss_alone_is_an_origin(tmp_path: Path) -> None:
    known, found = (
        chain().record("", Role.LOSS, np.array(number, np.float32)) for number in (1.0, 2.0)
    )

    result = compared(known, found, tmp_path)

    assert [str(origin.pair.reference.address.role) for origin in result.origins
            if origin.pair.reference] == ["loss"]  # fmt: skip


def test_two_independent_faults_are_both_origins(tmp_path: Path) -> None:
    x = np.ones((2, 2), np.float32)

    def build(change: float) -> DumpBuilder:
        built = DumpBuilder().module("", "Net").module("a", "A").module("b", "B")
        y = x + np.float32(change)
        built.enter("", inputs=[x]).call("a", inputs=[x], outputs=[y])
        return built.call("b", inputs=[x], outputs=[y * 2]).leave(outputs=[y * 3])

    found = compared(build(0), build(1), tmp_path)

    assert origins(found) == ["a", "b"]


def test_a_wrapper_that_only_one_side_has_is_no_origin(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = [random.standard_normal((4, 4)).astype(np.float32) for _ in range(3)]

    def build(change: float, *, is_wrapped: bool) -> DumpBuilder:
        prefix = "wrapper." if is_wrapped else ""
        paths = ["first", prefix + "second", prefix + "third"]
        built = DumpBuilder().module("", "Net")
        built = built.module("wrapper", "Wrapper") if is_wrapped else built
        for path, weight in zip(paths, weights, strict=True):
            built.module(path, "Linear").tensor(path, "weight", weight)
        x = np.ones((2, 4), np.float32)
        hidden = [x, x @ weights[0].T + np.float32(change)]
        hidden += [hidden[1] @ weights[1].T]
        hidden += [hidden[2] @ weights[2].T]
        built.enter("", inputs=[x]).call(paths[0], inputs=[x], outputs=[hidden[1]])
        built = built.enter("wrapper", inputs=[hidden[1]]) if is_wrapped else built
        for place in (1, 2):
            built.call(paths[place], inputs=[hidden[place]], outputs=[hidden[place + 1]])
        built = built.leave(outputs=[hidden[3]]) if is_wrapped else built
        return built.leave(outputs=[hidden[3]])

    found = compared(build(0, is_wrapped=True), build(1, is_wrapped=False), tmp_path)

    assert origins(found) == ["first"]
