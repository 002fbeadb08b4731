"""Ensembles whose members are one stack of weights, by hand or under ``torch.vmap``."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

import padiff
from padiff.comparer import Verdict
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import worded_edit
from tests.support.drawing import draw

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MEMBERS, WIDTH = 3, 6


class Member(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.norm = nn.Linear(4, WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.head(torch.tanh(self.norm(self.wide(x))))
        return made


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.members = nn.ModuleList(Member() for _ in range(MEMBERS))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([member(x) for member in self.members]).mean(0)


class Stacked(nn.Module):
    """The members' weights by their names, each as one parameter."""

    def __init__(self, join: Callable[..., Tensor] = torch.mean) -> None:
        super().__init__()
        members = [*Listed().members]
        named, _ = stack_module_state(members)
        self.names = {name.replace(".", "_"): name for name in named}
        self.stacked = nn.ParameterDict(
            {short: nn.Parameter(named[name].detach()) for short, name in self.names.items()}
        )
        self.base = [copy.deepcopy(members[0])]
        self.join = join

    def forward(self, x: Tensor) -> Tensor:
        weights = {name: self.stacked[short] for short, name in self.names.items()}
        return self.join(self.run(weights, x), dim=0)

    def run(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        hidden = torch.einsum("bi,eoi->ebo", x, weights["wide.weight"])
        hidden = hidden + weights["wide.bias"][:, None]
        hidden = nn.functional.layer_norm(hidden, (WIDTH,))
        hidden = hidden * weights["norm.weight"][:, None] + weights["norm.bias"][:, None]
        turned = weights["head.weight"].mT
        return torch.baddbmm(weights["head.bias"][:, None], hidden.tanh(), turned)


class Mapped(Stacked):
    draws = "error"
    factor = 1.0

    def run(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        def one(own: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
            own = {**own, "wide.bias": own["wide.bias"] * self.factor}
            made: Tensor = functional_call(self.base[0], own, (x,))
            return made, x

        ends: Any = (1, None)
        mapped = vmap(one, in_dims=(0, None), out_dims=ends, randomness=self.draws)
        return torch.einsum("beo->ebo", mapped(weights, x)[0])


class MappedAsOne(Mapped):
    draws = "same"


def _compare(folder: Path, candidate: nn.Module) -> padiff.Comparison:
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    for name, model in (("reference", Listed()), ("candidate", candidate)):
        with padiff.record(model, name=name, out=folder):
            model(x).square().mean().backward()
    return padiff.compare(folder / "reference", folder / "candidate")


@pytest.mark.parametrize("form", [Stacked, Mapped, MappedAsOne])
def test_members_in_one_stack_are_the_members_in_a_list(
    form: Callable[[], nn.Module], tmp_path: Path
) -> None:
    comparison = _compare(tmp_path, form())

    assert comparison.verdict is Verdict.MATCH


def test_what_reads_members_that_no_rule_executes_is_named(tmp_path: Path) -> None:
    comparison = _compare(tmp_path, MappedAsOne(torch.sum))

    assert comparison.verdict is Verdict.DIVERGED
    text = draw(comparison)  # arguments that are mappings have no hash
    assert "sum(0) where the reference has mean(0)" in text.replace("\n", " ")
    assert "value'" not in text


def test_a_map_over_weights_is_its_members_and_what_is_wrong_inside_is_named(
    tmp_path: Path,
) -> None:
    wrong = Mapped()
    wrong.factor = 1.01

    (step,) = _compare(tmp_path / "right", Mapped()).steps
    (other,) = _compare(tmp_path / "wrong", wrong).steps

    assert step.executed is not None
    assert other.executed is not None
    assert step.executed.function.answer is Answer.SAME
    assert [*map(worded_edit, other.executed.function.edits)] == ["too much: mul, times 1.01"]
