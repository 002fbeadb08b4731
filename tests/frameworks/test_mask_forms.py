"""Masks and positions that two implementations hand on in dtypes of other kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.result import Verdict
from padiff.dumpfile import Role
from tests.support.located import compare_dumps, compare_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.result import Comparison

LEAST = torch.finfo(torch.float32).min


class Attention(nn.Module):
    """Takes a mask of booleans, or numbers to add to the scores."""

    def __init__(self, *, is_free: bool = True) -> None:
        """Remember whether true masks nothing."""
        super().__init__()
        self.free = {is_free}

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = x @ x.transpose(1, 2)
        if mask.dtype == torch.bool:
            mask = mask if True in self.free else ~mask
            mask = torch.zeros(mask.shape).masked_fill(~mask, LEAST)
        out: torch.Tensor = torch.softmax(scores + mask, -1) @ x
        return out


class Net(nn.Module):
    def __init__(self, form: str, *, is_free: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.attention = nn.Linear(6, 6), Attention(is_free=is_free)
        self.forms = {form}  # a set: the recorder takes it for no attribute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        free = torch.ones(5, 5, dtype=torch.bool).tril()
        added = torch.zeros(5, 5).masked_fill(~free, LEAST)
        (form,) = self.forms
        masks = {
            "flags": free,
            "drops": ~free,
            "added": added,
            "infinite": torch.zeros(5, 5).masked_fill(~free, float("-inf")),
            "another": torch.zeros(5, 5).masked_fill(~free.roll(1, 0), LEAST),
            "a bias": added.clamp(min=-1.0),
        }
        out: torch.Tensor = self.attention(self.into(x), masks[form])
        return out


class Places(nn.Module):
    """Hands places on to a module that ignores them."""

    def __init__(self, dtype: torch.dtype, by: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = Ignores()
        self.kinds = (dtype, by)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dtype, by = self.kinds
        out: torch.Tensor = self.inner(x, (torch.arange(5) + by).to(dtype))
        return out


class Ignores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor, _places: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.f(x)
        return out


def compared(folder: Path, *models: nn.Module, is_executed: bool = True) -> Comparison:
    paths = []
    for number, model in enumerate(models):
        with padiff.record(model, name=str(number), out=folder) as recorder:
            x = torch.linspace(-2, 2, 60).sin().reshape(2, 5, 6).requires_grad_()
            model(x).sum().backward()
        paths.append(recorder.path)
    return compare_dumps(*paths) if is_executed else compare_numbers(*paths)


def reason_of(found: Comparison, module: str) -> tuple[Verdict, str]:
    """Give the verdict on a module's second input, and its reason."""
    (pair,) = (
        pair
        for step in found.steps
        for pair in step.pairs
        if pair.reference is not None
        and (pair.reference.address.module, pair.reference.address.role) == (module, Role.INPUT)
        and pair.reference.address.slot == "[1]"
    )
    return pair.verdict, pair.reason


@pytest.mark.parametrize(("reference", "candidate"), [("added", "flags"), ("flags", "infinite")])
def test_mask_of_flags_is_the_mask_that_is_added(
    reference: str, candidate: str, tmp_path: Path
) -> None:
    found = compared(tmp_path, Net(reference), Net(candidate))

    verdict, reason = reason_of(found, "attention")
    assert not found.origins
    assert verdict is Verdict.MATCH
    assert reason.startswith("the same mask, ")
    assert reason.endswith("where true masks nothing")


def test_flags_that_drop_are_right_by_what_comes_of_them(tmp_path: Path) -> None:
    found = compared(tmp_path, Net("added"), Net("drops", is_free=False))

    assert (found.verdict, reason_of(found, "attention")[0]) == (Verdict.MATCH, Verdict.SKIPPED)


def test_flags_of_the_other_polarity_are_not_the_same_mask(tmp_path: Path) -> None:
    found = compared(tmp_path, Net("added"), Net("drops"))

    assert reason_of(found, "attention")[0] is Verdict.INCOMPARABLE
    assert found.origins[0].pair.reference is not None
    assert found.origins[0].pair.reference.address.module == "attention"


@pytest.mark.parametrize("candidate", ["another", "a bias"])
def test_another_mask_cannot_be_compared(candidate: str, tmp_path: Path) -> None:
    found = compared(tmp_path, Net("flags"), Net(candidate))

    assert reason_of(found, "attention")[0] is Verdict.INCOMPARABLE
    assert found.origins[0].pair.reference is not None
    assert found.origins[0].pair.reference.address.module == "attention"


def test_equal_numbers_of_another_kind_match(tmp_path: Path) -> None:
    found = compared(tmp_path, Places(torch.int64), Places(torch.float32))

    assert reason_of(found, "inner") == (
        Verdict.MATCH,
        "the same elements, int64 on the reference, float32 on the candidate",
    )


def test_what_a_module_ignores_is_no_fault_of_the_program(tmp_path: Path) -> None:
    found = compared(tmp_path, Places(torch.int64), Places(torch.float32, 0.5))

    assert found.verdict is Verdict.MATCH
    assert reason_of(found, "inner")[0] is Verdict.SKIPPED


def test_what_shows_inside_is_said_with_its_difference(tmp_path: Path) -> None:
    models = Places(torch.int64), Places(torch.float32, 0.5)

    found = compared(tmp_path, *models, is_executed=False)

    (origin,) = found.origins
    assert origin.pair.reference is not None
    assert (origin.pair.reference.address.module, origin.pair.reference.address.role) == (
        "",
        Role.OUTPUT,
    )
    assert origin.evidence[0] == (
        "shows first at step 0 inner#0 input[1]: "
        "dtype int64 on the reference, float32 on the candidate"
    )
