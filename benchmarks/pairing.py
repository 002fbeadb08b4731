"""How long pairing two large trees takes (processor time, one thread), and how it grows."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing import pair, plan_weights
from tests.support.extremes import EXTREMES, WIDE, Dialect, extreme
from tests.support.treegen import (
    functional,
    plant,
    renamed,
    reseeded,
    run,
    unwrapped,
    wrapped,
)

from .figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.pairing import Pairing
    from tests.support.treegen import Run

    from .scale import Scale

_CALLS_PER_BLOCK = 7.5


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Pair sides of about 2 000 and 20 000 calls: the same tree, and a port with another tree."""
    sizes = scale.pick(full=(2_000, 20_000), quick=(500, 2_000), tiny=(15, 60))
    for kind in ("same tree", "other tree", "other tree, weights and names"):
        seconds = []
        counts = []
        for size in sizes:
            reference, candidate = _sides(kind, round(size / _CALLS_PER_BLOCK))
            began = time.process_time()
            found = pair(reference.side, candidate.side)
            seconds.append(time.process_time() - began)
            counts.append(len(reference.side.index.calls))
            yield Figure(
                name=f"{kind}: {size} calls a side",
                value=seconds[-1],
                unit="s",
                at_most=10.0 if size == sizes[-1] else None,
                detail=_describe(found, reference, candidate),
            )
        yield Figure(
            name=f"{kind}: time per call, large over small",
            value=(seconds[1] / counts[1]) / (seconds[0] / counts[0]),
            unit="x",
            detail="1 is linear",
        )
    yield from _extreme_figures(scale=scale)
    yield from _weight_figures(scale=scale)


_LEVELS = 5_000


def _extreme_figures(*, scale: Scale) -> Iterator[Figure]:
    """Pair forms that no name helps with: other names throughout, once with other values too."""
    for kind in (*EXTREMES, *WIDE):
        count = _LEVELS if kind.startswith("nested") else _UNITS
        count = count // scale.pick(full=1, quick=10, tiny=250)
        for seed, values in ((0, "the same values"), (1, "other values")):
            reference = extreme(kind, count, Dialect.SAME)
            candidate = extreme(kind, count, Dialect.STRANGE, seed=seed)
            began = time.process_time()
            found = pair(reference, candidate)
            seconds = time.process_time() - began
            right = sum(call.reference == call.candidate for call in found.calls)
            yield Figure(
                name=f"{kind}, {values}: {count} modules a side",
                value=seconds,
                unit="s",
                at_most=10.0,
                detail=f"{len(found.calls)} calls paired, {right} of them right",
            )


_UNITS_PER_BLOCK = 2.32
_UNITS = 20_000


def _weight_figures(*, scale: Scale) -> Iterator[Figure]:
    """Plan the weights of about 20 000 modules without and with equal values."""
    sizes = scale.pick(full=(2_000, _UNITS), quick=(500, 2_000), tiny=(5, 20))
    for kind in ("same tree", "other tree", "other tree, weights and names"):
        seconds = []
        counts = []
        for size in sizes:
            reference, candidate = _sides(kind, round(size / _UNITS_PER_BLOCK))
            began = time.process_time()
            plan = plan_weights(reference.side, candidate.side)
            seconds.append(time.process_time() - began)
            counts.append(_units(reference))
            yield Figure(
                name=f"weights, {kind}: {size} modules a side",
                value=seconds[-1],
                unit="s",
                at_most=10.0 if size == sizes[-1] else None,
                detail=f"{counts[-1]} modules with {len(plan.pairs)} weights paired, "
                f"{len(plan.ambiguous)} ambiguous, {len(plan.missing)} missing",
            )
        yield Figure(
            name=f"weights, {kind}: time per module, large over small",
            value=(seconds[1] / counts[1]) / (seconds[0] / counts[0]),
            unit="x",
            detail="1 is linear",
        )


def _units(side: Run) -> int:
    records = side.side.index.records
    return len({record.module for record in records if record.role is Role.WEIGHT})


def _sides(kind: str, blocks: int) -> tuple[Run, Run]:
    generator = random.Random(0)
    reference = plant(generator, blocks)
    candidate = reference
    if kind != "same tree":
        for change in (wrapped, unwrapped, renamed, functional):
            candidate = change(candidate, generator)
    if kind.endswith("weights and names"):
        candidate = reseeded(candidate)
    return run(reference, "torch"), run(candidate, "paddle")


def _describe(found: Pairing, reference: Run, candidate: Run) -> str:
    calls = [len(side.side.index.calls) for side in (reference, candidate)]
    records = [len(side.side.index.records) for side in (reference, candidate)]
    return (
        f"{calls[0]} and {calls[1]} calls, {records[0]} and {records[1]} records; "
        f"{len(found.calls)} calls paired"
    )
