"""Programs of real Paddle models are complete; Paddle's own graph is the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
from paddle import nn

from padiff.dumpfile import LeafKind
from tests.support.clean_models import PADDLE, record_paddle
from tests.support.oracles import PaddleOracle
from tests.support.programs import Recorded

if TYPE_CHECKING:
    from pathlib import Path

# Paddle says so at each training-mode BatchNorm whose ``track_running_stats`` was never named.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")

Thing = Any


@pytest.mark.parametrize("name", PADDLE)
def test_the_program_of_a_real_model_is_complete(name: str, tmp_path: Path) -> None:
    oracle = PaddleOracle()

    # The elements, of a large model half a gigabyte, are looked at by nobody here.
    dump = record_paddle(name, tmp_path, is_training=True, content="digest", oracle=oracle)
    found = Recorded.read(dump)

    assert len(oracle.known) >= 10
    assert oracle.missed == []
    assert found.leaves(LeafKind.HOLE) == []
    assert found.leaves(LeafKind.PARAMETER)


class _Holder(nn.Layer):
    """Calls an operator that no module binds, so that it cannot be replaced."""

    held = (paddle._C_ops.exp,)

    def forward(self, x: paddle.Tensor) -> Thing:
        return self.held[0](x * 2).tanh()


def test_an_operator_that_is_not_seen_is_a_hole_and_missed_by_the_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = paddle.randn([3])
    x.stop_gradient = False
    monkeypatch.setitem(PADDLE, "holder", lambda: (_Holder(), (x,)))

    oracle = PaddleOracle()

    found = Recorded.read(record_paddle("holder", tmp_path, oracle=oracle))

    assert oracle.missed == ["ExpGradNode"]
    assert len(found.leaves(LeafKind.HOLE)) == 1
