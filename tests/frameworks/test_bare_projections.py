"""Layers of one side that are matrices of a larger module on the other: CLIP's projections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Verdict, compare
from padiff.dumper.adapters import load
from padiff.dumper.runs.rehearsal import rehearse
from padiff.dumper.weights.weights import load_weights
from padiff.pairing import stages

if TYPE_CHECKING:
    from pathlib import Path

TEXTS, IMAGES = (np.random.default_rng(one).normal(size=(3, 6)).astype("f4") for one in (1, 2))
WIDTH = 7


class _Layers(nn.Module):
    """Two towers, each with a projection; that of the images is square."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.text, self.image = nn.Linear(6, 8), nn.Linear(6, WIDTH)
        self.image_projection = nn.Linear(WIDTH, WIDTH, bias=False)
        self.text_projection = nn.Linear(8, WIDTH, bias=False)

    def forward(self, texts: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        said = self.text_projection(self.text(texts))
        made: torch.Tensor = said @ self.image_projection(self.image(images)).T * self.scale
        return made


class _Matrices(paddle.nn.Layer):
    """The projections as parameters of the whole, multiplied from the right or the left."""

    def __init__(self, *, is_left: bool) -> None:
        super().__init__()
        self.is_left = is_left
        self.text, self.image = paddle.nn.Linear(6, 8), paddle.nn.Linear(6, WIDTH)
        self.scale = self.create_parameter([1])
        self.text_matrix = self.create_parameter([8, WIDTH])
        self.image_matrix = self.create_parameter([WIDTH, WIDTH])

    def forward(self, texts: paddle.Tensor, images: paddle.Tensor) -> paddle.Tensor:
        matrix = self.image_matrix.t() if self.is_left else self.image_matrix
        shown: paddle.Tensor = self.image(images) @ matrix
        made: paddle.Tensor = self.text(texts) @ self.text_matrix @ shown.t() * self.scale
        return made


def test_what_a_trial_leaves_without_partner_is_not_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference, candidate = _Layers().eval(), _Matrices(is_left=True)
    candidate.eval()
    with record(reference, name="reference", out=tmp_path) as known:
        reference(torch.tensor(TEXTS), torch.tensor(IMAGES)).square().mean().backward()
    tried: list[str] = []
    explained: list[str] = []
    adapter = load("paddle")

    def explain(*_: object) -> list[object]:
        explained.append("")
        return []

    monkeypatch.setattr(stages, "unmatched_records", explain)

    def run() -> paddle.Tensor:
        tried.append("")
        made: paddle.Tensor = candidate(paddle.to_tensor(TEXTS), paddle.to_tensor(IMAGES))
        return made

    load_weights(
        candidate, adapter, known.path, rehearsal=lambda: rehearse(candidate, adapter, run)
    )

    assert tried
    assert not explained


@pytest.mark.parametrize("is_left", [True, False])
def test_a_matrix_beside_others_is_a_layer_and_a_run_tells_which_way_it_lies(
    tmp_path: Path, *, is_left: bool
) -> None:
    torch.manual_seed(0)
    reference, candidate = _Layers().eval(), _Matrices(is_left=is_left)
    candidate.eval()
    with record(reference, name="reference", out=tmp_path) as known:
        reference(torch.tensor(TEXTS), torch.tensor(IMAGES)).square().mean().backward()

    def run() -> paddle.Tensor:
        made: paddle.Tensor = candidate(paddle.to_tensor(TEXTS), paddle.to_tensor(IMAGES))
        return made

    adapter = load("paddle")
    plan = load_weights(
        candidate, adapter, known.path, rehearsal=lambda: rehearse(candidate, adapter, run)
    )
    with record(candidate, name="candidate", out=tmp_path) as found:
        run().square().mean().backward()

    result = compare(known.path, found.path, CompareSettings(atol=1e-4))
    assert plan.ambiguous == ()
    assert result.verdict is Verdict.MATCH, result.reasons
    assert result.steps[0].coverage_candidate.fraction == 1.0


class _Equal(nn.Module):
    """A matrix that is scaled as it is used: equalised learning rates."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(6, 6))
        self.bias = nn.Parameter(torch.empty(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight * 0.4, self.bias)


class _EqualOfPaddle(paddle.nn.Layer):
    def __init__(self, *, is_turned: bool) -> None:
        super().__init__()
        self.is_turned = is_turned
        self.weight, self.bias = self.create_parameter([6, 6]), self.create_parameter([6])

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        weight = self.weight if self.is_turned else self.weight.t()
        made: paddle.Tensor = x @ (weight * 0.4) + self.bias
        return made


@pytest.mark.parametrize("is_turned", [True, False])
def test_a_square_matrix_of_two_authors_classes_lies_as_a_run_tells(
    tmp_path: Path, *, is_turned: bool
) -> None:
    reference = nn.Sequential(_Equal(), _Equal())
    candidate = paddle.nn.Sequential(*(_EqualOfPaddle(is_turned=is_turned) for _ in range(2)))
    for parameter in reference.parameters():
        nn.init.normal_(parameter)
    with record(reference, name="reference", out=tmp_path) as known:
        expected = reference(torch.tensor(TEXTS))

    def run() -> paddle.Tensor:
        made: paddle.Tensor = candidate(paddle.to_tensor(TEXTS))
        return made

    adapter = load("paddle")
    load_weights(
        candidate, adapter, known.path, rehearsal=lambda: rehearse(candidate, adapter, run)
    )

    np.testing.assert_allclose(run().numpy(), expected.detach().numpy(), atol=1e-5)


class _Adapted(nn.Module):
    """A layer with two small matrices beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 5)
        self.a, self.b = nn.Parameter(torch.randn(3, 6)), nn.Parameter(torch.randn(5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.base(x) + x @ self.a.T @ self.b.T * 2
        return made


class _AdaptedByLayers(paddle.nn.Layer):
    def __init__(self, known: _Adapted) -> None:
        super().__init__()
        self.frozen = paddle.nn.Linear(6, 5)
        self.down = paddle.nn.Linear(6, 3, bias_attr=False)
        self.up = paddle.nn.Linear(3, 5, bias_attr=False)
        made = (self.frozen.weight, self.frozen.bias, self.down.weight, self.up.weight)
        own = (known.base.weight, known.base.bias, known.a, known.b)
        for one, other in zip(made, own, strict=True):
            one.set_value(np.ascontiguousarray(other.detach().numpy().T))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = self.frozen(x) + 2 * self.up(self.down(x))
        return made


def test_two_matrices_of_a_class_are_two_layers_that_hold_the_same(tmp_path: Path) -> None:
    reference = _Adapted()
    candidate = _AdaptedByLayers(reference)

    with record(reference, name="reference", out=tmp_path) as known:
        reference(torch.tensor(TEXTS)).square().mean().backward()
    with record(candidate, name="candidate", out=tmp_path) as found:
        candidate(paddle.to_tensor(TEXTS)).square().mean().backward()

    result = compare(known.path, found.path, CompareSettings())
    assert result.verdict is Verdict.MATCH, result.reasons
