"""Both sides of a step, with what updates are judged by."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.result import JudgedPair, Tolerance, Verdict
from padiff.dumpfile import Content, Phase, RecordInfo, Role
from padiff.pairing import split_slot

from .dtypebounds import default_of
from .indouble import in_double
from .metrics import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import StepReader
    from padiff.pairing import Pairing, RecordPair

    from .blocks import Array

__all__ = ["UpdateSides"]


class UpdateSides:
    """Both sides of a step, with what updates are judged by."""

    def __init__(self, reference: StepReader, candidate: StepReader, pairing: Pairing) -> None:
        """Look up what weights were before, their gradients, and what the optimizer keeps.

        Args:
            reference: The reference's step.
            candidate: The candidate's.
            pairing: What of the one is what of the other.
        """
        self.reference = reference
        self.candidate = candidate
        self.pairing = pairing
        self._before: dict[tuple[int, str], RecordInfo] = {}
        self._found_before = {
            (record.module, record.slot): record
            for record in candidate.index.records
            if record.role is Role.WEIGHT and record.phase is not Phase.UPDATE
        }
        self._gradients: dict[tuple[int, str], RecordInfo] = {}
        self.largest_gradient = 0.0
        """The largest element of all gradients of weights of the reference."""
        self._made_of: dict[tuple[int, str], dict[str, RecordPair]] | None = None
        self.diverged: set[int] = set()
        """Records of the candidate."""
        self._states: dict[str, float] = {}
        for record in reference.index.records:
            place = record.module, record.slot
            if record.role is Role.WEIGHT and record.phase is not Phase.UPDATE:
                self._before[place] = record
            elif record.role is Role.WEIGHT_GRAD and record.value is not None:
                self._gradients[place] = record  # the later one is what the update took
                self.largest_gradient = max(self.largest_gradient, self._size(record))
            elif record.role is Role.OPTIMIZER_STATE:
                name = split_slot(record.slot)[1]
                self._states[name] = max(self._states.get(name, 0.0), self._size(record))

    def known(self, record: int) -> RecordInfo:
        """Give a record of the reference."""
        return self.reference.index.records[record]

    def is_new_weight(self, pair: RecordPair) -> bool:
        """Tell whether a pair is of weights after the update."""
        record = self.candidate.index.records[pair.candidate]
        return record.role is Role.WEIGHT and record.phase is Phase.UPDATE

    def largest_state(self, name: str) -> float:
        """Give the largest element that the reference's optimizer keeps under a name."""
        return self._states.get(name, 0.0)

    def digests(self, pair: RecordPair) -> tuple[tuple[str, ...], str]:
        """Give what identifies the two contents of a pair."""
        sides = self.reference.index, self.candidate.index
        values = [sides[0].records[record].value for record in pair.reference]
        found = sides[1].records[pair.candidate].value
        return (
            tuple("" if value is None else sides[0].values[value].digest for value in values),
            "" if found is None else sides[1].values[found].digest,
        )

    def has_elements(self, pair: RecordPair) -> bool:
        """Tell whether all elements of both sides were recorded."""
        sides = self.reference.index, self.candidate.index
        values = [sides[0].records[record].value for record in pair.reference]
        found = sides[1].records[pair.candidate].value
        contents = [sides[0].values[value].content for value in values if value is not None]
        if found is not None:
            contents.append(sides[1].values[found].content)
        return all(content is Content.FULL for content in contents)

    def expected(self, pair: RecordPair, arrays: Sequence[Array] | None = None) -> Array:
        """Give what the candidate should hold, of the pair's own or of other reference arrays."""
        shape = self.candidate.index.records[pair.candidate].shape
        if arrays is None:
            arrays = [self.reference.array(self.known(place)) for place in pair.reference]
        return pair.rule.apply(arrays, shape)

    def found(self, pair: RecordPair) -> Array:
        """Give what the candidate holds."""
        return self.candidate.array(self.candidate.index.records[pair.candidate])

    def excess(self, pair: RecordPair) -> float:
        """Give how far a weight is from the reference's, in default tolerances of its dtype."""
        wanted = in_double(self.expected(pair))
        distance = np.abs(in_double(self.found(pair)) - wanted)
        if not wanted.size:
            return 0.0
        name = self.candidate.index.values[
            self.candidate.index.records[pair.candidate].value or 0
        ].dtype
        tolerance = default_of(name)
        allowed = tolerance.atol + tolerance.rtol * np.abs(wanted)
        return float((distance / allowed).max()) if tolerance.atol else 0.0

    def befores(self, pair: RecordPair) -> list[Array] | None:
        """Give the reference's weights before the update, None if one is not known."""
        return self._arrays(self._before, pair)

    def found_before(self, pair: RecordPair) -> Array | None:
        """Give the candidate's weight before the update, None if it is not known."""
        record = self.candidate.index.records[pair.candidate]
        before = self._found_before.get((record.module, record.slot))
        return None if before is None else self.candidate.array(before)

    def gradients(self, pair: RecordPair) -> list[Array] | None:
        """Give the gradients that the reference's update took, None if one is not known."""
        return self._arrays(self._gradients, pair)

    def differs_by(self, pair: RecordPair) -> Array:
        """Give how far the gradient and the optimizer's tensors of a weight are apart.

        Returns:
            Shaped as the candidate's weight: the largest relative difference, in [0, 2]; 0 if one
            of them diverged.
        """
        record = self.candidate.index.records[pair.candidate]
        found = np.zeros(record.shape)
        made_of = self._ingredients().get((record.module, record.slot), {}).values()
        if any(other.candidate in self.diverged for other in made_of):
            return found
        for other in made_of:
            known, had = self.expected(other), self.found(other)
            if had.shape == record.shape and self.has_elements(other):
                size = np.maximum(np.abs(known), np.abs(had)).astype(np.float64)
                distance = np.abs(in_double(had) - known)
                found = np.fmax(found, np.divide(distance, size, where=size > 0, out=0 * size))
        return found

    def _ingredients(self) -> dict[tuple[int, str], dict[str, RecordPair]]:
        """Give what each weight's update is made of, by the candidate's module and slot."""
        if self._made_of is None:
            self._made_of = {}
            for pair in self.pairing.records:
                record = self.candidate.index.records[pair.candidate]
                slot, name = record.slot, ""
                if record.role is Role.OPTIMIZER_STATE:
                    slot, name = split_slot(record.slot)
                elif record.role is not Role.WEIGHT_GRAD:
                    continue
                if record.value is not None and all(
                    self.known(one).value is not None for one in pair.reference
                ):
                    self._made_of.setdefault((record.module, slot), {})[name] = pair
        return self._made_of

    def judged(
        self,
        pair: RecordPair,
        judged: JudgedPair,
        tolerance: Tolerance,
        *,
        expected: Array | None = None,
    ) -> JudgedPair:
        """Judge a pair by another tolerance, or against something else than the reference.

        A measured noise floor that is larger takes its place.
        """
        noise = None if judged.basis is None else judged.basis.noise
        tolerance = replace(tolerance, atol=max(tolerance.atol, noise or 0.0))
        wanted = self.expected(pair) if expected is None else expected
        metrics = measure(wanted, self.found(pair).astype(wanted.dtype), tolerance)
        is_match = metrics.mismatched == 0
        return replace(
            judged,
            verdict=Verdict.MATCH if is_match else Verdict.DIVERGED,
            metrics=metrics,
            tolerance=tolerance,
            fatal=not is_match,
        )

    def _arrays(
        self, known: dict[tuple[int, str], RecordInfo], pair: RecordPair
    ) -> list[Array] | None:
        ends = [self.known(place) for place in pair.reference]
        records = [known.get((end.module, end.slot)) for end in ends]
        return [self.reference.array(one) for one in records if one] if all(records) else None

    def _size(self, record: RecordInfo) -> float:
        if record.value is None:
            return 0.0
        found = self.reference.index.values[record.value].statistics
        return max(abs(found.minimum or 0.0), abs(found.maximum or 0.0))
