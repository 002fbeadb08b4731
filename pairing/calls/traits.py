"""What tells modules of one job apart, in columns: many pairs are scored at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.names import words_of
from padiff.pairing.tensors.sketch import alike_numbers, is_telling

from .telling import numbers_in

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from .rivals import RatedSide

__all__ = ["Traits", "alike_outputs", "traits_of"]

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Of each module of a side; equal numbers of two sides mean the same, -1 that it is unknown."""

    words: Sequence[frozenset[str]]
    """Words of its path."""
    numbers: Places
    """For the numbers on its path."""
    weights: Places
    """For the content of the weights that it owns."""
    given: Places
    """For the value that went into it first."""
    fed_to: Places
    """For the jobs of the layers that take what it gives as it is."""
    outputs: Floats
    """Shape (modules, 3): minimum, maximum and l2 of what its first call gave."""
    is_told: npt.NDArray[np.bool_]
    """Whether these are known, and the output is no constant."""


def traits_of(
    side: RatedSide, held: Sequence[Hashable | None], numbers: dict[str, dict[Hashable, int]]
) -> Traits:
    """Gather the traits of a side, in one pass over its modules.

    Args:
        side: The side.
        held: A key of the weights of each module, None where they say nothing.
        numbers: Numbers of each trait, the same tables for both sides.
    """
    view = side.view
    paths = [module.path for module in view.modules]
    outputs, is_told = _outputs(side)

    def numbered(word: str, told: Iterable[Hashable | None]) -> Places:
        table = numbers.setdefault(word, {})
        keys = [-1 if key is None else table.setdefault(key, len(table)) for key in told]
        return np.array(keys, np.int64)

    return Traits(
        words=[words_of(path) for path in paths],
        numbers=numbered("numbers", map(numbers_in, paths)),
        weights=numbered("weights", held),
        given=numbered("given", [None if v is None else view.values[v].digest for v in side.given]),
        fed_to=numbered("fed to", side.fed_to),
        outputs=outputs,
        is_told=is_told,
    )


def _outputs(side: RatedSide) -> tuple[Floats, npt.NDArray[np.bool_]]:
    rows: list[tuple[float, float, float]] = []
    told: list[bool] = []
    for output in side.outputs:
        value = None if output is None or output.value is None else output.value
        known = None if value is None else side.view.values[value].statistics
        is_told = known is not None and known.l2 is not None and is_telling(known)
        told.append(is_told)
        if known is None or not is_told:
            rows.append((0.0, 0.0, 0.0))
        else:
            rows.append((known.minimum or 0.0, known.maximum or 0.0, known.l2 or 0.0))
    return np.array(rows).reshape(-1, 3), np.array(told, np.bool_)


def alike_outputs(reference: Traits, rows: Places, candidate: Traits, columns: Places) -> Floats:
    """Say how near what modules gave is, element by element, in [0, 1]; 0 where nobody can say."""
    near = alike_numbers(reference.outputs[rows], candidate.outputs[columns])
    return np.where(reference.is_told[rows] & candidate.is_told[columns], near, 0.0)
