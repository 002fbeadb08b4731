"""Oracles of completeness: what a framework computes while no recorded operator runs."""

from __future__ import annotations

import sys
from functools import partialmethod
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import patch

from torch._C import _current_graph_task_id
from torch.utils._python_dispatch import TorchDispatchMode

from padiff.dumper.recording.programrecorder import ProgramRecorder
from tests.support.paddle_models import tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import paddle

__all__ = ["PaddleOracle", "TorchOracle"]

Thing = Any


class TorchOracle(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes what torch computes in the forward pass while no recorded operator runs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = 0
        self.missed: list[str] = []

    def __torch_dispatch__(
        self, func: Thing, types: Thing, args: Thing = (), kwargs: Thing = None
    ) -> Thing:
        """Run a computation of torch's core, which is called for each."""
        if _current_graph_task_id() == -1:
            self.seen += 1
            self.missed += [] if _is_known() else [str(func)]
        return func(*args, **(kwargs or {}))


def _is_known() -> bool:
    """Return whether a recorded operator runs, or padiff itself asked torch for something."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if code is ProgramRecorder.run.__code__ or module.startswith("padiff."):
            return True
        frame = frame.f_back
    return False


class PaddleOracle:
    """Follows Paddle's graph from what each recorded operator made."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        """Nodes that recorded operators made."""
        self.missed: list[str] = []
        """Nodes that lead to a recorded operator, and that none made."""

    def __enter__(self) -> Self:
        """Look at each operator that is recorded from here on."""
        self._patch = patch.object(ProgramRecorder, "_add", partialmethod(_observed, self))
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look at no more."""
        self._patch.stop()

    def observe(self, stamp: Callable[[Thing], int], taken: Thing, result: object) -> None:
        """Look at what a recorded operator took and gave."""
        changed = {id(one) for one, entry in taken.refs if stamp(one) != entry.stamp}
        given = [one for one, _ in taken.refs]
        for tensor in given:
            if id(tensor) not in changed:
                self.look(tensor)
        self.known.update(node.node_ptr() for node in self._unknown([result, *given]))

    def look(self, tensor: paddle.Tensor) -> None:
        """Note the nodes in front of a tensor that are not known."""
        self.missed.extend(node.name() for node in self._unknown([tensor]))

    def _unknown(self, things: Thing) -> Iterator[Any]:
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


def _observed(recorder: Thing, oracle: PaddleOracle, *args: Thing) -> None:
    """Stand for ``ProgramRecorder._add``."""
    oracle.observe(recorder.stamp, args[2], args[3])
    _add(recorder, *args)
