"""A program that both frameworks execute call by call, as the user's code makes the calls.

It is made of leaves, layers and calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from padiff.dumpfile import ConfigError, LeafKind, Slice
from padiff.ops.cases import Argument, Case, Fill, HeldTensor, Tensor
from padiff.ops.judging import Bucket, Finding, Kind, Side, apart, ended_by
from padiff.ops.replaying import case_of, rows_by_name
from padiff.ops.table import LAYERS, TABLE, Call
from padiff.ops.workers import Request, Sent, held_call, request_of
from padiff.program import Operator, Program, Value, ValueRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.ops.searching import Pair
    from padiff.ops.table import Layer, Row
    from padiff.ops.workers import Outcome
    from padiff.program import Argument as ProgramArgument
    from padiff.program.primitives import Array


T = TypeVar("T")
_INDEX = "torch.Tensor.__getitem__"


class Trace:
    """The calls of one run of the user's code, and what both frameworks made of each."""

    def __init__(self, pair: Pair) -> None:
        """Forget what the workers hold of an earlier run."""
        self.pair = pair
        self.rows = _ROWS_OF_TORCH
        self.steps: list[Step | Built] = []
        self.leaves: dict[int, Named] = {}
        self.operators: list[Operator] = []
        self.values: list[Value] = []
        self.elements: dict[str, dict[int, Array]] = {pair.reference: {}, pair.candidate: {}}
        self.gradients: dict[str, dict[int, Array]] = {pair.reference: {}, pair.candidate: {}}
        self.graphs: dict[str, set[int]] = {pair.reference: set(), pair.candidate: set()}
        self.ends: tuple[int, ...] = ()
        self.seed = 0
        self.finding: Finding | None = None
        """What ended it; of what it computed the judge says more."""
        self.layers: dict[str, Built] = {}
        self._both(dict.fromkeys(self.elements, Request(starts=True)))

    @property
    def program(self) -> Program:
        """All calls under torch's names."""
        return Program(
            framework="torch",
            values=tuple(self.values),
            operators=tuple(self.operators),
            outputs=self.ends,
        )

    @property
    def size(self) -> tuple[int, int]:
        """What makes one run simpler than another: elements of leaves, calls."""
        held = sum(int(np.prod(self.values[one].shape, dtype=int)) for one in self.leaves)
        return held, len(self.steps)

    def leaf(self, tensor: Tensor, name: str, *, kind: LeafKind = LeafKind.INPUT) -> int:
        """Make a tensor in both frameworks; returns the id of its value."""
        id_ = len(self.values)
        array, takes = tensor.array(), tensor.takes_gradient
        sent = Sent(array=array, layout=tensor.layout, takes_gradient=takes)
        self._both(dict.fromkeys(self.elements, Request(tensors=[sent], keeps=id_, backward=False)))
        self._keep(
            {one: [array] for one in self.elements},
            {one: [takes] for one in self.elements},
            name,
            kind=kind,
        )
        self.leaves[id_] = Named(value=id_, name=name, tensor=tensor)
        return id_

    def call(
        self,
        name: str,
        positional: Sequence[ProgramArgument],
        keywords: Mapping[str, ProgramArgument],
    ) -> tuple[bool, list[int | None]]:
        """Execute a call of a function or method of torch in both frameworks.

        Returns:
            Whether the result is one tensor, and the values of all of it; None for what does not
            mean the same in both.

        Raises:
            ConfigError: The table has no such operator, or it takes no such arguments.
            StoppedError: A side refuses, crashes, or makes something else.
        """
        if name == _INDEX:
            index = Call(name=name, keywords={}, positional=(self._held(positional[0]),))
            calls = {one: replace(index, name=f"{one}.Tensor.__getitem__") for one in self.elements}
            written = _written(positional[1])
            return self._stepped("getitem", None, calls, name, positional, {}, index=written)
        row = self.row(name, keywords, positional)
        operator = Operator(id=0, name=name, positional=tuple(positional), keywords=dict(keywords))
        case = case_of(operator, row, "torch", self._reference)
        if case is None:
            raise ConfigError(
                f"cannot run {name} in both frameworks: the table has no counterpart of its "
                f"arguments {[*map(str, positional), *keywords]}",
                hint=f"`padiff ops show {row.name}` prints what is known",
            )
        case = Case(
            operator=row.name,
            arguments={key: self._number(one) for key, one in case.arguments.items()},
        )
        calls = {one: row.frameworks[one].call(case) for one in self.elements}
        of_torch = calls["torch"]
        return self._stepped(
            row.name,
            row,
            calls,
            of_torch.name,
            [_referring(one) for one in of_torch.positional],
            {key: _referring(one) for key, one in of_torch.keywords.items()},
        )

    def row(
        self,
        name: str,
        keywords: Mapping[str, ProgramArgument],
        positional: Sequence[ProgramArgument],
    ) -> Row:
        """Return the row of a function or method.

        Raises:
            ConfigError: There is none.
        """
        own = self.rows.get(name)
        is_along = "dim" in keywords or len(positional) > 1
        if own is not None and is_along and f"{own.name}.dim" in TABLE:
            return TABLE[f"{own.name}.dim"]
        if own is None or name.rpartition(".")[2] in _CUT:
            near = get_close_matches(name, self.rows, n=2)
            raise ConfigError(
                f"cannot run {name} in both frameworks: the table has no row of it",
                hint=f"did you mean {' or '.join(near)}?" if near else "see `padiff ops list`",
            )
        return own

    def build(
        self, name: str, positional: tuple[Argument, ...], keywords: Mapping[str, Argument]
    ) -> str:
        """Build a layer in both frameworks and give it the same weights; returns its name.

        Raises:
            ConfigError: The table has no such layer, or it takes no such arguments.
            StoppedError: A side refuses.
        """
        row = LAYERS[name]
        arguments = row.bound(positional, keywords)
        held, state = f"layer_{len(self.layers)}", row.state(arguments)
        calls = {
            "torch": Call(name=f"torch.nn.{name}", keywords=arguments),
            "paddle": Call(
                name=f"paddle.nn.{row.paddle}",
                keywords=row.of_paddle(arguments, TABLE[row.operator]),
            ),
        }
        names = {"torch": list(state), "paddle": list(state.values())}
        outcomes = self._both(
            {
                one: replace(held_call(call), layer=held, state=names[one])
                for one, call in calls.items()
            }
        )
        built = Built(name=held, row=row, calls=calls, arguments=arguments, state=state, values={})
        self.layers[held] = built
        self.steps.append(built)
        self._end_if_unlike(name, outcomes)
        if state:
            self._fill(built, outcomes)
        return held

    def _fill(self, built: Built, outcomes: Mapping[str, Outcome]) -> None:
        """Put the same drawn elements into the parameters and buffers of both sides."""
        first, likes = len(self.values), outcomes["torch"].outputs
        sent: dict[str, list[Sent]] = {one: [] for one in outcomes}
        weights: list[Tensor] = []
        for at, (attribute, like) in enumerate(zip(built.state, likes, strict=True)):
            tensor = _weight(attribute, like, first + at)
            array = tensor.array()
            weights.append(tensor)
            for one, outcome in outcomes.items():
                shape = outcome.outputs[at].shape
                is_turned = one == "paddle" and attribute in built.row.transposed
                sent[one].append(Sent(array=(array.T if is_turned else array).reshape(shape)))
        requests = {
            one: Request(
                tensors=each, layer=built.name, keeps=first, backward=False,
                state=[*(built.state if one == "torch" else built.state.values())],
            )
            for one, each in sent.items()
        }  # fmt: skip
        kept = self._both(requests)
        self._end_if_unlike(built.row.name, kept)
        for at, attribute in enumerate(built.state):
            is_buffer = attribute in built.row.buffers
            held = {side: [weights[at].array()] for side in outcomes}
            kind = LeafKind.BUFFER if is_buffer else LeafKind.PARAMETER
            self._keep(held, {side: [not is_buffer] for side in held}, attribute, kind=kind)
            self.leaves[first + at] = Named(
                value=first + at, name=attribute, tensor=weights[at], layer=built.name
            )
        values = {name: first + at for at, name in enumerate(built.state)}
        self.layers[built.name] = replace(built, values=values)

    def call_layer(self, held: str, inputs: Sequence[int]) -> int:
        """Call a layer in both frameworks; returns the value that it makes."""
        built = self.layers[held]
        row = TABLE[built.row.operator]
        tensors = tuple(self._held(ValueRef(id=one)) for one in inputs)
        call = Call(name=held, keywords={}, positional=tensors)
        keywords: dict[str, ProgramArgument] = {
            **{name: ValueRef(id=one) for name, one in zip(built.row.inputs, inputs, strict=True)},
            **{name: ValueRef(id=one) for name, one in built.values.items()},
            **built.row.of_operator(built.arguments, is_training=built.is_training),  # type: ignore[dict-item]
        }
        calls = dict.fromkeys(self.elements, call)
        name = row.frameworks["torch"].name
        _, [found] = self._stepped(built.row.name, row, calls, name, [], keywords)
        if built.row.buffers and built.is_training:
            self._read_buffers(built)
        assert found is not None
        return found

    def _read_buffers(self, built: Built) -> None:
        """Take the buffers that a layer has changed as new leaves, those of each side its own."""
        first = len(self.values)
        names = {
            "torch": list(built.row.buffers),
            "paddle": list(built.row.buffers.values()),
        }
        outcomes = self._both(
            {
                one: Request(layer=built.name, state=each, keeps=first, backward=False)
                for one, each in names.items()
            }
        )
        for at, name in enumerate(built.row.buffers):
            one = {side: [each.outputs[at]] for side, each in outcomes.items()}
            self._keep(one, {side: [False] for side in one}, name, kind=LeafKind.BUFFER)
        values = {name: first + at for at, name in enumerate(built.row.buffers)}
        self.layers[built.name] = replace(built, values={**built.values, **values})

    def set_mode(self, held: str, *, is_training: bool) -> None:
        """Let a layer train, or not."""
        name = f"{held}.{'train' if is_training else 'eval'}"
        self._both(dict.fromkeys(self.elements, Request(name=name, backward=False)))
        self.layers[held] = replace(self.layers[held], is_training=is_training)
        call = Call(name=name, keywords={})
        self.steps.append(Step(name=name, row=None, calls=dict.fromkeys(self.elements, call)))

    def finish(self, ends: Sequence[int], seed: int) -> None:
        """Let gradients arrive at some values, and take those of all others."""
        self.seed = seed
        copies = []
        for one in ends:  # so that nothing else takes what they arrive at
            if self.values[one].dtype.startswith("float"):
                _, [copy] = self.call("torch.clone", [ValueRef(id=one)], {})
                assert copy is not None
                copies.append(copy)
        self.ends = tuple(copies)
        taking = {
            side: [
                one.id
                for one in self.values
                if one.id in graphs and one.id not in copies and one.dtype.startswith("float")
            ]
            for side, graphs in self.graphs.items()
        }
        reached = {side: [one for one in copies if one in self.graphs[side]] for side in taking}
        if not all(taking.values()) or not all(reached.values()):
            return
        outcomes = self._both(
            {side: Request(ends=copies, taking=each, seed=seed) for side, each in taking.items()}
        )
        self._end_if_unlike("the backward pass", outcomes)
        for side, outcome in outcomes.items():
            for one, gradient in zip(taking[side], outcome.gradients, strict=True):
                if gradient is not None:
                    self.gradients[side][one] = self._turned(side, one, gradient)

    def distance(self, step: Step, value: int) -> float:
        """Return how far the candidate is from the reference where it is fed what that was.

        In units of what rounds the largest element; 0 for a layer, which is not called alone.
        """
        side, call = self.pair.candidate, step.calls[self.pair.candidate]
        if step.row is None or call.name in self.layers:
            return 0.0
        case = Case(operator=step.name, arguments={**call.keywords, "*": call.positional})
        worker = self.pair.workers[side]
        worker.ask(replace(request_of(case, call), backward=False))
        outputs = _compared(call, worker.answer().outputs)
        at = step.outputs.index(value)
        return apart(self._reference(value), outputs[at]) if at < len(outputs) else np.inf

    def _turned(self, side: str, value: int, gradient: Array) -> Array:
        """Return a gradient as torch's parameter lies."""
        leaf = self.leaves.get(value)
        shape = self.values[value].shape
        if side == "torch" or leaf is None or not leaf.layer:
            return gradient
        if leaf.name in self.layers[leaf.layer].row.transposed:
            return gradient.T
        return gradient.reshape(shape)

    def _stepped(
        self,
        name: str,
        row: Row | None,
        calls: Mapping[str, Call],
        of_torch: str,
        positional: Sequence[ProgramArgument],
        keywords: Mapping[str, ProgramArgument],
        *,
        index: str = "",
    ) -> tuple[bool, list[int | None]]:
        first = len(self.values)
        requests = {}
        for one, call in calls.items():
            request = replace(held_call(call), keeps=first)
            behind = [{"python": index}] if index else []
            requests[one] = replace(request, positional=[*request.positional, *behind])
        outcomes = self._both(requests)
        step = Step(name=name, row=row, calls=calls, index=index)
        self.steps.append(step)
        self._end_if_unlike(name, outcomes)
        compared = {
            one: _compared(calls[one], outcome.outputs) for one, outcome in outcomes.items()
        }
        graphs = {one: _compared(calls[one], outcome.graphs) for one, outcome in outcomes.items()}
        self._end_if_other(name, compared)
        slots = calls["torch"].slots or range(len(outcomes["torch"].outputs))
        id_ = len(self.operators)
        self._keep(compared, graphs, "", producer=id_, slots=slots)
        ids = tuple(range(first, len(self.values)))
        is_one = {one: outcome.is_one for one, outcome in outcomes.items()}
        self.steps[-1] = replace(step, outputs=ids, is_one=is_one)
        self.operators.append(
            Operator(
                id=id_, name=of_torch, positional=tuple(positional), keywords=dict(keywords),
                outputs=ids,
            )
        )  # fmt: skip
        found: list[int | None] = [None] * len(outcomes["torch"].outputs)
        for slot, id_ in zip(slots, ids, strict=True):
            found[slot] = id_
        return outcomes["torch"].is_one, found

    def _keep(
        self,
        arrays: Mapping[str, Sequence[Array]],
        graphs: Mapping[str, Sequence[bool]],
        name: str,
        *,
        kind: LeafKind | None = None,
        producer: int | None = None,
        slots: Sequence[int] = (0,),
    ) -> None:
        """Add values with the elements of both sides."""
        first = len(self.values)
        for at, (slot, array) in enumerate(zip(slots, arrays[self.pair.reference], strict=True)):
            self.values.append(
                Value(
                    id=first + at, dtype=array.dtype.name, shape=array.shape, kind=kind, name=name,
                    producer=producer, slot=slot,
                )
            )  # fmt: skip
            for side, each in arrays.items():
                self.elements[side][first + at] = each[at]
                if graphs[side][at]:
                    self.graphs[side].add(first + at)

    def _both(self, requests: Mapping[str, Request]) -> dict[str, Outcome]:
        for side, worker in self.pair.workers.items():
            worker.ask(requests[side])
        return {side: worker.answer() for side, worker in self.pair.workers.items()}

    def _end_if_unlike(self, name: str, outcomes: Mapping[str, Outcome]) -> None:
        """End the program where a side refused or crashed."""
        ended = ended_by(
            name,
            {
                Side.REFERENCE: outcomes[self.pair.reference],
                Side.CANDIDATE: outcomes[self.pair.candidate],
            },
        )
        if ended is not None:
            self.finding = ended
            raise StoppedError

    def _end_if_other(self, name: str, compared: Mapping[str, Sequence[Array]]) -> None:
        """End the program where the sides' outputs differ in number, dtype or shape."""
        reference, candidate = compared[self.pair.reference], compared[self.pair.candidate]
        found = None
        if len(reference) != len(candidate):
            found = Kind.COUNT, "", f"{len(reference)} and {len(candidate)}"
        for at, (one, other) in enumerate(zip(reference, candidate, strict=False)):
            if one.dtype != other.dtype:
                found = found or (Kind.DTYPE, f"output[{at}]", f"{one.dtype} and {other.dtype}")
            elif one.shape != other.shape:
                found = found or (Kind.SHAPE, f"output[{at}]", "")
        if found is not None:
            kind, place, detail = found
            bucket = Bucket(operator=name, kind=kind, side=Side.UNKNOWN, place=place, detail=detail)
            self.finding = Finding(bucket=bucket)
            raise StoppedError

    def _held(self, one: ProgramArgument) -> HeldTensor:
        assert isinstance(one, ValueRef)
        array = self._reference(one.id)
        return HeldTensor(
            shape=array.shape,
            dtype=array.dtype.name,
            held=array,
            takes_gradient=False,
            value=one.id,
        )

    def _reference(self, value: int) -> Array:
        return self.elements[self.pair.reference][value]

    def _number(self, one: Argument) -> Argument:
        """Make a value of a number that an operator takes as a tensor."""
        if isinstance(one, HeldTensor) and one.value is None:
            return replace(one, value=self.leaf(one, "number", kind=LeafKind.CONSTANT))
        return one


