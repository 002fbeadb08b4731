"""The judge's end of a worker: starts it, asks it, and outlives its crashes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError

from .wire import Closed, read_message, write_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

_STARTING_S = 300.0
"""What importing a framework may take: minutes on a cold disk."""
_MAIN = Path(__file__).parent / "main.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A tensor of a request."""

    array: npt.NDArray[np.generic]
    layout: str = "contiguous"
    takes_gradient: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call to execute; arguments as ``main`` reads them."""

    name: str = ""
    """Of the function; ``layer_ID`` for a layer that is held, ``layer_ID.train`` for its method;
    empty: the tensors and ``ends`` are the result."""
    keywords: Mapping[str, Any] = field(default_factory=dict)
    tensors: Sequence[Sent] = ()
    positional: Sequence[Any] = ()
    wrapped: Mapping[str, str] = field(default_factory=dict)
    taken: str = ""
    slots: Sequence[int] | None = None
    seed: int = 0
    backward: bool = True
    repeats: int = 0
    """How often to time it; 0: not at all."""
    starts: bool = False
    """Whether what is held of an earlier program is forgotten."""
    keeps: int | None = None
    """The id of the value that the first compared output is; the others follow. None: no value."""
    ends: Sequence[int] = ()
    """Values that gradients arrive at."""
    taking: Sequence[int] = ()
    """The values whose gradients are asked for."""
    layer: str = ""
    """Under which name the result is held, a layer, whose state is the outcome then."""
    state: Sequence[str] = ()
    """The attributes of the layer that are its parameters and buffers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """What a framework said instead of a result."""

    kind: str
    """Name of the exception."""
    text: str
    stage: str
    """``forward`` or ``backward``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The end of a worker."""

    ended_by: int
    """Number of the signal; negative: the exit code."""
    is_late: bool = False
    """Whether it was ended because it passed the time limit."""

    @property
    def name(self) -> str:
        """The signal's name."""
        if self.ended_by < 0:
            return f"exit code {-self.ended_by}"
        return signal.Signals(self.ended_by).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a call."""

    outputs: tuple[npt.NDArray[np.generic], ...] = ()
    gradients: tuple[npt.NDArray[np.generic] | None, ...] = ()
    """By each tensor that takes one, in their order; empty if no output has a graph."""
    graphs: tuple[bool, ...] = ()
    """Of each output, whether a gradient can come from it."""
    error: Error | None = None
    crash: Crash | None = None
    is_one: bool = False
    """Whether the result is a tensor and no list of some."""
    elapsed_s: float | None = None
    """Median of the repeats."""


class Worker:
    """A process that executes calls of one framework."""

    def __init__(
        self, framework: str, *, python: str | None = None, device: str = "cpu", limit_s: float = 20
    ) -> None:
        """Start it; ``ready`` waits until it can be asked.

        Args:
            framework: ``torch`` or ``paddle``.
            python: The interpreter of its environment; None: this one.
            device: Of its tensors.
            limit_s: What one call may take.

        Raises:
            ConfigError: The interpreter cannot be run.
        """
        self.framework, self.python, self.limit_s = framework, python or sys.executable, limit_s
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        environment.setdefault("GLOG_minloglevel", "3")
        try:
            self._process = subprocess.Popen(
                [self.python, "-P", str(_MAIN), framework, device],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
            )
        except OSError as error:
            raise ConfigError(
                f"cannot start {self.python!r} for {framework}: {error.strerror or error}",
                hint="name the interpreter of an environment with --python-reference or "
                "--python-candidate, such as .venv/bin/python",
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asking, self._answering = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._child = 0
        self._asked_at = self._waited_s = 0.0
        self.version = ""

    def __enter__(self) -> Worker:
        """Wait until it is ready."""
        try:
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self.close()

    def wait(self) -> None:
        """Wait until it can be asked.

        Raises:
            ConfigError: Its environment lacks the framework, or cannot run it.
        """
        if not select.select([self._answering], [], [], _STARTING_S)[0]:
            self._give_up("it does not start")
        try:
            head, _ = read_message(self._answering)
        except Closed:
            self._give_up(self._said() or "it ended at once")
        if "failed" in head:
            self._give_up(head["failed"])
        self._child, self.version = head["ready"], head["version"]

    def _give_up(self, why: str) -> NoReturn:
        raise ConfigError(
            f"cannot run {self.framework} in {self.python!r}: {why}",
            hint="install it there, or name the interpreter of an environment that has it with "
            "--python-reference or --python-candidate",
        )

    def _said(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def ask(self, request: Request) -> None:
        """Send a call; ``answer`` returns what became of it."""
        tensors = [
            {
                "dtype": one.array.dtype.name,
                "shape": list(one.array.shape),
                "layout": one.layout,
                "takes_gradient": one.takes_gradient,
            }
            for one in request.tensors
        ]
        head = {
            "name": request.name,
            "keywords": dict(request.keywords),
            "positional": list(request.positional),
            "tensors": tensors,
            "wrapped": dict(request.wrapped),
            "taken": request.taken,
            "slots": request.slots,
            "seed": request.seed,
            "backward": request.backward,
            "repeats": request.repeats,
            "starts": request.starts,
            "keeps": request.keeps,
            "ends": list(request.ends),
            "taking": list(request.taking),
            "layer": request.layer,
            "state": list(request.state),
        }
        self._asked_at, self._waited_s = time.monotonic(), _waited_s(self._child)
        write_message(self._asking, head, b"".join(map(_carried, request.tensors)))

    def _answers_in_time(self) -> bool:
        """Wait for an answer; the time for which the process waits for a processor is free."""
        while True:
            free = _waited_s(self._child) - self._waited_s
            left = self._asked_at + self.limit_s + free - time.monotonic()
            if select.select([self._answering], [], [], max(left, 0))[0]:
                return True
            if left <= 0:
                return False

    def answer(self) -> Outcome:
        """Return what became of the call that was asked last."""
        is_late = not self._answers_in_time()
        if is_late:
            os.kill(self._child, signal.SIGKILL)
        try:
            head, body = read_message(self._answering)
        except Closed:
            self._give_up(self._said() or "it ended")
        if "crash" in head:
            self.wait()
            return Outcome(crash=Crash(ended_by=head["crash"], is_late=is_late))
        if is_late:  # it answered just before it was ended
            read_message(self._answering)
            self.wait()
        return _outcome(head, body)

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            if self._child:
                with contextlib.suppress(ProcessLookupError):  # it ended just now
                    os.kill(self._child, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        self._errors.close()


def _waited_s(process: int) -> float:
    """Return how long a process has waited for a processor, where the system counts it."""
    try:
        counted = Path(f"/proc/{process}/schedstat").read_text()
    except OSError:
        return 0.0
    return int(counted.split()[1]) * 1e-9


def _carried(one: Sent) -> bytes:
    array = one.array.astype(np.float32) if one.array.dtype.name in _CARRIED else one.array
    return np.ascontiguousarray(array).tobytes()


_CARRIED = frozenset({"bfloat16", "float16"})
"""Dtypes whose elements travel as float32."""


def _outcome(head: dict[str, Any], body: bytes) -> Outcome:
    if "error" in head:
        return Outcome(error=Error(kind=head["error"], text=head["text"], stage=head["stage"]))
    place = 0
    found: dict[str, list[npt.NDArray[np.generic] | None]] = {}
    for name in ("outputs", "gradients"):
        found[name] = []
        for one in head[name]:
            if one is None:
                found[name].append(None)
                continue
            count = int(np.prod(one["shape"], dtype=int))
            array = np.frombuffer(body, one["carrier"], count, place).reshape(one["shape"])
            place += array.nbytes
            found[name].append(_narrowed(array, one["dtype"]))
    outputs = tuple(one for one in found["outputs"] if one is not None)
    return Outcome(
        outputs=outputs,
        gradients=tuple(found["gradients"]),
        graphs=tuple(head["graphs"]),
        is_one=head["is_one"],
        elapsed_s=head["seconds"],
    )


def _narrowed(array: npt.NDArray[np.generic], dtype: str) -> npt.NDArray[np.generic]:
    if dtype == array.dtype.name:
        return array
    import ml_dtypes  # noqa: PLC0415 -- few dtypes need it

    return array.astype(ml_dtypes.bfloat16)
