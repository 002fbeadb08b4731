"""What weights prove by themselves is not weighed against others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.pairing import pair
from padiff.pairing.calls.forced import LayerFlow
from padiff.pairing.calls.rivals import RatedSide
from tests.support.extremes import Dialect, extreme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.view import View

KINDS = ("equal layers", "branches of convolutions", "attentions", "256 experts a layer")


def weighed(monkeypatch: pytest.MonkeyPatch, kind: str, *, seed: int) -> list[str]:
    """Give the layers that are weighed against others."""
    sides = extreme(kind, 60, Dialect.SAME), extreme(kind, 60, Dialect.STRANGE, seed=seed)
    asked: list[str] = []
    rivals = RatedSide.rivals

    def counting(self: RatedSide, module: int, partner: int, other: RatedSide) -> list[int]:
        if self.view.weights[module]:
            asked.append(self.view.modules[module].path)
        return rivals(self, module, partner, other)

    with monkeypatch.context() as patched:
        patched.setattr(RatedSide, "rivals", counting)
        found = pair(*sides)
    assert len(found.calls) > 20
    return asked


@pytest.mark.parametrize("kind", KINDS)
def test_layers_of_weights_of_their_own_are_not_weighed(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    assert weighed(monkeypatch, kind, seed=0) == []


def test_layers_of_other_weights_are_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert weighed(monkeypatch, "attentions", seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_where_every_layer_is_known_nothing_is_followed_from_it(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    gathered: list[int] = []
    made = LayerFlow.__init__

    def counting(self: LayerFlow, view: View, layers: Sequence[int]) -> None:
        gathered.append(len(layers))
        made(self, view, layers)

    monkeypatch.setattr(LayerFlow, "__init__", counting)

    pair(extreme(kind, 40, Dialect.SAME), extreme(kind, 40, Dialect.STRANGE))

    assert not gathered

    pair(extreme(kind, 40, Dialect.SAME), extreme(kind, 40, Dialect.STRANGE, seed=1))

    assert gathered
