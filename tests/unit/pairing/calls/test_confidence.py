"""What weights prove by themselves is not followed along the data flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.pairing import pair
from padiff.pairing.calls.forced import LayerFlow
from tests.support.extremes import Dialect, extreme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.view import View

KINDS = ("equal layers", "branches of convolutions", "attentions", "256 experts a layer")


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
