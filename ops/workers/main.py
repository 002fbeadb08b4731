"""A worker: a process that executes calls of one framework, in that framework's environment.

Run by its path, ``python main.py FRAMEWORK DEVICE``: the environment needs the framework and
numpy, and no padiff. The process imports the framework and forks; the child executes, and where
it dies, the parent says by which signal and forks another, which costs milliseconds where the
import of a framework takes seconds.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

# Beside this file and beside the cases: no package, wherever padiff is not installed.
_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "cases")]
_wire = importlib.import_module("wire")
_elements = importlib.import_module("elements")

_HELD: dict[Any, Any] = {}
"""Tensors by the id of their value and layers by ``layer_ID``: of a program that is executed call
by call."""
_PLAIN = {"bfloat16": "float32", "float16": "float32"}
"""What carries elements that numpy cannot hold, or that need no fewer bytes here."""


def main() -> int:
    """Serve until the judge is gone."""
    framework, device = sys.argv[1:3]
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # what a framework prints is no message
    try:
        adapter = importlib.import_module(f"on_{framework}").Framework(device)
    except Exception as error:  # whatever an environment can get wrong
        _wire.write_message(answers, {"failed": f"{type(error).__name__}: {error}"})
        return 1
    while True:
        child = os.fork()
        if not child:
            _serve(adapter, requests, answers)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and not os.WEXITSTATUS(status):
            return 0
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)
        _wire.write_message(answers, {"crash": ended})


def _serve(adapter: Any, requests: int, answers: int) -> None:  # noqa: ANN401
    """Execute what is asked, and end the process."""
    _wire.write_message(answers, {"ready": os.getpid(), "version": adapter.version})
    while True:
        try:
            head, body = _wire.read_message(requests)
        except _wire.Closed:
            os._exit(0)
        _wire.write_message(answers, *_executed(adapter, head, body))


def _executed(adapter: Any, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:  # noqa: ANN401
    """Return the answer to a request: outputs and gradients, or the error."""
    stage = "forward"
    gradients: list[Any] = []
    if head["starts"]:
        _HELD.clear()
    try:
        call = _Calling(adapter, head, body)
        held = [_HELD[one] for one in head["ends"]]
        outputs = call.run() if head["name"] else [*call.tensors, *held]
        if head["layer"]:
            outputs = call.with_layer(outputs)
        stage = "backward"
        if head["backward"]:
            gradients = call.gradients(outputs)
        if head["keeps"] is not None:
            _HELD.update(enumerate(call.compared(outputs), head["keeps"]))
        timing = call.timed(head["repeats"]) if head.get("repeats") else None
    except Exception as error:  # the framework refuses, in whatever way it does
        return {
            "error": type(error).__name__,
            "text": str(error)[:4000],
            "where": traceback.extract_tb(error.__traceback__)[-1].name,
            "stage": stage,
        }, b""
    graphs = [adapter.has_graph(one) for one in outputs]
    answer: dict[str, Any] = {"seconds": timing, "graphs": graphs, "is_one": call.is_one}
    parts: list[bytes] = []
    for name, tensors in (("outputs", outputs), ("gradients", gradients)):
        answer[name] = [None if one is None else _packed(adapter, one, parts) for one in tensors]
    return answer, b"".join(parts)


def _packed(adapter: Any, tensor: Any, parts: list[bytes]) -> dict[str, Any]:  # noqa: ANN401
    dtype, array = adapter.elements(tensor)
    parts.append(np.ascontiguousarray(array).tobytes())
    return {"dtype": dtype, "carrier": array.dtype.name, "shape": list(array.shape)}


def _function(adapter: Any, name: str) -> Any:  # noqa: ANN401
    """Return a framework's function, or one of a user's file: ``/path/file.py:name``."""
    held, _, method = name.partition(".")
    if held in _HELD:
        return getattr(_HELD[held], method) if method else _HELD[held]
    file, colon, function = name.rpartition(":")
    if not colon:
        return adapter.function(name)
    if file not in _LOADED:
        _LOADED[file] = runpy.run_path(file)
    return _LOADED[file][function]


_LOADED: dict[str, dict[str, Any]] = {}
"""What users' files define, by path."""


