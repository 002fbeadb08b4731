"""Finding what data flow forces takes few steps for each layer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from padiff.pairing import SideName
from padiff.pairing.calls.forced import Forced, LayerFlow, force
from padiff.pairing.view import view_of
from tests.support.extremes import Dialect, extreme

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMS = ("takers of one value", "equal layers", "layers of all sizes", "branches of convolutions")


def forced(kind: str, count: int) -> tuple[Mapping[int, int], int]:
    views = (
        view_of(extreme(kind, count, Dialect.SAME), SideName.REFERENCE),
        view_of(extreme(kind, count, Dialect.STRANGE, seed=1), SideName.CANDIDATE),
    )
    first, second = (
        [call for call in range(len(view.calls)) if view.weights[view.calls[call].module]]
        for view in views
    )
    return force(views, (first, second), [(0, 0)]), len(first)


@pytest.mark.parametrize("kind", FORMS)
def test_linking_looks_at_each_layer_a_few_times(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    asked: list[int] = []
    sized = Forced._by_size
    takers = LayerFlow.takers

    def counted(self: Forced, side: int, ranks: list[int]) -> dict[int, list[int]]:
        asked.append(len(ranks))
        return sized(self, side, ranks)

    def looked(self: LayerFlow, rank: int) -> object:
        asked.append(1)
        return takers(self, rank)

    monkeypatch.setattr(Forced, "_by_size", counted)
    monkeypatch.setattr(LayerFlow, "takers", looked)

    found, layers = forced(kind, 400)

    assert found
    assert sum(asked) <= 4 * layers


def test_what_is_known_of_layers_is_gathered_once() -> None:
    view = view_of(extreme("equal layers", 20, Dialect.SAME), SideName.REFERENCE)
    layers = list(range(1, 19))

    again = partial(force, (view, view), (layers, layers), [])
    again()
    again()

    assert len(view.flows) == len(view.before) == 1
