"""What the user says of how tensors lie over the ranks of a sharded run: ``R over tp``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

from .pattern import PathPattern

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KINDS", "RanksEntry", "parse_placements"]

KINDS = ("input", "output", "grad_input", "grad_output", "weight", "buffer")
"""What an entry may speak of; a weight's gradient and moments lie as it does."""
_PLACEMENT = re.compile(r"R|S\(\d{1,2}(;[1-9]\d{0,5})?\)|P\((sum|avg|max|min)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksEntry:
    """How tensors of some modules lie over ranks, whatever else is known of them."""

    module: PathPattern
    """Of modules, or of weights by their full names."""
    placements: Mapping[str, Mapping[str, str]]
    """By what they are to the module (``KINDS``): the placement along each dimension of a mesh."""
    name: str = "[[layout]]"
    """Table and number in the file, or the option, for messages."""

    @classmethod
    def parse(cls, text: str) -> RanksEntry:
        """Read what follows ``--layout``: ``**.wo output=R over tp``.

        Raises:
            ConfigError: It says nothing of the kind.

        >>> RanksEntry.parse("**.wo output=R over tp").placements
        {'output': {'tp': 'R'}}
        """
        pattern, _, rest = text.strip().partition(" ")
        kind, equals, told = (part.strip() for part in rest.partition("="))
        if not equals or kind not in KINDS:
            raise ConfigError(
                f"cannot read the layout {text!r}: expected 'PATTERN KIND=PLACEMENT over DIM'",
                hint=f"for example '**.wo output=R over tp'; kinds are {', '.join(KINDS)}",
            )
        return cls(
            module=PathPattern.parse(pattern),
            placements={kind: parse_placements(told)},
            name=f"--layout {text!r}",
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Return what ``parse`` reads back, one for each kind."""
        return tuple(
            f"{self.module.text} {kind}="
            + ", ".join(f"{placement} over {dim}" for dim, placement in told.items())
            for kind, told in self.placements.items()
        )


def parse_placements(text: str) -> dict[str, str]:
    """Read ``S(0) over dp, R over tp``: the placement along each dimension.

    Raises:
        ConfigError: It says nothing of the kind.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        placement, _, dim = (word.strip() for word in part.partition(" over "))
        if not _PLACEMENT.fullmatch(placement) or not dim or dim in found:
            raise ConfigError(
                f"cannot read the layout {text!r}: expected R, S(axis), S(axis;runs) or P(sum), "
                "and the dimension of a mesh, as in 'S(0) over dp, R over tp'"
            )
        found[dim] = placement
    return found
