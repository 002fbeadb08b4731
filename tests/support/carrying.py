"""Carrying the weights of one torch model over to another, with the runs that tell what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from padiff import record
from padiff.dumper.adapters import load
from padiff.dumper.runs.rehearsal import rehearse, rehearse_fed
from padiff.dumper.weights.weights import load_weights

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from padiff.pairing.weights.weight_plan import WeightPlan

__all__ = ["carried"]


def carried(
    folder: Path,
    reference: nn.Module,
    candidate: nn.Module,
    *inputs: torch.Tensor,
    mean: float,
    seed: int,
    has_program: bool = True,
) -> tuple[WeightPlan, float]:
    """Give a model the weights of another one by runs.

    Args:
        folder: Where the reference's dump goes.
        reference: Gets random weights of standard deviation 0.5 first.
        candidate: Gets those weights.
        inputs: Of both.
        mean: Of the random weights.
        seed: What they are drawn from.
        has_program: Whether the reference's dump says what happens between modules.

    Returns:
        The plan, and the relative L2 error of the candidate's output.
    """
    numbers = torch.Generator().manual_seed(seed)
    reference.eval()
    candidate.eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.normal_(mean, 0.5, generator=numbers)
        with record(reference, name="reference", out=folder, program=has_program) as dump:
            expected = _joined(reference(*inputs))

        def run() -> torch.Tensor:
            with torch.no_grad():
                return _joined(candidate(*inputs))

        adapter = load("torch")
        plan = load_weights(
            candidate,
            adapter,
            dump.path,
            rehearsal=lambda: rehearse(candidate, adapter, run),
            fed=lambda known: rehearse_fed(candidate, adapter, run, dump.path, known),
        )
        return plan, float((run() - expected).norm() / expected.norm())


def _joined(made: torch.Tensor | dict[str, torch.Tensor]) -> torch.Tensor:
    return made if isinstance(made, torch.Tensor) else torch.cat([*made.values()], -1)
