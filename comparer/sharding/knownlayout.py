"""How a record lies over ranks, how that is known, or why nothing can be said of it.

The shapes of parts say which layouts make one tensor of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from itertools import product
from typing import TYPE_CHECKING

from padiff.dumpfile import Layout

from .assembling import REPLICATE, coordinates, own_shape, split_axis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import Mesh, ModuleInfo

    from .joining import JoinedRecord


class LayoutEvidence(StrEnum):
    """How it is known how a record lies."""

    MAP = "by the map"
    RECORDED = "recorded"
    CLASS = "by class"
    WEIGHT = "as their weight"
    EQUAL = "equal on all ranks"
    LONE = "on one rank"
    SHAPE = "by shape"
    ROWS = "means over the ranks' rows"
    """A loss of each rank's rows, or the gradient of what all ranks share."""
    ALIKE = "as in other layers"
    BOTH = "unknown, cut alike on both sides"
    MADE = "made of what is whole"
    """What a module without split weights makes of whole inputs; and what took the same value."""
    RESULT = "the model's result"


class Turn(Enum):
    """Which records are looked at together."""

    WEIGHTS = 0
    INPUTS = 1
    """What the model takes."""
    REST = 2


class Unknown(StrEnum):
    """Why it is not known how a record lies."""

    MASKED = "a masked term on each rank: what takes their sum is judged"
    TERMS = (
        "the ranks differ, and nothing tells whether these are terms of a sum or should be equal"
    )
    SHAPE = "the shapes of the parts do not tell how they make one tensor"
    OWN = "each rank has its own"
    CONSUMER = "what one of several calls adds to a gradient: it is judged where the tensor is made"
    ABSENT = "None on some ranks"
    ELEMENTS = "the elements of its parts are not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLayout:
    """How one record lies over the ranks that hold it."""

    layout: Layout
    told: LayoutEvidence
    divisor: int = 1
    """What the whole's elements are divided by: gradients of a mean of several ranks' losses."""
    differing: tuple[str, ...] = ()
    """Dimensions along which replicas are not bit-equal."""


_MOST_READINGS = 4096


@dataclass(slots=True)
class OpenRecord:
    """A record of which the layout is being found."""

    record: JoinedRecord
    module: ModuleInfo
    mesh: Mesh
    placements: list[str | None]
    told: LayoutEvidence | None
    recorded: frozenset[str]
    """Dimensions that the framework told."""

    @property
    def unknown(self) -> list[int]:
        """Return the dimensions along which nothing is known."""
        return [place for place, one in enumerate(self.placements) if one is None]


def ways(open_: OpenRecord) -> Iterator[list[str]]:
    """Yield the placements that a record may have, as far as they are not known."""
    axes = len(open_.record.first.shape)
    unknown = open_.unknown
    options = [REPLICATE, *(f"S({axis})" for axis in range(axes))]
    if len(options) ** len(unknown) > _MOST_READINGS:
        return
    for chosen in product(options, repeat=len(unknown)):
        placements = list(open_.placements)
        for place, one in zip(unknown, chosen, strict=True):
            placements[place] = one
        yield [one or REPLICATE for one in placements]


def whole_of(open_: OpenRecord, placements: Sequence[str]) -> Layout | None:
    """Return the layout of the whole that parts make; None if they do not fit together."""
    mesh, parts = open_.mesh, open_.record.parts
    axes = {axis for axis in map(split_axis, placements) if axis is not None}
    ndim = max((len(part.shape) for part in parts.values()), default=0)
    if any(axis >= ndim for axis in axes):
        return None
    plain = Layout(mesh=mesh, placements=tuple(placements), shape=(0,) * ndim)
    shape = [0] * ndim
    for rank, coordinate in coordinates(plain):
        part = parts[rank].shape
        if len(part) != ndim:
            if 0 in part:
                continue  # a rank that has nothing of it
            return None
        for axis in range(ndim):
            is_along = all(
                place == 0 or split_axis(placement) == axis
                for place, placement in zip(coordinate, placements, strict=True)
            )
            shape[axis] += part[axis] if is_along else 0
    layout = Layout(mesh=mesh, placements=tuple(placements), shape=tuple(shape))
    for rank, coordinate in coordinates(layout):
        own, part = own_shape(layout, coordinate), parts[rank].shape
        if own != part and not (0 in own and 0 in part):
            return None
    return layout


def named(record: JoinedRecord) -> str:
    """Name a record for a message."""
    key = record.key
    call = f"#{key.call}" if key.call else ""
    return f"{key.module or '(root)'}{call} {key.role}{key.slot}"