class _Calling:
    """One call with its tensors."""

    def __init__(self, adapter: Any, head: dict[str, Any], body: bytes) -> None:  # noqa: ANN401
        self.adapter, self.head, self.is_one = adapter, head, False
        self.taking: list[Any] = []
        """Tensors whose gradients are asked for."""
        self.tensors: list[Any] = []
        self._kinds = {
            "tensor": self.tensors.__getitem__,
            "value": _HELD.__getitem__,
            "dtype": adapter.dtype,
            "float": float,
            "python": eval,
        }
        place = 0
        for one in head["tensors"]:
            carrier = np.dtype(_PLAIN.get(one["dtype"], one["dtype"]))
            count = int(np.prod(one["shape"], dtype=int))
            array = np.frombuffer(body, carrier, count, place).reshape(one["shape"])
            place += array.nbytes
            tensor = adapter.tensor(array, one["dtype"], one["layout"], one["takes_gradient"])
            self.tensors.append(tensor)
            if one["takes_gradient"]:
                self.taking.append(tensor)

    def argument(self, one: Any) -> Any:  # noqa: ANN401
        """Return an argument as the framework takes it."""
        if isinstance(one, list):
            return [self.argument(each) for each in one]
        if isinstance(one, dict):
            [(kind, told)] = one.items()
            return self._kinds[kind](told)
        return one

    def run(self) -> list[Any]:
        """Return the tensors of the result, in order."""
        function = _function(self.adapter, self.head["name"])
        keywords = {name: self.argument(one) for name, one in self.head["keywords"].items()}
        for name, text in self.head["wrapped"].items():
            if keywords.get(name) is not None:
                keywords[name] = eval(text, {"x": keywords[name]})
        positional = [self.argument(one) for one in self.head["positional"]]
        out = function(*positional, **keywords)
        if self.head["layer"]:
            _HELD[self.head["layer"]] = out
            return []
        if self.head["taken"]:
            out = eval(self.head["taken"], {"out": out})
        self.is_one = not isinstance(out, list | tuple)
        return list(self.adapter.flat(out))

    def with_layer(self, tensors: list[Any]) -> list[Any]:
        """Return the parameters and buffers of a layer, after those that are sent are put there."""
        layer = _HELD[self.head["layer"]]
        state = [getattr(layer, name) for name in self.head["state"]]
        for own, one in zip(state, tensors, strict=False):
            self.adapter.assign(own, one)
        return state

    def compared(self, outputs: list[Any]) -> list[Any]:
        """Return the outputs that are compared."""
        slots = self.head["slots"]
        return outputs if slots is None else [outputs[slot] for slot in slots]

    def gradients(self, outputs: list[Any]) -> list[Any]:
        """Return the gradient by each tensor that takes one; None where none arrives."""
        ends = [
            (one, _elements.signs(int(np.prod(one.shape, dtype=int)), self.head["seed"] + place))
            for place, one in enumerate(self.compared(outputs))
            if self.adapter.has_graph(one)
        ]
        taking = self.taking + [_HELD[one] for one in self.head["taking"]]
        if not ends or not taking:
            return []
        return list(self.adapter.gradients(ends, taking))

    def timed(self, repeats: int) -> float:
        """Return the median of the seconds that a call takes, after a tenth of them as warm-up."""
        for _ in range(max(repeats // 10, 1)):
            self.adapter.wait(self.run())
        found = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.adapter.wait(self.run())
            found.append(time.perf_counter() - start)
        return sorted(found)[repeats // 2]


if __name__ == "__main__":
    sys.exit(main())
