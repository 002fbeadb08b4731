"""What data flow decides of layers that neither weights nor names tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.pairing import SideName
from padiff.pairing.calls import flow
from padiff.pairing.calls.flow import refine
from padiff.pairing.view import view_of
from tests.support.dumps import DumpBuilder, MemorySide
from tests.support.extremes import Dialect, extreme

FORMS = ("takers of one value", "equal layers", "layers of all sizes", "branches of convolutions")
SHORT, LONG = ("scale a",), ("box.matrix", "scale b")


def branches(*order: tuple[str, ...], seed: int = 0) -> MemorySide:
    """Run branches of one input, each a row of layers that feed one another.

    What a layer in a box makes goes through a function before the box hands it on.
    """
    random = np.random.default_rng(seed)
    data = [random.standard_normal((2, 4)).astype(np.float32) for _ in range(8)]
    built = DumpBuilder().module("", "Net").module("box", "Sequential")
    for name in (one for names in order for one in names):
        is_matrix = name.endswith("matrix")
        built.module(name, "Linear" if is_matrix else "LayerNorm")
        built.tensor(name, "weight", random.standard_normal((4, 4) if is_matrix else (4,)))
    built.enter("", inputs=[data[0]])
    number = 0
    for names in order:
        taken = 0
        for name in names:
            number += 1
            if name.startswith("box"):
                built.enter("box", inputs=[data[taken]])
            built.call(name, inputs=[data[taken]], outputs=[data[number]])
            taken = number
            if name.startswith("box"):
                taken = number + 4
                built.leave(outputs=[data[taken]])
    return built.leave(outputs=[data[number]]).side()


def told(one: MemorySide, two: MemorySide) -> dict[str, str]:
    """Give the layers that data flow alone pairs, by name."""
    views = view_of(one, SideName.REFERENCE), view_of(two, SideName.CANDIDATE)
    layers = tuple([c.id for c in view.calls if view.weights[c.module]] for view in views)
    nothing = tuple(np.full(len(side), -1) for side in layers)

    found = refine(views, (layers[0], layers[1]), [], (nothing[0], nothing[1]))

    return {
        views[0].path(layers[0][one]): views[1].path(layers[1][two]) for one, two in found.items()
    }


MATRIX = {"box.matrix": "box.matrix"}
SAME = {"scale a": "scale a", "scale b": "scale b", **MATRIX}


def test_a_layer_before_which_nothing_ran_is_no_partner_of_one_that_needs_a_layer() -> None:
    assert told(branches(SHORT, LONG), branches(SHORT, LONG, seed=1)) == SAME


def test_one_side_that_runs_the_shorter_branch_first_is_enough() -> None:
    assert told(branches(SHORT, LONG), branches(LONG, SHORT, seed=1)) == SAME
    assert told(branches(LONG, SHORT), branches(SHORT, LONG, seed=1)) == SAME


def test_both_stay_possible_where_the_longer_branch_runs_first_on_both_sides() -> None:
    assert told(branches(LONG, SHORT), branches(LONG, SHORT, seed=1)) == MATRIX


def test_nothing_is_said_of_classes_in_which_a_layer_has_no_possible_partner() -> None:
    other = branches(("scale a",), ("scale b",), ("box.matrix",), seed=1)

    assert told(branches(SHORT, LONG), other) == MATRIX


def test_what_takes_a_partner_s_output_as_it_is_is_a_partner() -> None:
    found = told(branches(("matrix", "b"), SHORT), branches(("matrix", "b"), SHORT, seed=1))

    assert found == {"scale a": "scale a", "matrix": "matrix", "b": "b"}


def test_equal_siblings_stay_a_class() -> None:
    assert told(branches(("a",), ("b",)), branches(("a",), ("b",), seed=1)) == {}


@pytest.mark.parametrize("kind", FORMS)
def test_linking_looks_at_each_layer_a_few_times(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    views = (
        view_of(extreme(kind, 400, Dialect.SAME), SideName.REFERENCE),
        view_of(extreme(kind, 400, Dialect.STRANGE, seed=1), SideName.CANDIDATE),
    )
    first, second = (
        [call for call in range(len(view.calls)) if view.weights[view.calls[call].module]]
        for view in views
    )
    asked: list[int] = []
    taken_by = flow._Links.taken_by

    def looked(self: flow._Links, rank: int) -> object:
        found = taken_by(self, rank)
        asked.append(1 + len(found[1]))
        return found

    monkeypatch.setattr(flow._Links, "taken_by", looked)
    nothing = np.full(len(first), -1), np.full(len(second), -1)

    found = refine(views, (first, second), [(0, 0)], nothing)

    assert found
    assert sum(asked) <= 12 * len(first)
