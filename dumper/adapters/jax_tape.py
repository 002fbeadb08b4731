"""Watches every primitive that JAX runs, and keeps what a backward pass needs.

JAX hands each primitive to the *trace* of the thread. This one runs it at once, so that a model
runs as it does without padiff: values are real, Python's control flow works, and modules call each
other in Python. Functions that ``jax.jit`` compiles are run primitive by primitive; loops
(``scan``, ``while``, ``cond``) are primitives whose inside is not seen.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax._src import core  # the only place where traces are public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.operators import RunOperator

Array = Any

PREFIX = "jax.lax."
_INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
            "checkpoint": "jaxpr", "remat2": "jaxpr", "custom_lin": "jaxpr"}  # fmt: skip
"""Primitives that do nothing but run a function, and the parameter that holds it."""
_WHOLE = {"relu": "jax.nn.relu", "relu6": "jax.nn.relu6"}
"""Functions with a derivative of their own at a kink: operators as they are, by their names."""
_SILENT = frozenset({"sharding", "out_sharding", "accuracy", "weak_type", "unroll", "out_dtype"})
"""Parameters that say how something is computed, not what."""
DRAWING = frozenset(
    {"random_bits", "random_gamma", "threefry2x32", "rng_bit_generator", "rng_uniform"}
)
"""Primitives that make random numbers."""


quiet = core.take_current_trace
"""A context in which nobody watches: for work of padiff's own."""


class Removal:
    """A handle that calls a function."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], None]) -> None:
        """Keep a function that may be called twice."""
        self._function = function

    def remove(self) -> None:
        """Call it."""
        self._function()


def raw(tensor: Any) -> Any:  # noqa: ANN401
    """Return the array that a variable of flax holds now; an array as it is."""
    read = getattr(type(tensor), "get_value", None)
    return tensor if read is None else read(tensor)


def is_array(thing: object) -> bool:
    """Return whether this is an array with elements: no tracer, no key of a random generator."""
    return (
        isinstance(thing, jax.Array)
        and not isinstance(thing, core.Tracer)
        and not jax.dtypes.issubdtype(thing.dtype, jax.dtypes.extended)
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """One step that a gradient flows back through."""

    function: Callable[..., Sequence[Array]]
    """Makes all outputs of the inputs that a gradient flows to."""
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


class _Watched(core.Trace):  # type: ignore[misc]
    """The trace: hands each primitive that is run to a tape."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        # values are real: variables of flax, made before, may be changed
        object.__setattr__(self, "_weakref", core.eval_trace._weakref)
        self.tape = tape

    def stage_value(self, val: Any) -> Any:  # noqa: ANN401
        """Return the array of what is none yet: an array of numpy, or a number."""
        made = core.eval_trace.stage_value(val)
        is_number = made is not val and np.ndim(val) == 0 and is_array(made)
        return self.tape.as_number(_plain(val), made) if is_number else made

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any], /) -> Any:  # noqa: ANN401
        inner = params.get(_INLINED.get(primitive.name, ""))
        if inner is not None:
            return self.inlined(inner, args)
        tape = self.tape
        given = [tape.number_of(arg) for arg in args]
        function = partial(_bound, primitive, params)
        if not any(is_array(one) for one in given) and primitive.name == "convert_element_type":
            return tape.as_number(given[0], function(args))  # an epsilon is a number
        name = f"{PREFIX}{primitive.name}"
        run = tape.run()
        if run is None:
            result = function(args)
        else:
            told = {key: one for key, one in params.items() if _is_told(key, one)}
            result = run(name, lambda *_, **__: function(args), tuple(given), told)
        if primitive.name != "stop_gradient":
            many = partial(_as_list, function)
            tape.note(many, args, result if primitive.multiple_results else [result])
        return result

    def inlined(self, inner: Any, args: Sequence[Any]) -> list[Any]:  # noqa: ANN401
        """Run what a compiled function is made of."""
        jaxpr, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
        with core.set_current_trace(self):
            return list(core.eval_jaxpr(jaxpr, consts, *args))

    def process_call(self, primitive: Any, f: Any, tracers: Any, params: Any, /) -> Any:  # noqa: ANN401
        with core.set_current_trace(self):
            return f.call_wrapped(*tracers)

    def process_custom_jvp_call(self, primitive: Any, /, *given: Any, **params: Any) -> list[Any]:  # noqa: ANN401
        """Run a function that has a derivative of its own, which is the one that counts."""
        *parts, args = given

        def bound(*args: Any) -> Any:  # noqa: ANN401
            return primitive.bind(*args, subfuns=tuple(parts), **params)

        staged = jax.make_jaxpr(bound)(*args)
        whole = partial(core.eval_jaxpr, staged.jaxpr, staged.consts)
        inner = staged.jaxpr.eqns[0].params["call_jaxpr"]
        name = _WHOLE.get(inner.jaxpr.debug_info.func_name)
        run = self.tape.run()
        if name is not None:
            result = (
                run(name, lambda *_, **__: whole(*args), tuple(args), {}) if run else whole(*args)
            )
        else:
            with self.tape.paused():
                result = self.inlined(staged if len(staged.eqns) > 1 else inner, args)
        self.tape.note(lambda given: whole(*given), args, result)
        return list(result)

    process_custom_vjp_call = process_custom_jvp_call


