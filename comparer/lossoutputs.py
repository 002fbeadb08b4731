"""Outputs that the default loss of a dump left out, as only one of the two models gives them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing import SideName

from .judgedpairs import remarkable, replaced
from .result import Verdict

if TYPE_CHECKING:
    from padiff.dumpfile import Index, Manifest
    from padiff.pairing import Pairing

    from .judging.judge import Judgement

__all__ = ["LossOutputs", "excuse_left_out"]

SETTING = "loss_outputs"
"""Entry of a manifest's settings (``padiff.dumper.runs.outputs``)."""
ROLES = frozenset({Role.OUTPUT, Role.GRAD_OUTPUT})


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutputs:
    """What a dump says of the outputs that its loss takes; slots of the model's result."""

    left_out: frozenset[str] = frozenset()
    """Given by the model, and not taken."""
    lacking: frozenset[str] = frozenset()
    """Taken by the reference's loss, and not given by the model."""

    @classmethod
    def read(cls, manifest: Manifest) -> LossOutputs:
        """Read it from a manifest; what is not as padiff writes it counts as nothing."""
        told = manifest.settings.get(SETTING)
        lists = told if isinstance(told, dict) else {}
        found = [lists.get(name) for name in ("left_out", "lacking")]
        slots = [
            frozenset(map(str, one)) if isinstance(one, list) else frozenset() for one in found
        ]
        return cls(left_out=slots[0], lacking=slots[1])


def excuse_left_out(
    judgement: Judgement,
    pairing: Pairing,
    indexes: tuple[Index, Index],
    manifests: tuple[Manifest, Manifest],
) -> Judgement:
    """Skip outputs of one model alone which the loss left out.

    What the reference gives and the candidate does not is skipped only if it is judged inside: a
    cache, a hidden state.

    Args:
        judgement: All verdicts.
        pairing: What they are about.
        indexes: The reference's and the candidate's.
        manifests: Of both dumps.
    """
    told = [LossOutputs.read(manifest) for manifest in manifests]
    if not any(one.left_out or one.lacking for one in told):
        return judgement
    elsewhere = {
        (alone.side, alone.record): alone.elsewhere
        for alone in pairing.unmatched
        if alone.elsewhere
    }
    skipped = {}
    for place, pair in remarkable(judgement.pairs):
        if pair.verdict is not Verdict.MISSING:
            continue
        known, other = judgement.records[place]
        side = 0 if other is None else 1
        record = known[0] if other is None else other
        slot = _root_slot(indexes[side], record)
        name = (SideName.REFERENCE, SideName.CANDIDATE)[side]
        where = elsewhere.get((name, record), "")
        is_lacking = slot in told[1 - side].lacking
        if where if is_lacking else slot in told[side].left_out:
            reason = f"the loss leaves it out: only the {name} gives it"
            skipped[place] = replace(pair, verdict=Verdict.SKIPPED, fatal=False, reason=reason)
    return replace(judgement, pairs=replaced(judgement.pairs, skipped))


def _root_slot(index: Index, record: int) -> str | None:
    """Return the slot of an output of the whole model, or of its gradient."""
    found = index.records[record]
    is_root = found.call is not None and index.calls[found.call].parent is None
    return found.slot if is_root and found.role in ROLES else None
