"""What a pair's tolerance is chosen by, beside the user's options: facts of the pair and run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Role, is_floating
from padiff.dumpfile.bulk import build_all

from .blocks import numbered
from .tolerance import epsilon_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.dumpfile import Index, RecordInfo

    from .blocks import Array
    from .noise import Noise

GRADIENT_ROLES = frozenset({Role.GRAD_INPUT, Role.GRAD_OUTPUT, Role.WEIGHT_GRAD})
"""The roles whose records are gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The facts that one tolerance is chosen by; a report keeps them, to choose again."""

    dtypes: tuple[str, str]
    """The reference's and the candidate's."""
    model_dtypes: tuple[str, ...] = ()
    """Of the two models: what floats in them is no more precise than they are."""
    largest_gradient: float = 0.0
    """Of a gradient, the largest element of the reference's gradients of that kind (of weights, or
    of activations); 0 where there is none."""
    noise: float | None = None
    """The measured noise floor times its factor, >= 0: the least that is allowed. None if it was
    not measured or is not to be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisColumns:
    """The bases of many pairs; ``Basis`` says what the columns mean."""

    dtypes: Sequence[tuple[str, str]]
    model_dtypes: tuple[str, ...]
    """Of all."""
    largest_gradient: Sequence[float]
    noise: Sequence[float | None] | None
    """None where no floor was measured or is to be used."""

    def rows(self, at: Array) -> list[Basis]:
        """Make objects of some rows."""
        rows = at.tolist()
        return build_all(
            Basis,
            len(rows),
            same={"model_dtypes": self.model_dtypes},
            dtypes=[self.dtypes[row] for row in rows],
            largest_gradient=[self.largest_gradient[row] for row in rows],
            noise=[None if self.noise is None else self.noise[row] for row in rows],
        )


class Bases:
    """Finds the basis of every pair of one step."""

    def __init__(self, reference: Index, candidate: Index, noise: Noise | None) -> None:
        """Look at the two sides as wholes."""
        self._reference = reference
        self._candidate = candidate
        self._noise = noise
        names = (model_dtype(reference), model_dtype(candidate))
        self._model_dtypes = tuple(name for name in names if name)
        largest = _largest_gradients(reference)
        self._largest = np.array(
            [largest[role is Role.WEIGHT_GRAD] if role in GRADIENT_ROLES else 0.0 for role in Role]
        )
        """By place of the role."""

    def of(
        self, references: Sequence[tuple[RecordInfo, ...]], records: Sequence[RecordInfo]
    ) -> list[Basis]:
        """Return the basis of each pair; see ``columns``."""
        return self.columns(references, records).rows(np.arange(len(records)))

    def columns(
        self, references: Sequence[tuple[RecordInfo, ...]], records: Sequence[RecordInfo]
    ) -> BasisColumns:
        """Return the bases of pairs."""
        noises = None
        if self._noise is not None:
            noises = [
                self._noise.of([one.id for one in known], record.id)
                for known, record in zip(references, records, strict=True)
            ]
        firsts = [known[0] for known in references]
        return BasisColumns(
            dtypes=self._dtypes(firsts, records),
            model_dtypes=self._model_dtypes,
            largest_gradient=self._largest[numbered([one.role for one in firsts], Role)].tolist(),
            noise=noises,
        )

    def _dtypes(
        self, references: Sequence[RecordInfo], records: Sequence[RecordInfo]
    ) -> list[tuple[str, str]]:
        """Return the dtypes of both sides; equal ones are one object."""
        pairs = zip(
            _names(self._reference, references), _names(self._candidate, records), strict=True
        )
        known: dict[tuple[str, str], tuple[str, str]] = {}
        return [known.setdefault(pair, pair) for pair in pairs]


def _names(index: Index, records: Sequence[RecordInfo]) -> list[str]:
    values = index.values
    return ["none" if one.value is None else values[one.value].dtype for one in records]


def _largest_gradients(index: Index) -> dict[bool, float]:
    """Find the largest absolute gradients: of weights (True) and of activations."""
    largest = {True: 0.0, False: 0.0}
    gradient, roles, values = Role.WEIGHT_GRAD, GRADIENT_ROLES, index.values
    held: dict[bool, set[int]] = {True: set(), False: set()}
    for record in index.records:
        if record.role in roles and record.value is not None:
            held[record.role is gradient].add(record.value)
    for is_weight, found in held.items():
        for place in found:
            told = values[place].statistics
            if told.minimum is not None and told.maximum is not None:
                size = max(abs(told.minimum), abs(told.maximum))
                largest[is_weight] = max(largest[is_weight], size)
    return largest


_MATRIX = 2
"""Axes of a weight that a product is taken with, at least."""


def model_dtype(index: Index) -> str:
    """Name the most frequent floating dtype of the weights; ``""`` without any.

    A float32 loss or a norm that computes in float32 inside a bfloat16 model is no more precise
    than what is fed to it: its tolerance is that of the model's dtype. Under autocast the weights
    are float32, and half or more of the products are taken in a narrower dtype: that is then the
    model's.
    """
    weight, output = Role.WEIGHT, Role.OUTPUT
    weights = [record for record in index.records if record.role is weight]
    matrices = {record.module for record in weights if len(record.shape) >= _MATRIX}
    products = [
        record for record in index.records if record.role is output and record.module in matrices
    ]
    own, made = _floating(index, weights), _floating(index, products)
    if not own:
        return ""
    name = own.most_common(1)[0][0]
    narrow = [dtype for dtype in made if epsilon_of(dtype) > epsilon_of(name)]
    if 2 * sum(made[dtype] for dtype in narrow) >= sum(made.values()) > 0:
        return max(narrow, key=lambda dtype: made[dtype])
    return name


def _floating(index: Index, records: Iterable[RecordInfo]) -> Counter[str]:
    """Count the floating dtypes of records."""
    values = index.values
    names = Counter([values[one.value].dtype for one in records if one.value is not None])
    return Counter({name: count for name, count in names.items() if is_floating(name)})