class _Counted:
    """A context that counts, for each thread, how often it was entered and not left."""

    __slots__ = ("_local", "_name")

    def __init__(self, local: threading.local, name: str) -> None:
        self._local, self._name = local, name

    def __enter__(self) -> None:
        setattr(self._local, self._name, getattr(self._local, self._name, 0) + 1)

    def __exit__(self, *_: object) -> None:
        setattr(self._local, self._name, getattr(self._local, self._name) - 1)


class Tape:
    """What was run since the last backward pass."""

    def __init__(self) -> None:
        self.trace = _Watched(self)
        self.drawn = 0
        """How often random numbers were drawn."""
        self.gradients: dict[int, tuple[Array, Array]] = {}
        """Weights and their gradients, by the identity of the weight."""
        self._entries: list[_Entry] = []
        self._needed: dict[int, Array] = {}
        """The arrays that a gradient flows to, by identity."""
        self._leaves: dict[int, Array] = {}
        self._numbers: dict[int, tuple[Array, Any]] = {}
        self._waiting: dict[int, list[Callable[[Array], None]]] = {}
        self._run: RunOperator | None = None
        self._users = 0
        self._local = threading.local()

    # -- contexts

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Watch this thread; forget everything when the last one leaves."""
        self._users += 1
        try:
            with core.set_current_trace(self.trace):
                yield
        finally:
            self._users -= 1
            if not self._users:
                self.clear()

    @contextmanager
    def running(self, run: RunOperator) -> Iterator[None]:
        """Hand operators to whom records them."""
        before, self._run = self._run, run
        try:
            yield
        finally:
            self._run = before

    def silent(self) -> AbstractContextManager[object]:
        """Hand on no operator of the thread that enters; may be entered again."""
        return _Counted(self._local, "silent")

    def paused(self) -> AbstractContextManager[object]:
        """Note nothing for a backward pass."""
        return _Counted(self._local, "paused")

    def run(self) -> RunOperator | None:
        """Return whom to hand operators to, if anybody."""
        is_silent: int = getattr(self._local, "silent", 0)
        return None if is_silent else self._run

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._needed.clear()
        self._leaves.clear()
        self._numbers.clear()
        self._waiting.clear()

    # -- forward

    def number_of(self, arg: Any) -> Any:  # noqa: ANN401
        """Return the number that an argument was made of, or the argument."""
        known = self._numbers.get(id(arg))
        if known is not None and known[0] is arg:
            return known[1]
        if isinstance(arg, bool | int | float | complex):
            return arg if type(arg) in (bool, int, float, complex) else _plain(arg)
        if isinstance(arg, np.ndarray | np.generic) or not isinstance(arg, jax.Array):
            return _plain(arg)
        return arg

    def as_number(self, number: Any, made: Array) -> Array:  # noqa: ANN401
        """Note that an array is nothing but a number."""
        is_same = isinstance(number, float) and jax.numpy.issubdtype(made.dtype, np.floating)
        self._numbers[id(made)] = (made, number if is_same else _plain(np.asarray(made)))
        return made

    def lead(self, array: Array) -> None:
        """Let gradients flow to an array that nothing made."""
        if jax.numpy.issubdtype(array.dtype, np.inexact):
            self._leaves[id(array)] = self._needed[id(array)] = array

    def needs(self, array: Array) -> bool:
        """Return whether a gradient flows to an array."""
        return self._needed.get(id(array)) is array

    def note(
        self,
        function: Callable[[Sequence[Any]], Sequence[Array]],
        args: Sequence[Any],
        results: Sequence[Array],
    ) -> None:
        """Note a step, if a gradient flows through it."""
        places = [place for place, arg in enumerate(args) if self.needs(arg)]
        made = [one for one in results if is_array(one) and not self.needs(one)]
        floating = [one for one in made if jax.numpy.issubdtype(one.dtype, np.inexact)]
        is_paused: int = getattr(self._local, "paused", 0)
        if not places or not floating or is_paused:
            return

        def again(*given: Array) -> Sequence[Array]:
            every = list(args)
            for place, one in zip(places, given, strict=True):
                every[place] = one
            return function(every)

        inputs = tuple(args[place] for place in places)
        self._entries.append(_Entry(again, inputs, tuple(results)))
        self._needed.update((id(one), one) for one in floating)

    # -- backward

    def wait(self, array: Array, callback: Callable[[Array], None]) -> Callable[[], None]:
        """Call back with the total gradient of an array; returns what ends the waiting."""
        waiting = self._waiting.setdefault(id(array), [])
        waiting.append(callback)
        return partial(_without, waiting, callback)

    def backward(self, loss: Array) -> None:
        """Run the backward pass from a scalar, and forget what led to it."""
        with quiet():
            totals: dict[int, Array] = {id(loss): jax.numpy.ones_like(loss)}
            for entry in reversed(self._entries):
                if any(id(one) in totals for one in entry.outputs):
                    self._through(entry, totals)
            for key, leaf in self._leaves.items():
                if key in totals:
                    before = self.gradients.get(key)
                    is_same = before is not None and before[0] is leaf
                    total = before[1] + totals[key] if before and is_same else totals[key]
                    self.gradients[key] = leaf, total
                    self._arrived(key, totals[key])
        self._entries.clear()
        self._needed = dict(self._leaves)
        self._waiting.clear()

    def _through(self, entry: _Entry, totals: dict[int, Array]) -> None:
        """Add what flows through one step to the totals of what it took."""
        made, pull = jax.vjp(lambda *given: list(entry.function(*given)), *entry.inputs)
        back = []
        for output, fresh in zip(entry.outputs, made, strict=True):
            total = totals.get(id(output))
            if total is not None:
                self._arrived(id(output), total)
            back.append(_zero(fresh) if total is None else total.astype(fresh.dtype))
        for one, part in zip(entry.inputs, pull(back), strict=True):
            before = totals.get(id(one))
            totals[id(one)] = part if before is None else before + part

    def _arrived(self, key: int, total: Array) -> None:
        for callback in tuple(self._waiting.get(key, ())):
            callback(total)


def _bound(primitive: Any, params: dict[str, Any], args: Sequence[Any]) -> Any:  # noqa: ANN401
    """Run a primitive without anybody watching."""
    TAPE.drawn += primitive.name in DRAWING
    if primitive.name == "stop_gradient":  # gives the array back to which a gradient flows
        return jax.numpy.array(args[0], copy=True)
    return primitive.bind(*args, **params)


def _as_list(function: Callable[[Sequence[Any]], Any], args: Sequence[Any]) -> Sequence[Array]:
    made = function(args)
    return made if isinstance(made, list | tuple) else [made]


def _zero(array: Array) -> Array:
    """Return the cotangent of an output that leads to no loss; that of integers has no numbers."""
    if jax.numpy.issubdtype(array.dtype, np.inexact):
        return jax.numpy.zeros_like(array)
    return np.zeros(array.shape, jax.dtypes.float0)


def _plain(arg: Any) -> Any:  # noqa: ANN401
    """Return a number of numpy's as Python's; arrays become JAX's."""
    if isinstance(arg, core.Tracer):
        return arg
    array = np.asarray(arg)
    if array.ndim or array.dtype.kind not in "biufc":
        return jax.numpy.asarray(arg)
    if array.dtype == np.float32:  # an epsilon of 1e-6 was meant, not 9.99999997e-07
        return _MEANT.get(array.item(), float(str(array)))
    return array.item()


def _is_told(key: str, value: object) -> bool:
    return value is not None and key not in _SILENT


def _without(waiting: list[Any], callback: object) -> None:
    if callback in waiting:
        waiting.remove(callback)


_MEANT = {
    float(np.float32(number)): number
    for number in (
        *(math.sqrt(0.5), math.sqrt(2), math.sqrt(2 / math.pi), math.sqrt(math.pi)),
        *(math.pi, math.log(2), 1 / math.log(2), math.e),
    )
}
"""What constants of float32 stand for in functions of JAX: those of ``gelu``, of logarithms."""
TAPE = Tape()
"""The tape of the process."""