_ROWS_OF_TORCH = rows_by_name(TABLE, "torch")
_CUT = frozenset({"detach", "detach_", "data", "requires_grad_"})
"""Methods that hand elements on and no gradient back: no function of both frameworks."""


def _weight(attribute: str, like: Array, seed: int) -> Tensor:
    """Return elements for a parameter or buffer; a variance is above 0."""
    low = 0.1 if attribute == "running_var" else None
    return Tensor(shape=like.shape, dtype=like.dtype.name, fill=Fill.NORMAL, seed=seed, low=low)


def _compared(call: Call, outputs: Sequence[T]) -> list[T]:
    slots = call.slots
    return [one for at, one in enumerate(outputs) if slots is None or at in slots]


def _referring(one: Argument) -> ProgramArgument:
    """Return an argument of a case as one of a program."""
    if isinstance(one, HeldTensor):
        assert one.value is not None
        return ValueRef(id=one.value)
    if isinstance(one, tuple):
        return tuple(map(_referring, one))
    assert not isinstance(one, Tensor)
    return one


def _written(one: ProgramArgument) -> str:
    """Return an index as Python."""
    if isinstance(one, tuple):
        return "(" + "".join(f"{_written(each)}, " for each in one) + ")"
    if isinstance(one, Slice):
        return f"slice({_written(one.start)}, {_written(one.stop)}, {_written(one.step)})"
    if one is not None and one is not ... and not isinstance(one, int):
        raise ConfigError(
            f"cannot take an index {one!r} in both frameworks: expected numbers, slices, None, ...",
            hint="torch.index_select and torch.gather take a tensor",
        )
    return repr(one)


class StoppedError(Exception):
    """A call that ended a side, or made something else there: what follows cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A leaf: an input, a parameter, a buffer, a number."""

    value: int
    name: str
    tensor: Tensor
    layer: str = ""
    """Whose parameter or buffer it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A layer."""

    name: str
    row: Layer
    calls: Mapping[str, Call]
    """Of its class, by framework."""
    arguments: Mapping[str, Argument]
    state: Mapping[str, str]
    """Paddle's attribute by torch's."""
    values: Mapping[str, int]
    """Its parameters and buffers, by torch's attribute."""
    is_training: bool = True
    outputs: tuple[int, ...] = ()
    """As of a step: building makes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call."""

    name: str
    """Of the row, or of the layer's class."""
    row: Row | None
    calls: Mapping[str, Call]
    outputs: tuple[int, ...] = ()
    """Values; none where the call ended the program."""
    is_one: Mapping[str, bool] = field(default_factory=dict)
    """By framework, whether the result is a tensor and no list of some."""
    index: str = ""
    """Of a part of a tensor, as Python."""
