"""Training on several ranks, each of which has its own batch, as either framework records it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .dumps import write_dump
from .tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

    from padiff.dumpfile import Keep

RANKS, STEPS = 3, 3


def write_ranks(
    path: Path,
    framework: str = "torch",
    *,
    faulty: Container[int] = (),
    ranks: int = RANKS,
    content: Keep | None = None,
) -> Path:
    """Write three steps of all ranks, with updates.

    Args:
        path: Where.
        framework: ``torch`` or ``paddle``.
        faulty: The ranks of which the last step diverges.
        ranks: How many.
        content: How much of each value; None writes all.
    """
    built = []
    for step in range(STEPS):
        for rank in range(ranks):
            is_faulty = rank in faulty and step == STEPS - 1
            one = tiny_net(framework, step=step, eps=1e-3 if is_faulty else 1e-5)
            weight = next(array for record, array in one.records if record.role is Role.WEIGHT)
            assert weight is not None
            one.record("fc1", Role.WEIGHT, 2 * weight, slot=".weight", phase=Phase.UPDATE)
            one.rank = rank
            built.append(one)
    return write_dump(path, *built, content=content, framework_version="1.0")
