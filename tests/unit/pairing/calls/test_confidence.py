"""What weights prove by themselves is not followed along the data flow."""

from __future__ import annotations

import pytest

from padiff.pairing import pair
from padiff.pairing.calls.flow import _Refinement
from tests.support.extremes import Dialect, extreme

KINDS = ("equal layers", "branches of convolutions", "attentions", "256 experts a layer")


@pytest.mark.parametrize("kind", KINDS)
def test_where_every_layer_is_known_nothing_is_followed_from_it(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    gathered: list[int] = []
    follow = _Refinement.follow

    def counting(self: _Refinement) -> bool:
        gathered.append(len(self.pairs))
        return follow(self)

    monkeypatch.setattr(_Refinement, "follow", counting)

    pair(extreme(kind, 40, Dialect.SAME), extreme(kind, 40, Dialect.STRANGE))

    assert not gathered

    pair(extreme(kind, 40, Dialect.SAME), extreme(kind, 40, Dialect.STRANGE, seed=1))

    assert gathered
