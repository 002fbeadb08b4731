"""Where elements are equal, forms of one function may hand gradients to others of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.proving import TIED, Answer
from padiff.comparer.report.fault_words import worded_leaf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
_FORMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "shared": torch.maximum,
    "shared by all": lambda one, two: torch.stack([one, two]).amax(0),
    "to the first": lambda one, two: torch.stack([one, two]).max(0).values,
    "to the second": lambda one, two: torch.where(one > two, one, two),
}


class _Larger(nn.Module):
    """The larger one of what two layers give, which begin as copies of each other or do not."""

    def __init__(self, form: str, *, is_copy: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.out = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 2)
        self.form = form
        if is_copy:
            self.two.load_state_dict(self.one.state_dict())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(_FORMS[self.form](self.one(x), self.two(x)))
        return found


class _Padded(nn.Module):
    """Rows of padding are zero, and what a layer without bias makes of them is at the limit."""

    def __init__(self, *, is_clamped: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.shift = nn.Linear(3, 4, bias=False), nn.Parameter(torch.zeros(4))
        self.out, self.is_clamped = nn.Linear(4, 2), is_clamped

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x) + self.shift
        found: torch.Tensor = self.out(x.clamp(min=0) if self.is_clamped else x.relu())
        return found


def _recorded(folder: Path, name: str, model: nn.Module, x: torch.Tensor = X) -> Path:
    with padiff.record(model, name=name, out=folder):
        made = model(x)
        (made.sum() if isinstance(model, _Matched) else made.square().mean()).backward()
    return folder / name


def _tied(result: padiff.Comparison) -> list[str]:
    (step,) = result.steps
    assert step.executed is not None
    assert step.executed.function.answer is Answer.SAME
    return [one.candidate for one in step.executed.function.differences if one.kind == TIED]


@pytest.mark.parametrize("form", ["to the first", "to the second"])
def test_gradients_that_go_to_others_of_equal_elements_are_no_rounding(
    form: str, tmp_path: Path
) -> None:
    reference = _recorded(tmp_path, "reference", _Larger("shared"))
    result = padiff.compare(reference, _recorded(tmp_path, "candidate", _Larger(form)))

    assert result.verdict is Verdict.DIVERGED
    assert sorted(_tied(result)) == ["one.bias", "one.weight", "two.bias", "two.weight"]
    (step,) = result.steps
    assert step.executed is not None
    told = worded_leaf(step.executed.function.differences[0])
    assert "it goes to others of equal elements (" in told


@pytest.mark.parametrize(
    ("form", "is_copy"),
    [("shared by all", True), *((form, False) for form in ("to the first", "to the second"))],
)
def test_forms_that_choose_alike_or_have_nothing_to_choose_match(
    form: str, is_copy: bool, tmp_path: Path
) -> None:
    reference = _recorded(tmp_path, "reference", _Larger("shared", is_copy=is_copy))
    candidate = _recorded(tmp_path, "candidate", _Larger(form, is_copy=is_copy))

    result = padiff.compare(reference, candidate)

    assert result.verdict is Verdict.MATCH
    assert _tied(result) == []


def test_a_limit_that_elements_are_equal_to_hands_on_other_gradients(tmp_path: Path) -> None:
    x = torch.cat([X, torch.zeros(2, 3)])
    reference = _recorded(tmp_path, "reference", _Padded(is_clamped=False), x)
    candidate = _recorded(tmp_path, "candidate", _Padded(is_clamped=True), x)

    result = padiff.compare(reference, candidate)

    assert result.verdict is Verdict.DIVERGED
    assert _tied(result) == ["shift"]


def test_a_pool_of_zeros_behind_an_activation_changes_nothing(tmp_path: Path) -> None:
    """The frameworks hand gradients to other zeros of a window, which the activation stops."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8, 2)
    )
    port = paddle.nn.Sequential(
        paddle.nn.Conv2D(1, 2, 3), paddle.nn.ReLU(), paddle.nn.MaxPool2D(4),
        paddle.nn.Flatten(), paddle.nn.Linear(8, 2),
    )  # fmt: skip
    weights = model.state_dict()
    weights["4.weight"] = weights["4.weight"].T
    port.set_state_dict({name: one.numpy() for name, one in weights.items()})
    x = torch.randn(2, 1, 10, 10, generator=torch.Generator().manual_seed(2)) - 1.0
    reference = _recorded(tmp_path, "reference", model, x)
    with padiff.record(port, name="candidate", out=tmp_path):
        port(paddle.to_tensor(x.numpy())).square().mean().backward()

    result = padiff.compare(reference, tmp_path / "candidate")

    assert result.verdict is Verdict.MATCH


class _Matched(nn.Module):
    """Compares what a layer makes of one input with what it makes of another one, as features are.

    Beside them stand terms of which a gradient in float32 is left or not, as they are added up.
    """

    def __init__(self, cut: str, *, is_reversed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.scale = nn.Linear(3, 4), nn.Parameter(torch.ones(4))
        self.cut = cut
        self.factors = [3e7, -3e7, 0.1][:: -1 if is_reversed else 1]

    def aim(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor
        if self.cut == "no_grad":
            with torch.no_grad():
                found = self.layer(x).tanh()
        elif self.cut == "detach":
            found = self.layer(x).tanh().detach()
        else:
            twice = (2 * self.layer(x)).exp()
            found = (twice - 1) / (twice + 1)
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        apart = self.aim(x) - self.layer(x + 1).tanh()
        one, two, three = (self.scale * factor for factor in self.factors)
        found: torch.Tensor = apart.square() + (one + two + three)
        return found


def test_what_is_cut_off_in_another_way_leaves_other_gradients_to_rounding(tmp_path: Path) -> None:
    nets = _Matched("detach"), _Matched("no_grad", is_reversed=True)
    reference, candidate = (
        _recorded(tmp_path, name, net)
        for name, net in zip(("reference", "candidate"), nets, strict=True)
    )
    gradients = [net.scale.grad for net in nets]
    assert gradients[0] is not None
    assert gradients[1] is not None
    assert (gradients[0] - gradients[1]).abs().min() > 0.5 * gradients[0].abs().max()

    result = padiff.compare(reference, candidate)

    assert result.verdict is Verdict.MATCH


def test_what_only_another_form_cuts_off_is_no_rounding(tmp_path: Path) -> None:
    reference = _recorded(tmp_path, "reference", _Matched("detach"))
    candidate = _recorded(tmp_path, "candidate", _Matched("none", is_reversed=True))

    result = padiff.compare(reference, candidate)

    (step,) = result.steps
    assert step.executed is not None
    assert step.executed.function.answer is Answer.SAME
    assert not step.executed.function.is_followed
    names = {one.pair.end.address.name for one in step.divergences}
    assert {"layer.weight", "layer.bias"} <= names
    assert result.verdict is Verdict.DIVERGED
