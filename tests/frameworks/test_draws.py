"""Random numbers that a model draws are in the dump, by the call that drew them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch

import padiff
from padiff.comparer import CompareSettings, compare
from padiff.dumpfile import Draw
from tests.support.paddle_lab import PaddleLab
from tests.support.recording import Recorded
from tests.support.torch_lab import TorchLab

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.recording import Lab, Thing

LABS: dict[str, Lab] = {"torch": TorchLab(), "paddle": PaddleLab()}
OWN_DRAWS: dict[str, list[Callable[[Thing], Thing]]] = {
    "torch": [
        lambda x: x + torch.rand(3),
        lambda x: x * torch.bernoulli(torch.full((3,), 0.5)),
        lambda x: torch.nn.functional.dropout(x, 0.5),
        torch.nn.functional.gumbel_softmax,
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
        lambda x: x + torch.empty(3).normal_(),
    ],
    "paddle": [
        lambda x: x + paddle.rand([3]),
        lambda x: x * paddle.bernoulli(paddle.full([3], 0.5)),
        lambda x: paddle.nn.functional.dropout(x, 0.5),
        paddle.nn.functional.gumbel_softmax,
        lambda x: x + paddle.empty([3]).normal_(),
        lambda x: x + paddle.randperm(3).astype("float32"),
    ],
}


def recorded(
    folder: Path, lab: Lab, draw: Callable[[Thing], Thing], *, share: float = 0.0
) -> tuple[Path, list[tuple[str, tuple[str, ...]]]]:
    """Record a model whose inner module draws; gives who drew, from which generators."""
    lab.seed(0)
    inner = lab.module(lambda self, x: self.f(draw(x)), class_name="Inner", f=lab.nn.Linear(3, 3))
    model = lab.module(
        lambda self, x: self.last(self.drop(self.inner(self.first(x)))),
        first=lab.nn.Linear(3, 3),
        inner=inner,
        drop=lab.nn.Dropout(share),
        last=lab.nn.Linear(3, 3),
    )
    with padiff.record(model, name="m", out=folder, overwrite=True) as recorder:
        lab.mean(model(lab.tensor(np.ones((2, 3), np.float32)))).backward()
    got = Recorded.read(recorder.path)
    modules, calls = got.index.modules, got.index.calls
    assert got.index.draws is not None
    return recorder.path, [
        ("" if one.call is None else modules[calls[one.call].module].path, one.generators)
        for one in got.index.draws
    ]


@pytest.mark.parametrize("name", LABS)
@pytest.mark.parametrize("place", range(6))
def test_draw_in_a_users_forward_is_that_calls(tmp_path: Path, name: str, place: int) -> None:
    _, drawn = recorded(tmp_path, LABS[name], OWN_DRAWS[name][place])

    assert drawn == [("inner", (name,))]


@pytest.mark.parametrize("name", LABS)
def test_draws_of_numpy_and_python_are_seen(tmp_path: Path, name: str) -> None:
    def draw(x: Thing) -> Thing:
        return x * float(np.random.rand()) * random.random()  # noqa: NPY002

    _, drawn = recorded(tmp_path, LABS[name], draw)

    assert drawn == [("inner", ("numpy", "python"))]


@pytest.mark.parametrize("name", LABS)
def test_dropout_that_drops_nothing_draws_nothing(tmp_path: Path, name: str) -> None:
    assert recorded(tmp_path, LABS[name], lambda x: x * 1)[1] == []
    _, drawn = recorded(tmp_path, LABS[name], lambda x: x * 1, share=0.5)
    assert drawn == [("drop", (name,))]


@pytest.mark.parametrize("name", LABS)
def test_recording_moves_no_generator(tmp_path: Path, name: str) -> None:
    lab = LABS[name]

    def draw(x: Thing) -> Thing:
        return x + (torch.rand(3) if name == "torch" else paddle.rand([3]))

    model = lab.module(lambda self, x: self.f(draw(self.f(x))), f=lab.nn.Linear(3, 3))
    x = lab.tensor(np.ones((2, 3), np.float32))
    lab.seed(7)
    expected = lab.array(model(x))

    with padiff.record(model, name="m", out=tmp_path):
        lab.seed(7)
        found = lab.array(model(x))

    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", LABS)
def test_report_warns_of_a_draw_before_the_divergence(tmp_path: Path, name: str) -> None:
    count = 0

    def draw(x: Thing) -> Thing:
        nonlocal count
        count += 1
        LABS[name].seed(count)
        return OWN_DRAWS[name][0](x)

    first, _ = recorded(tmp_path / "a", LABS[name], draw)
    second, _ = recorded(tmp_path / "b", LABS[name], draw)
    comparison = compare(first, second, CompareSettings(execute=False))

    told = [note for note in comparison.steps[0].notes if "random numbers were drawn" in note]
    assert [note.rpartition("by ")[2] for note in told] == [f"inner ({name})"] * 2
    origin = comparison.origins[0]
    assert f"draws random numbers itself on the candidate ({name})" in origin.evidence
    assert any("--seed N on both sides" in note for note in comparison.steps[0].notes)


def test_draws_have_the_order_of_what_came_before_them(tmp_path: Path) -> None:
    path, _ = recorded(tmp_path, LABS["torch"], OWN_DRAWS["torch"][0])
    index = Recorded.read(path).index

    inner = next(call for call in index.calls if index.modules[call.module].path == "inner")
    assert index.draws == (Draw(call=inner.id, after=inner.start, generators=("torch",)),)
