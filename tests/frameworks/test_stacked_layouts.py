"""Stacks of experts that lie the other way round in the class of another author."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff

if TYPE_CHECKING:
    from collections.abc import Callable

EXPERTS, TOKENS, HIDDEN = 3, 5, 8
Names = tuple[str, str, str]
OURS: Names = ("gate_proj", "up_proj", "down_proj")


class Rows(nn.Module):
    """Experts with weights of shape (experts, out, in)."""

    is_turned = False

    def __init__(self, wide: int, names: Names = OURS) -> None:
        super().__init__()
        self.names = names
        for name, shape in zip(names, [(wide, HIDDEN)] * 2 + [(HIDDEN, wide)], strict=True):
            weight = torch.randn(EXPERTS, *shape) * 0.3
            stored = weight.transpose(1, 2).contiguous() if self.is_turned else weight
            setattr(self, name, nn.Parameter(stored))

    def weights(self) -> list[torch.Tensor]:
        """Return the weights of gate, up and down as (experts, in, out)."""
        found = [getattr(self, name) for name in self.names]
        return found if self.is_turned else [weight.transpose(1, 2) for weight in found]

    def forward(self, x: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        gate, up, down = self.weights()
        made = (nn.functional.silu(x @ gate) * (x @ up)) @ down
        return (shares.T[..., None] * made).sum(0)


class Columns(Rows):
    """The same with weights of shape (experts, in, out)."""

    is_turned = True


class Renamed(Rows):
    """Another class that keeps its weights as the first one does."""


class Net(nn.Module):
    """A router and its experts, in a number of blocks."""

    def __init__(self, make: Callable[[], nn.Module], blocks: int = 2) -> None:
        super().__init__()
        self.routers = nn.ModuleList(nn.Linear(HIDDEN, EXPERTS, bias=False) for _ in range(blocks))
        self.experts = nn.ModuleList(make() for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for router, experts in zip(self.routers, self.experts, strict=True):
            x = x + experts(x, router(x).softmax(-1))
        return x


def nets(wide: int, kind: type[Rows], names: Names) -> tuple[Net, Net, torch.Tensor]:
    torch.manual_seed(0)
    reference, candidate = Net(lambda: Rows(wide)), Net(lambda: kind(wide, names))
    return reference, candidate, torch.randn(TOKENS, HIDDEN)


@pytest.mark.parametrize("names", [OURS, ("gate", "up", "down")], ids=["same names", "other names"])
@pytest.mark.parametrize("wide", [6, HIDDEN])
@pytest.mark.parametrize("kind", [Columns, Renamed])
def test_a_run_tells_how_the_stacks_of_another_class_lie(
    kind: type[Rows], wide: int, names: Names
) -> None:
    reference, candidate, x = nets(wide, kind, names)

    found = padiff.auto_diff(reference, candidate, ((x,), (x,)), quiet=True)

    assert found, found.report()
    torch.testing.assert_close(candidate(x), reference(x))


def test_a_stack_whose_shape_says_how_it_lies_tells_it_of_square_ones() -> None:
    class Wide(Rows):
        """Has one stack that is not square beside square ones."""

        def __init__(self, wide: int, names: Names = OURS) -> None:
            super().__init__(wide, names)
            shape = (EXPERTS, HIDDEN, 3) if self.is_turned else (EXPERTS, 3, HIDDEN)
            self.extra = nn.Parameter(torch.randn(shape))

    class WideColumns(Wide):
        is_turned = True

    torch.manual_seed(0)
    reference, candidate = Wide(HIDDEN), WideColumns(HIDDEN)

    padiff.assign_weight(reference, candidate)

    for name in (*OURS, "extra"):
        torch.testing.assert_close(
            getattr(candidate, name), getattr(reference, name).transpose(1, 2)
        )


def test_stacks_of_one_class_are_copied_as_they_lie() -> None:
    reference, candidate, _ = nets(HIDDEN, Rows, OURS)

    plan = padiff.assign_weight(reference, candidate)

    assert all(row["confidence"] > 0.6 for row in plan.rows())
    for one, two in zip(reference.parameters(), candidate.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("kind", [Columns, Renamed])
def test_stacks_that_state_how_they_lie_need_no_run(kind: type[Rows]) -> None:
    reference, candidate, x = nets(HIDDEN, kind, OURS)
    for net in (reference, candidate):
        for experts in net.experts:
            assert isinstance(experts, Rows)
            experts.is_transposed = experts.is_turned  # type: ignore[assignment]

    padiff.assign_weight(reference, candidate)

    torch.testing.assert_close(candidate(x), reference(x))
