"""Leave out phases that one side did not record, or of another loss: no gradient was cut off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .lossoutputs import LossOutputs

if TYPE_CHECKING:
    from padiff.dumpfile import Index, Manifest, RecordInfo
    from padiff.pairing import Pairing

__all__ = ["leave_unrecorded"]

NOTE = "the backward phase is not compared: only the {side} recorded it"
NO_LOSS = "loss and backward phase are not compared: only the {side} recorded them"
LATER = frozenset({Phase.BACKWARD, Phase.UPDATE})
"""What a run that ends with the forward pass lacks."""
OTHER_LOSS = (
    "loss and backward phase are not compared: the loss of the {side} takes outputs that the other "
    "does not give"
)
NO_GRADIENT = "no backward pass: "
"""How a note of a run begins that wanted a backward pass and found nothing to differentiate."""


def leave_unrecorded(
    pairing: Pairing, indexes: tuple[Index, Index], manifests: tuple[Manifest, Manifest]
) -> Pairing:
    """Drop the gradients and updates of a step of which one side recorded the forward pass alone.

    And those of two different losses, as the manifests say: of outputs that one side lacks.

    Args:
        pairing: What of the one is what of the other.
        indexes: The reference's and the candidate's.
        manifests: Of both dumps.
    """
    lacking = [
        _ends_with_forward(index, manifest)
        for index, manifest in zip(indexes, manifests, strict=True)
    ]
    note = _other_loss(manifests)
    left_out = frozenset({Role.LOSS}) if note else frozenset()
    if not note and lacking[0] is not lacking[1] and _has_later(indexes[lacking[0]]):
        side = "candidate" if lacking[0] else "reference"
        note = NOTE.format(side=side)
        if _has_loss(indexes[lacking[0]]) and not _has_loss(indexes[lacking[1]]):
            note, left_out = NO_LOSS.format(side=side), frozenset({Role.LOSS})
    if not note:
        return pairing

    def stays(record: RecordInfo) -> bool:
        return not _is_later(record) and record.role not in left_out

    return replace(
        pairing,
        records=tuple(
            pair for pair in pairing.records if stays(indexes[1].records[pair.candidate])
        ),
        unmatched=tuple(
            alone
            for alone in pairing.unmatched
            if stays(indexes[alone.side == "candidate"].records[alone.record])
        ),
        notes=(*pairing.notes, note),
    )


def _other_loss(manifests: tuple[Manifest, Manifest]) -> str:
    """Say whose loss takes outputs that the other model lacks; nothing if neither does."""
    known, found = map(LossOutputs.read, manifests)
    if found.lacking - known.left_out:
        return OTHER_LOSS.format(side="reference")
    return OTHER_LOSS.format(side="candidate") if known.lacking - found.left_out else ""


def _ends_with_forward(index: Index, manifest: Manifest) -> bool:
    """Return whether no backward pass ran, though what the model gave could have had one.

    Or though gradients were switched off around the whole run: then no output wants one.
    """
    if _has_later(index) or any(note.startswith(NO_GRADIENT) for note in manifest.notes):
        return False
    wanting = [
        record.call
        for record in index.records
        if record.requires_grad and record.role is Role.OUTPUT and record.call is not None
    ]
    return not wanting or any(index.calls[call].parent is None for call in wanting)


def _has_later(index: Index) -> bool:
    return any(_is_later(record) for record in index.records)


def _has_loss(index: Index) -> bool:
    return any(record.role is Role.LOSS for record in index.records)


def _is_later(record: RecordInfo) -> bool:
    """Return whether no forward pass makes it; buffers after the step are left by one, too."""
    return record.phase in LATER and record.role is not Role.BUFFER
