"""Faults that change the shapes of all that follows: the one operator that is wrong is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import worded_edit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.comparer.proving import FunctionComparison

IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


class _Steps(nn.Module):
    """A model, each step of which can be another."""

    def __init__(self, **steps: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.steps = steps
        self.build()
        self.eval()

    def build(self) -> None:
        raise NotImplementedError

    def step(self, name: str, plain: Callable[..., Any], value: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.steps.get(name, plain)(value)
        return result


class _Convolutions(_Steps):
    """Its mean divides by as many elements as the convolutions leave."""

    def build(self) -> None:
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.first(x)))
        x = functional.relu(self.second(x))
        x = self.step("pool", lambda x: functional.max_pool2d(x, 3, 2, 1), x)
        result: torch.Tensor = self.head(x.mean((2, 3)))
        return result


class _Vision(_Steps):
    """Attention over patches and a token of its own; sizes are read and reshaped to."""

    def build(self) -> None:
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(16, 48) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        self.head = nn.Linear(16, 4)

    def with_token(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.token.expand(len(x), -1, -1), x], 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = self.step("token", self.with_token, x)
        for norm, qkv, out in zip(self.norms, self.qkv, self.out, strict=True):
            b, t, c = x.shape
            q, k, v = qkv(norm(x)).reshape(b, t, 3, 4, 4).permute(2, 0, 3, 1, 4)
            mixed = torch.softmax(q @ k.mT * 0.5, -1) @ v
            x = x + self.step("act", functional.gelu, out(mixed.transpose(1, 2).reshape(b, t, c)))
        x = self.step("pool", lambda x: x[:, 1:].mean(1), x)
        return self.step("end", lambda x: x, self.head(x))


def compared(folder: Path, reference: Any, candidate: Any) -> FunctionComparison:  # noqa: ANN401
    paths = []
    for name, model in (("reference", reference), ("candidate", candidate)):
        images = IMAGES if isinstance(model, nn.Module) else paddle.to_tensor(IMAGES.numpy())
        with padiff.record(model, name=name, out=folder, phase="forward") as recorder:
            model(images)
        assert recorder.path is not None
        paths.append(recorder.path)
    (step,) = padiff.compare(paths[0], paths[1]).steps
    assert step.executed is not None
    return step.executed.function


def without_padding(model: _Convolutions) -> None:
    model.first.padding = (0, 0)


def without_any_padding(model: _Convolutions) -> None:
    model.first.padding = model.second.padding = (0, 0)


def with_stride(model: _Convolutions) -> None:
    model.second.stride = (2, 2)


def with_padded_patches(model: _Vision) -> None:
    model.patch.padding = (2, 2)


class _Residual(_Steps):
    """Each block adds to what the one before left, so that repairs behind the first one grow."""

    def build(self) -> None:
        self.stem = nn.Conv2d(3, 8, 7, 2, 3)
        self.norms = nn.ModuleList(nn.GroupNorm(1, 8) for _ in range(5))
        self.wide = nn.ModuleList(nn.Conv2d(8, 16, 3, padding=1) for _ in range(5))
        self.narrow = nn.ModuleList(nn.Conv2d(16, 8, 1) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for norm, wide, narrow in zip(self.norms, self.wide, self.narrow, strict=True):
            x = x + narrow(functional.gelu(wide(norm(x))))
        return x.mean((2, 3))


def with_less_padding(model: _Residual) -> None:
    model.stem.padding = (2, 2)


class _Stages(nn.Module):
    """What each stage adds has the stride of what it is added to."""

    def __init__(self, stride: int = 2, *, is_late: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        strides = (1, stride) if is_late else (stride, 1)
        self.stem, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 4)
        self.one = nn.ModuleList(nn.Conv2d(8, 8, 3, strides[0], 1) for _ in range(2))
        self.two = nn.ModuleList(nn.Conv2d(8, 8, 3, strides[1], 1) for _ in range(2))
        self.beside = nn.ModuleList(nn.Conv2d(8, 8, 1, stride) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for one, two, beside, norm in zip(self.one, self.two, self.beside, self.norms, strict=True):
            x = functional.relu(two(functional.relu(norm(one(x)))) + beside(x))
        result: torch.Tensor = self.head(x.mean((2, 3)))
        return result


class _StagesPort(paddle.nn.Layer):
    def __init__(self, stride: int) -> None:
        super().__init__()
        layers = paddle.nn.LayerList
        self.stem = paddle.nn.Conv2D(3, 8, 3, padding=1)
        self.one = layers([paddle.nn.Conv2D(8, 8, 3, stride, 1) for _ in range(2)])
        self.two = layers([paddle.nn.Conv2D(8, 8, 3, 1, 1) for _ in range(2)])
        self.beside = layers([paddle.nn.Conv2D(8, 8, 1, stride) for _ in range(2)])
        self.norms = layers([paddle.nn.BatchNorm2D(8) for _ in range(2)])
        self.head = paddle.nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        x, relu = self.stem(x), paddle.nn.functional.relu
        for one, two, beside, norm in zip(self.one, self.two, self.beside, self.norms, strict=True):
            x = relu(two(relu(norm(one(x)))) + beside(x))
        return self.head(x.mean((2, 3)))


class _Joined(_Steps):
    """Two steps may read one value, or two that are made otherwise."""

    def build(self) -> None:
        self.head = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x)
        one = self.step("one", lambda x: torch.cat([x, x.sin()], -1), x)
        other = self.step("other", lambda x: torch.cat([x, x.sin()], -1), x)
        return functional.relu(one).flatten(1).std(1) * torch.tanh(other).flatten(1).std(1)


FAULTS: dict[str, tuple[type[_Steps], dict[str, Any], Any, list[str]]] = {
    "no padding": (
        _Convolutions, {}, without_padding,
        ["padding of conv2d: [0, 0] where the reference has [1, 1]"],
    ),
    "no padding twice": (
        _Convolutions, {}, without_any_padding,
        ["padding of conv2d: [0, 0] where the reference has [1, 1]"],
    ),
    "a stride": (
        _Convolutions, {}, with_stride,
        ["stride of conv2d: [2, 2] where the reference has [1, 1]"],
    ),
    "a padding ahead of blocks that add": (
        _Residual, {}, with_less_padding,
        ["padding of conv2d: [2, 2] where the reference has [3, 3]"],
    ),
    "a pooling without padding": (
        _Convolutions, {"pool": lambda x: functional.max_pool2d(x, 3, 2, 0)}, None,
        ["padding of max_pool2d: 0 where the reference has 1"],
    ),
    "a token left out": (
        _Vision, {"token": lambda x: x}, None, ["left out: expand(2, -1, -1), cat(1)"],
    ),
    "patches that are padded": (
        _Vision, {}, with_padded_patches,
        ["padding of conv2d: [2, 2] where the reference has [0, 0]"],
    ),
    "one token more in the mean": (
        _Vision, {"pool": lambda x: x.mean(1)}, None, ["left out: __getitem__([:, 1:])"],
    ),
    "one token less in the mean": (
        _Vision, {"pool": lambda x: x[:, 2:].mean(1)}, None,
        ["index of __getitem__: [:, 2:] where the reference has [:, 1:]"],
    ),
    "a result that is cut": (
        _Vision, {"end": lambda y: y[:, :2]}, None, ["too much: __getitem__([:, :2])"],
    ),
    "beside a fault that changes none": (
        _Vision, {"act": functional.relu}, with_padded_patches,
        [
            "padding of conv2d: [2, 2] where the reference has [0, 0]",
            "relu where the reference has gelu",
        ],
    ),
    "two values in the place of one that the reference reads twice": (
        _Joined, {"one": lambda x: x.abs(), "other": lambda x: x.cos()}, None,
        [
            "abs where the reference has sin, cat(-1)",
            "cos where the reference has sin, cat(-1)",
        ],
    ),
    "two at once": (
        _Vision, {"token": lambda x: x, "end": lambda y: y[:, :2]}, None,
        ["left out: expand(2, -1, -1), cat(1)", "too much: __getitem__([:, :2])"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_changes_a_shape_is_named(fault: str, tmp_path: Path) -> None:
    kind, steps, change, words = FAULTS[fault]
    candidate = kind(**steps)
    if change is not None:
        change(candidate)

    found = compared(tmp_path, kind(), candidate)

    assert found.answer is Answer.DIFFERENT
    assert sorted(map(worded_edit, found.edits)) == sorted(words)


@pytest.mark.filterwarnings("ignore:When training, we now always track")
@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (lambda: _Stages(1), ["stride of conv2d: [1, 1] where the reference has [2, 2]"]),
        (
            lambda: _Stages(is_late=True),
            [
                "stride of conv2d: [1, 1] where the reference has [2, 2]",
                "stride of conv2d: [2, 2] where the reference has [1, 1]",
            ],
        ),
        (lambda: _StagesPort(3), ["strides of conv2d: [3, 3] where the reference has [2, 2]"]),
    ],
)
def test_strides_of_several_stages_are_named(
    candidate: Callable[[], Any], words: list[str], tmp_path: Path, *, is_training: bool
) -> None:
    models = _Stages(), candidate()
    padiff.assign_weight(*models)
    for one in models:
        one.train() if is_training else one.eval()

    edits = compared(tmp_path, *models).edits

    assert sorted(map(worded_edit, edits)) == words


def test_an_operand_more_is_no_other_order(tmp_path: Path) -> None:
    candidate = _Vision()
    candidate.steps["token"] = lambda x: torch.cat([candidate.token.expand(2, -1, -1), x, x], 1)

    (edit,) = compared(tmp_path, _Vision(), candidate).edits

    assert worded_edit(edit).startswith("cat reads [")
    assert len(edit.changes[0].found) == len(edit.changes[0].known) + 1  # type: ignore[arg-type]


def test_it_and_a_fault_beside_it_move_the_result_as_each_does_alone(tmp_path: Path) -> None:
    def candidate(*, is_padded: bool, **steps: Any) -> nn.Module:  # noqa: ANN401
        model = _Vision(**steps)
        if is_padded:
            with_padded_patches(model)
        return model

    def moved(model: nn.Module) -> float:
        with torch.no_grad():
            known, found = (one.double()(IMAGES.double()) for one in (_Vision(), model))
        return float((found - known).norm() / known.norm())

    both = candidate(is_padded=True, act=functional.relu)

    edits = compared(tmp_path, _Vision(), both).edits

    found = {edit.kind.value: edit.influence and edit.influence.relative_l2 for edit in edits}
    assert found == {
        "argument": pytest.approx(moved(candidate(is_padded=True)), rel=1e-9),
        "other": pytest.approx(moved(candidate(is_padded=False, act=functional.relu)), rel=1e-9),
    }


def test_a_token_left_out_is_measured_beside_another_fault(tmp_path: Path) -> None:
    """In the reference nothing else changes: it reads what the candidate has there."""
    steps = {"token": lambda x: x, "act": functional.relu}
    alone = [compared(tmp_path / name, _Vision(), _Vision(**{name: steps[name]})) for name in steps]

    edits = compared(tmp_path, _Vision(), _Vision(**steps)).edits

    found = {worded_edit(one): one.influence and one.influence.relative_l2 for one in edits}
    assert found == {
        worded_edit(one): one.influence and pytest.approx(one.influence.relative_l2, rel=1e-9)
        for function in alone
        for one in function.edits
    }


@pytest.mark.parametrize("padding", [0, 2])
def test_it_is_named_where_a_loss_reads_a_result_of_another_shape(
    padding: int, tmp_path: Path
) -> None:
    paths = []
    for name, its in (("reference", 1), ("candidate", padding)):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=its), nn.ReLU(), nn.Conv2d(8, 2, 1))
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(IMAGES).square().mean().backward()
        paths.append(recorder.path)

    (step,) = padiff.compare(paths[0], paths[1]).steps

    assert step.executed is not None
    (edit,) = step.executed.function.edits
    assert worded_edit(edit) == (
        f"padding of conv2d: [{padding}, {padding}] where the reference has [1, 1]"
    )


class _Port(paddle.nn.Layer):
    def __init__(self, padding: int) -> None:
        super().__init__()
        self.first = paddle.nn.Conv2D(3, 8, 3, padding=padding)
        self.norm = paddle.nn.BatchNorm2D(8)
        self.second = paddle.nn.Conv2D(8, 8, 3, padding=1)
        self.head = paddle.nn.Linear(8, 4)
        self.eval()

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        x = paddle.nn.functional.relu(self.norm(self.first(x)))
        x = paddle.nn.functional.relu(self.second(x))
        x = paddle.nn.functional.max_pool2d(x, 3, 2, 1)
        return self.head(x.mean((2, 3)))


def test_it_is_named_across_frameworks(tmp_path: Path) -> None:
    reference, candidate = _Convolutions(), _Port(padding=0)
    padiff.assign_weight(reference, candidate)

    (edit,) = compared(tmp_path, reference, candidate).edits

    assert edit.candidate is not None
    assert edit.candidate.module == "first"
    assert worded_edit(edit) == (
        "padding of conv2d: [[0, 0], [0, 0]] where the reference has [[1, 1], [1, 1]]"
    )


_WIDTHS = (8, 24, 16, 48, 12, 40, 20, 32, 28, 36)


class _Squeezing(nn.Module):
    """Layers with biases of many widths behind a pooling, as in SqueezeNet."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        sizes = zip((3, *_WIDTHS), _WIDTHS, strict=False)
        self.layers = nn.ModuleList(nn.Conv2d(*size, 1) for size in sizes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(x, 3, 2, ceil_mode=True)
        for layer in self.layers:
            x = functional.relu(layer(x))
        return x.mean((2, 3))


class _SqueezingPort(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        sizes = zip((3, *_WIDTHS), _WIDTHS, strict=False)
        self.layers = paddle.nn.LayerList([paddle.nn.Conv2D(*size, 1) for size in sizes])

    def forward(self, x: Any) -> Any:  # noqa: ANN401
        x = paddle.nn.functional.max_pool2d(x, 3, 2)
        for layer in self.layers:
            x = paddle.nn.functional.relu(layer(x))
        return x.mean((2, 3))


def test_weights_of_other_layers_are_not_tried_before_the_operator_that_is_wrong(
    tmp_path: Path,
) -> None:
    reference, candidate = _Squeezing(), _SqueezingPort()
    padiff.assign_weight(reference, candidate)

    (edit,) = compared(tmp_path, reference, candidate).edits

    assert worded_edit(edit) == "ceil_mode of pool2d: False where the reference has True"
