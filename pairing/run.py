"""What the steps and ranks of two runs know of partners.

An update moves weights so that layers of a kind look alike: after Adam's first step each norm is
ones and zeros plus or minus one rate. What a step says of partners is therefore taken from the
first one, where values prove it, and not asked anew of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from padiff.pairing.calls.calls import CallPairs
    from padiff.pairing.calls.proof import Proofs
    from padiff.pairing.weights.weight_plan import WeightPlan

    from .result import ModulePair

__all__ = ["Alignment", "KnownAlignment", "RunPartners"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Partners that hold for all steps and ranks of the same structure."""

    calls: CallPairs
    modules: tuple[ModulePair, ...]
    proofs: Proofs
    hidden: tuple[Mapping[int, str], Mapping[int, str]]
    """Calls of each side that the other does without calling a module."""
    plan: WeightPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAlignment:
    """An alignment with where it was made."""

    place: str
    structure: Hashable
    alignment: Alignment
    overruled: frozenset[tuple[int, int]]
    """Calls that values would pair otherwise, and that other evidence did not there."""


@dataclass(slots=True, kw_only=True)
class RunPartners:
    """What is known of the partners of two runs, from the steps that were paired so far."""

    loaded: Sequence[tuple[str, str]] = ()
    """Names of weights of the reference and of those of the candidate that were made of them."""
    known: list[KnownAlignment] = field(default_factory=list)
    sure: dict[str, str] = field(default_factory=dict)
    """Paths of modules whose partner is in no doubt."""
    first_update: int | None = None
    """The first step that ended with an update."""
