"""Programs of real Paddle models are complete; Paddle's own graph is the oracle."""

from __future__ import annotations

from functools import partialmethod
from typing import TYPE_CHECKING, Any

import paddle
import pytest
from paddle import nn

import padiff
from padiff.dumper.recording.programrecorder import ProgramRecorder
from padiff.dumpfile import LeafKind
from tests.support.paddle_models import LARGE, SMALL, tensors
from tests.support.programs import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Paddle says so at each training-mode BatchNorm whose ``track_running_stats`` was never named.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")

Thing = Any


EVERY = [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)]


class _Oracle:
    """Follows Paddle's graph from what each recorded operator made."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        """Nodes that recorded operators made."""
        self.missed: list[str] = []
        """Nodes that lead to a recorded operator, and that none made."""

    def observe(self, stamp: Callable[[Thing], int], taken: Thing, result: object) -> None:
        """Look at what a recorded operator took and gave."""
        changed = {id(one) for one, entry in taken.refs if stamp(one) != entry.stamp}
        given = [one for one, _ in taken.refs]
        for tensor in given:
            if id(tensor) not in changed:
                self.look(tensor)
        self.known.update(node.node_ptr() for node in self.unknown([result, *given]))

    def look(self, tensor: paddle.Tensor) -> None:
        """Note the nodes in front of a tensor that are not known."""
        self.missed.extend(node.name() for node in self.unknown([tensor]))

    def unknown(self, things: Thing) -> Iterator[Any]:
        """Find the nodes in front of tensors, up to those that are known."""
        rest = [one.grad_fn for one in tensors(things)]
        seen = set(self.known)
        while rest:
            node = rest.pop()
            if node is None or node.node_ptr() in seen:
                continue
            seen.add(node.node_ptr())
            rest.extend(node.next_functions)
            if node.name() != "GradNodeAccumulation":
                yield node


_add = ProgramRecorder._add


def _observed(recorder: Thing, oracle: _Oracle, *args: Thing) -> None:
    """Stand for ``ProgramRecorder._add``."""
    oracle.observe(recorder.stamp, args[2], args[3])
    _add(recorder, *args)


def _recorded(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Recorded, _Oracle]:
    model, inputs = (SMALL | LARGE)[name]()
    oracle = _Oracle()
    watched = partialmethod(_observed, oracle)
    monkeypatch.setattr(ProgramRecorder, "_add", watched)
    with padiff.record(model, name="model", out=folder) as recorder:
        loss = paddle.stack([one.mean() for one in tensors(model(*inputs))]).sum()
        oracle.look(loss)
        loss.backward()
    return Recorded.read(recorder.path), oracle


@pytest.mark.parametrize("name", EVERY)
def test_the_program_of_a_real_model_is_complete(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, oracle = _recorded(name, tmp_path, monkeypatch)

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
    monkeypatch.setitem(SMALL, "holder", lambda: (_Holder(), (x,)))

    found, oracle = _recorded("holder", tmp_path, monkeypatch)

    assert oracle.missed == ["ExpGradNode"]
    assert len(found.leaves(LeafKind.HOLE)) == 1
