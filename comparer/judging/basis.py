"""What a pair's tolerance is chosen by, beside the user's options: facts of the pair and run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import Role

from .precision import model_dtype
from .rounding import Rounding, Sums

if TYPE_CHECKING:
    from padiff.dumpfile import Index, RecordInfo

    from .noise import Noise

__all__ = ["GRADIENT_ROLES", "Bases", "Basis"]

GRADIENT_ROLES = frozenset({Role.GRAD_INPUT, Role.GRAD_OUTPUT, Role.WEIGHT_GRAD})
"""The roles whose records are gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The facts that one tolerance is chosen by; a report keeps them, to choose again."""

    dtypes: tuple[str, str]
    """The reference's and the candidate's."""
    model_dtypes: tuple[str, ...] = ()
    """Of the two models: what floats in them is no more precise than they are."""
    sums: Sums = field(default_factory=Sums)
    """What the reference's record is the sum of."""
    largest_gradient: float = 0.0
    """Of a gradient, the largest element of the reference's gradients of that kind (of weights, or
    of activations); 0 where there is none."""
    noise: float | None = None
    """The measured noise floor times its factor, >= 0: stands in for the default atol. None if it
    was not measured or is not to be used."""


class Bases:
    """Finds the basis of every pair of one step."""

    def __init__(self, reference: Index, candidate: Index, noise: Noise | None) -> None:
        """Look at the two sides as wholes.

        Args:
            reference: The reference's index.
            candidate: The candidate's.
            noise: Measured floors; None if they are not to be used.
        """
        self._reference = reference
        self._candidate = candidate
        self._rounding = Rounding(reference)
        self._noise = noise
        names = (model_dtype(reference), model_dtype(candidate))
        self._model_dtypes = tuple(name for name in names if name)
        self._largest = _largest_gradients(reference)

    def of(
        self, references: tuple[RecordInfo, ...], record: RecordInfo, *, is_exact: bool
    ) -> Basis:
        """Give the basis of a pair.

        Args:
            references: The reference's records; all hold a value.
            record: The candidate's.
            is_exact: Whether the pair is judged by errors against a golden run, so that no
                default atol is to be added to what rounding explains.
        """
        first = references[0]
        noise = 0.0 if is_exact else None
        if self._noise is not None:
            noise = self._noise.of([known.id for known in references], record.id)
        found = [self._rounding.of(known) for known in references]
        return Basis(
            dtypes=(_dtype(self._reference, first), _dtype(self._candidate, record)),
            model_dtypes=self._model_dtypes,
            sums=Sums(
                size=max(sums.size for sums in found),
                calls=max(sums.calls for sums in found),
                terms=max(sums.terms for sums in found),
            ),
            largest_gradient=self._largest[first.role is Role.WEIGHT_GRAD]
            if first.role in GRADIENT_ROLES
            else 0.0,
            noise=noise,
        )


def _dtype(index: Index, record: RecordInfo) -> str:
    return "none" if record.value is None else index.values[record.value].dtype


def _largest_gradients(index: Index) -> dict[bool, float]:
    """Find the largest absolute gradients: of weights (True) and of activations."""
    largest = {True: 0.0, False: 0.0}
    for record in index.records:
        if record.role in GRADIENT_ROLES and record.value is not None:
            found = index.values[record.value].statistics
            if found.minimum is not None and found.maximum is not None:
                size = max(abs(found.minimum), abs(found.maximum))
                is_weight = record.role is Role.WEIGHT_GRAD
                largest[is_weight] = max(largest[is_weight], size)
    return largest
