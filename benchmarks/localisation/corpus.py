"""Which pairs are recorded: planted faults at every depth, and other correct forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .faults import FAULTS, Fault
from .models import LAYERS
from .parts import STYLES

if TYPE_CHECKING:
    from collections.abc import Iterator

DTYPES = ("float32", "bfloat16")
SEEDS = (0, 1, 2)
"""Of weights, for the clean corpus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One pair: a model, and another form of it with either a fault or another style."""

    kind: str
    """``cnn``, ``transformer`` or ``rnn``."""
    dtype: str
    seed: int = 0
    fault: str = ""
    """Name of the planted fault; empty in the clean corpus."""
    depth: int = 0
    """Block that holds the fault."""
    style: str = ""
    """Name of the other correct form; empty where a fault is planted."""

    @property
    def name(self) -> str:
        """Tell the pair from all others, for people."""
        what = f"{self.fault} {self.depth}" if self.fault else f"{self.style}, seed {self.seed}"
        return f"{self.kind} {what}"

    @property
    def planted(self) -> Fault:
        """Give the fault; raises KeyError in the clean corpus."""
        return FAULTS[self.kind][self.fault]

    @property
    def expected(self) -> str:
        """Give the path of the module that should be named; empty in the clean corpus."""
        return f"blocks.{self.depth}.{self.planted.where}".rstrip(".") if self.fault else ""

    @property
    def reference(self) -> dict[str, str | int]:
        """Give what the reference is built with."""
        return {"style": "", "seed": self.seed}

    @property
    def candidate(self) -> dict[str, str | int]:
        """Give what the candidate is built with."""
        if self.fault:
            return {"fault": self.fault, "depth": self.depth}
        return {"style": self.style, "seed": self.seed}


def trials(*, quick: bool) -> Iterator[Trial]:
    """List all pairs, the pairs of one reference together.

    Args:
        quick: Only the middle block and the first seed.
    """
    depths = (LAYERS // 2,) if quick else (0, LAYERS // 2, LAYERS - 1)
    for kind, faults in FAULTS.items():
        for dtype in DTYPES:
            for fault in faults:
                for depth in depths:
                    yield Trial(kind=kind, dtype=dtype, fault=fault, depth=depth)
            for seed in SEEDS[:1] if quick else SEEDS:
                for style in STYLES:
                    yield Trial(kind=kind, dtype=dtype, style=style, seed=seed)
