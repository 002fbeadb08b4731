"""Waiting for the gradient of an activation neither keeps it nor outlives the recording."""

from __future__ import annotations

import importlib
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch

import padiff
from padiff.dumper import adapters

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from padiff.dumper.adapter import Adapter


@pytest.fixture(params=["torch", "paddle"])
def framework(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@pytest.fixture
def adapter(framework: ModuleType) -> Adapter:
    return adapters.find(framework.nn.Linear(2, 2))


def source_of(framework: ModuleType) -> Any:  # noqa: ANN401 -- a framework's tensor
    source = framework.ones([2])
    if framework.__name__ == "torch":
        return source.requires_grad_()
    source.stop_gradient = False
    return source


def test_an_activation_dies_while_its_gradient_is_awaited(
    framework: ModuleType, adapter: Adapter
) -> None:
    source = source_of(framework)
    inner = source * 2
    seen: list[list[float]] = []
    handle = adapter.hook_gradient(inner, lambda gradient: seen.append(gradient.tolist()))
    loss = (inner + 1).sum()
    alive = weakref.ref(inner)

    del inner
    is_dead = alive() is None
    loss.backward()
    handle.remove()

    assert is_dead
    assert seen == [[1.0, 1.0]]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_hook_that_is_off_hears_nothing(
    framework: ModuleType, adapter: Adapter, *, is_kept: bool
) -> None:
    source = source_of(framework)
    inner = source * 2
    seen: list[Any] = []
    handle = adapter.hook_gradient(inner, seen.append)
    loss = (inner + 1).sum()
    if not is_kept:
        del inner

    handle.remove()
    loss.backward()

    assert seen == []
    assert source.grad.tolist() == [2.0, 2.0]


def test_a_hook_that_is_off_keeps_nothing_of_the_recording(
    framework: ModuleType, adapter: Adapter
) -> None:
    class Callback:
        def __call__(self, gradient: object) -> None: ...

    inner = source_of(framework) * 2
    callback = Callback()
    alive = weakref.ref(callback)
    handle = adapter.hook_gradient(inner, callback)
    loss = inner.sum()
    del callback, inner

    handle.remove()

    assert loss.tolist() == 4.0
    assert handle is not None
    assert alive() is None


def test_the_input_of_the_model_loses_its_hook(framework: ModuleType, adapter: Adapter) -> None:
    source = source_of(framework)
    seen: list[Any] = []
    handle = adapter.hook_gradient(source, seen.append)

    handle.remove()
    (source * 2).sum().backward()

    assert seen == []


def test_who_waits_behind_a_users_hook_hears_what_it_made_of_the_gradient(
    framework: ModuleType, adapter: Adapter
) -> None:
    source = source_of(framework)
    inner = source * 2
    before: list[list[float]] = []
    behind: list[list[float]] = []
    for _ in range(2):
        adapter.hook_gradient(inner, lambda gradient: before.append(gradient.tolist()))
    inner.register_hook(lambda gradient: gradient * 3)
    adapter.hook_gradient(inner, lambda gradient: behind.append(gradient.tolist()))

    (inner + 1).sum().backward()

    assert before == [[1.0, 1.0], [1.0, 1.0]]
    assert behind == [[3.0, 3.0]]


def test_one_who_waits_no_longer_takes_nobody_else_off(
    framework: ModuleType, adapter: Adapter
) -> None:
    inner = source_of(framework) * 2
    off: list[object] = []
    seen: list[object] = []
    handle = adapter.hook_gradient(inner, off.append)
    adapter.hook_gradient(inner, seen.append)

    handle.remove()
    (inner + 1).sum().backward()

    assert off == []
    assert len(seen) == 1


@pytest.mark.parametrize("change", ["unsqueeze_", "transpose_"])
def test_a_tensor_that_is_given_other_axes_in_place_has_a_gradient_of_each_shape(
    change: str,
) -> None:
    source = torch.ones(2, 3, requires_grad=True)
    adapter = adapters.find(torch.nn.Linear(2, 2))
    tensor, seen = source * 2, list[tuple[int, ...]]()
    before = tuple(tensor.shape)
    adapter.hook_gradient(tensor, lambda gradient: seen.append(tuple(gradient.shape)))

    tensor.unsqueeze_(0) if change == "unsqueeze_" else tensor.transpose_(0, 1)
    adapter.hook_gradient(tensor, lambda gradient: seen.append(tuple(gradient.shape)))
    (tensor + 1).sum().backward()  # type: ignore[no-untyped-call]

    assert seen == [tuple(tensor.shape), before]


class _Untold(torch.autograd.Function):
    """Hands no gradient on, and says so by None, as fused kernels do of their statistics."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> None:  # noqa: ANN401
        return None


@pytest.mark.parametrize("is_view", [True, False])
def test_a_gradient_that_is_none_never_came(is_view: bool) -> None:
    source = torch.ones(2, 3, requires_grad=True)
    seen: list[object] = []
    adapter = adapters.find(torch.nn.Linear(2, 2))
    made = source * 2
    inner = made.view(3, 2) if is_view else made
    adapter.hook_gradient(inner, seen.append)
    adapter.hook_gradient(source, seen.append)

    made.mul_(2)
    _Untold.apply(inner).sum().backward()  # type: ignore[no-untyped-call]

    assert seen == []


def test_a_model_that_hands_no_gradient_on_is_recorded(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 3)

    with padiff.record(model, name="cut", out=tmp_path) as recorder:
        _Untold.apply(model(torch.ones(2, 3))).sum().backward()  # type: ignore[no-untyped-call]

    assert padiff.audit(recorder.path)["step 0"].unsound == ()


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_view_that_nothing_with_a_gradient_reads_gets_none_of_its_base(*, is_kept: bool) -> None:
    """Its base and a second view of the same elements are gone when the gradient arrives."""
    adapter = adapters.find(torch.nn.Linear(2, 2))
    base = torch.ones(2, 3, requires_grad=True) * 2
    views = [base.mT for _ in range(2)]
    seen: list[int] = []
    for place, view in enumerate(views):
        adapter.hook_gradient(view, partial(lambda at, _: seen.append(at), place))
    loss = views[0].cos().sum() + views[1].detach().sin().sum()

    kept = [base, *views] if is_kept else []
    del base, views, view
    loss.backward()  # type: ignore[no-untyped-call]

    assert seen == [0]
    assert len(kept) in {0, 3}
