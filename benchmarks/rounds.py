"""Timing on a machine that is never quiet: the sides take turns, and medians are taken."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """What every side took, round by round."""

    seconds: Mapping[str, Sequence[float]]
    """Wall time."""
    processor: Mapping[str, Sequence[float]]
    """Seconds of processor time of all threads, which other programs hardly change."""

    def median(self, side: str) -> float:
        """Give the median wall time of one side."""
        return statistics.median(self.seconds[side])

    def ratio(self, side: str, *others: str) -> float:
        """Give the median over the rounds of one side's wall time over the sum of the others'."""
        return statistics.median(_ratios(self.seconds, side, others))

    def processor_ratio(self, side: str, *others: str) -> float:
        """Give the same of processor time."""
        return statistics.median(_ratios(self.processor, side, others))

    def spread(self, side: str, *others: str) -> str:
        """Give the smallest and the largest ratio of wall times."""
        ratios = _ratios(self.seconds, side, others)
        return f"{min(ratios):.2f}..{max(ratios):.2f}"


def take_turns(sides: Mapping[str, Callable[[], object]], *, rounds: int) -> Rounds:
    """Run every side once per round, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    processor: dict[str, list[float]] = {name: [] for name in sides}
    for count in range(rounds + 1):
        for name, run in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if count:
                seconds[name].append(wall)
                processor[name].append(cpu)
    return Rounds(seconds=seconds, processor=processor)


def _ratios(times: Mapping[str, Sequence[float]], side: str, others: Sequence[str]) -> list[float]:
    rounds = zip(*(times[name] for name in (side, *others)), strict=True)
    return [first / sum(rest) for first, *rest in rounds]
