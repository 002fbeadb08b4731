"""A case as a request to a worker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from padiff.ops.cases import Argument, Case, Dtype, HeldTensor, Tensor

from .worker import Request, Sent

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.ops.table import Call


def request_of(case: Case, call: Call, *, repeats: int = 0) -> Request:
    """Return what a worker is asked for a case.

    Args:
        case: The case.
        call: What it is in the worker's framework.
        repeats: How often to time it.
    """
    places = {id(one): place for place, one in enumerate(case.tensors)}
    sent = [
        Sent(array=one.array(), layout=one.layout, takes_gradient=one.takes_gradient)
        for one in case.tensors
    ]
    return replace(
        _call(call, lambda one: {"tensor": places[id(one)]}),
        tensors=sent,
        seed=case.seed,
        repeats=repeats,
    )


def held_call(call: Call) -> Request:
    """Return what a worker is asked for a call that takes values that it holds."""

    def value(one: Tensor) -> dict[str, Any]:
        assert isinstance(one, HeldTensor)
        return {"value": one.value}

    return replace(_call(call, value), backward=False)


def _call(call: Call, named: Callable[[Tensor], dict[str, Any]]) -> Request:
    """Return a call as a request; ``named`` returns what stands for a tensor."""

    def argument(one: Argument) -> Any:  # noqa: ANN401 -- JSON
        if isinstance(one, Tensor):
            return named(one)
        if isinstance(one, Dtype):
            return {"dtype": one.name}
        if isinstance(one, tuple):
            return [argument(each) for each in one]
        if isinstance(one, float):
            return {"float": str(one)}
        return one

    return Request(
        name=call.name,
        keywords={name: argument(one) for name, one in call.keywords.items()},
        positional=[argument(one) for one in call.positional],
        wrapped=call.wrapped,
        taken=call.taken,
        slots=call.slots,
    )
