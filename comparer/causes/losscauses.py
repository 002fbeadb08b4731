"""Why a loss differs where the outputs agree: its reduction, its smoothing, ignored labels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judging.blocks import is_floating
from padiff.dumpfile import Content, Role

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Side

    from .budget import Budget
    from .causesides import Two

__all__ = ["loss_causes"]

CLOSE = 1e-4
"""Relative difference up to which a loss computed here is the one recorded."""
IGNORED = -100
"""The label that both frameworks leave out by default."""
MOST_ELEMENTS = 1 << 24
PASSES = 8
"""Work for each element of an output, for one reading of the labels."""
SMOOTH = 0.5
"""Largest label smoothing that anybody uses."""
DIGITS = 3
"""A smoothing is a number of so many decimals."""
LARGEST_FACTOR = 1 << 24


def loss_causes(loss: Two, reference: Side, budget: Budget) -> list[Cause]:
    """Look for the cause of a loss that diverges while nothing before it does.

    Args:
        loss: One element on each side.
        reference: The side held to be right: its outputs are the candidate's.
        budget: Asked before outputs are read.
    """
    known, had = float(loss.reference.flat[0]), float(loss.candidate.flat[0])
    for entropy in _entropies(reference, budget):
        told = [entropy.told(known), entropy.told(had)]
        if None not in told and told[0] != told[1]:
            return [
                Cause(
                    name=CauseName.LOSS,
                    text=f"of outputs and labels, the reference's loss is {told[0]}, the "
                    f"candidate's {told[1]}",
                    numbers={"reference": known, "candidate": had},
                )
            ]
    return _multiple(known, had)


def _multiple(known: float, had: float) -> list[Cause]:
    """See whether the one loss is a whole number of times the other."""
    if not known or not had or not (math.isfinite(known) and math.isfinite(had)):
        return []
    ratio = had / known
    if not ratio:
        return []
    for times, words in (
        (ratio, "the candidate's loss is {} times the reference's"),
        (1 / ratio, "the reference's loss is {} times the candidate's"),
    ):
        whole = round(times) if math.isfinite(times) else 0
        if 1 < whole < LARGEST_FACTOR and math.isclose(times, whole, rel_tol=CLOSE):
            text = words.format(whole)
            return [
                Cause(
                    name=CauseName.LOSS,
                    text=f"{text}: a sum in place of a mean, or a scale (of accumulated steps, of "
                    "mixed precision) on one side only",
                    numbers={"factor": ratio},
                )
            ]
    return []


class _Entropy:
    """The cross-entropies that logits and labels may have."""

    def __init__(self, logits: Array, labels: Array) -> None:
        """Compute what all forms are made of.

        Args:
            logits: Shape (labels, classes), float64.
            labels: Shape (labels,), whole numbers; negative ones are ignored.
        """
        logits = logits - logits.max(axis=1, keepdims=True)
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        kept = np.flatnonzero(labels >= 0)
        self.total = len(labels)
        self.count = len(kept)
        self.sum = -float(logs[kept, labels[kept]].sum())
        self.even = -float(logs[kept].mean(axis=1).sum())
        """The same for labels that say nothing."""

    def told(self, loss: float) -> str | None:
        """Say in words what a loss is, None if it is no cross-entropy of these."""
        forms = {
            "the mean cross-entropy": self.sum / self.count,
            "the sum of the cross-entropies": self.sum,
        }
        if self.count < self.total:
            forms["the cross-entropy divided by all labels, ignored ones too"] = (
                self.sum / self.total
            )
        for words, value in forms.items():
            if math.isclose(loss, value, rel_tol=CLOSE):
                return words
        span = (self.even - self.sum) / self.count
        share = (loss - self.sum / self.count) / span if span else 0.0
        smoothing = round(share, DIGITS)
        if 0 < smoothing <= SMOOTH and math.isclose(share, smoothing, abs_tol=CLOSE):
            return f"the mean cross-entropy with label smoothing {smoothing:g}"
        return None


def _entropies(side: Side, budget: Budget) -> Iterator[_Entropy]:
    """Give the ways to read the outputs of a run and its labels as classes."""
    index = side.index
    outputs = [
        record
        for record in index.records
        if record.role is Role.OUTPUT and record.module == 0 and len(record.shape) > 1
    ]
    labels = [record for record in index.records if record.role is Role.NAMED]
    for output in outputs:
        for label in labels:
            if not (_is_whole(side, output) and _is_whole(side, label)):
                continue
            if not budget.grants(PASSES * math.prod(output.shape)):
                return
            logits, wanted = side.array(output), side.array(label)
            if is_floating(logits.dtype) and np.issubdtype(wanted.dtype, np.integer):
                yield from _read(logits.astype(np.float64), wanted)


def _is_whole(side: Side, record: RecordInfo) -> bool:
    value = None if record.value is None else side.index.values[record.value]
    return value is not None and value.content is Content.FULL and value.size <= MOST_ELEMENTS


def _read(logits: Array, labels: Array) -> Iterator[_Entropy]:
    """Take classes on the last axis, on axis 1, and of the next token."""
    ways = [(logits, labels), (np.moveaxis(logits, 1, -1), labels)]
    if labels.ndim > 1 and logits.shape[:-1] == labels.shape:
        ways.insert(1, (logits[:, :-1], labels[:, 1:]))
    for rows, wanted in ways:
        flat = wanted.reshape(-1)
        if rows.shape[:-1] != wanted.shape or not flat.size:
            continue
        is_class = (flat == IGNORED) | ((flat >= 0) & (flat < rows.shape[-1]))
        if is_class.all() and (flat >= 0).any() and np.isfinite(rows).all():
            yield _Entropy(rows.reshape(-1, rows.shape[-1]), flat)
