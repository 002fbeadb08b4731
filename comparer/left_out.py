"""What is left out of a comparison: what the user did not ask for, or a side did not record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role
from padiff.pairing import SideName

from .judgedpairs import picked, remarkable, replaced
from .locating.locate import Located
from .result import Divergence, Kind, Verdict
from .selection import named_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.dumpfile import Index, Manifest, RecordInfo
    from padiff.pairing import Pairing

    from .judging.judge import Judgement
    from .settings import CompareSettings

EARLIER = "the {phase} pass diverged first, at {place}: run without --phase"
_PHASES = tuple(Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """Which records of one side are wanted."""

    index: Index
    wanted: frozenset[int]
    """Module ids."""
    phases: frozenset[Phase]

    def holds(self, record: int) -> bool:
        """Return whether a record is wanted."""
        found = self.index.records[record]
        return found.module in self.wanted and found.phase in self.phases


def narrow(
    pairing: Pairing, reference: Index, candidate: Index, settings: CompareSettings
) -> Pairing:
    """Keep the pairs of which either side is wanted, and the unmatched records that are.

    The phases before a wanted one stay: what diverged there explains what diverges here.
    ``exclude`` wins over ``include``; both take a module with all that is inside it.
    """
    if not (settings.include or settings.exclude or settings.phases is not None):
        return pairing
    sides = _select(reference, settings), _select(candidate, settings)
    excluded = _excluded(reference, settings), _excluded(candidate, settings)
    records = tuple(
        pair
        for pair in pairing.records
        if (any(map(sides[0].holds, pair.reference)) or sides[1].holds(pair.candidate))
        and not any(reference.records[place].module in excluded[0] for place in pair.reference)
        and candidate.records[pair.candidate].module not in excluded[1]
    )
    unmatched = tuple(
        alone for alone in pairing.unmatched if sides[alone.side == "candidate"].holds(alone.record)
    )
    return replace(pairing, records=records, unmatched=unmatched)


def reported(
    judgement: Judgement, located: Located, phases: Sequence[Phase] | None
) -> tuple[Judgement, Located, tuple[str, ...]]:
    """Leave out the phases that were judged only to explain those that are wanted.

    Args:
        judgement: The verdicts of all phases up to the last wanted one.
        located: The same pairs with their kinds, and the divergences.
        phases: The wanted ones; None wants all.

    Returns:
        Verdicts and divergences of the wanted phases, and notes. If a phase before them diverged
        first, the first divergence that is left says so, or a note if none is left.
    """
    if phases is None:
        return judgement, located, ()
    places = [
        place for place, pair in enumerate(located.pairs) if pair.end.address.phase in set(phases)
    ]
    pairs = tuple(picked(located.pairs, places))
    divergences = [found for found in located.divergences if found.phase in phases]
    first = next((one for one in located.divergences if one.kind is Kind.ORIGIN), None)
    line = "" if first is None or first.phase in phases else _earlier(first)
    notes = (line,) if line and not divergences else ()
    if line and divergences:
        at = next((at for at, one in enumerate(divergences) if one.kind is Kind.ORIGIN), 0)
        shown = divergences[at]
        divergences[at] = replace(shown, evidence=(line, *shown.evidence))
    records = tuple(judgement.records[place] for place in places)
    return (
        replace(judgement, pairs=pairs, records=records),
        Located(divergences=tuple(divergences), pairs=pairs),
        notes,
    )


def _earlier(first: Divergence) -> str:
    """Name the origin in a phase that is not reported."""
    address = first.pair.end.address
    place = (address.module or "(root)") + (f"#{address.call}" if address.call else "")
    return EARLIER.format(phase=first.phase, place=f"{place} {address.role}{address.slot}")


def _select(index: Index, settings: CompareSettings) -> _Selection:
    included = (
        named_modules(index, settings.include) if settings.include else range(len(index.modules))
    )
    wanted = frozenset(included) - _excluded(index, settings)
    last = max(map(_PHASES.index, settings.phases or _PHASES))
    return _Selection(index=index, wanted=wanted, phases=frozenset(_PHASES[: last + 1]))


def _excluded(index: Index, settings: CompareSettings) -> frozenset[int]:
    return named_modules(index, settings.exclude)


NOTE = "the backward phase is not compared: only the {side} recorded it"
NO_LOSS = "loss and backward phase are not compared: only the {side} recorded them"
LATER = frozenset({Phase.BACKWARD, Phase.UPDATE})
"""What a run that ends with the forward pass lacks."""
OTHER_LOSS = (
    "loss and backward phase are not compared: the loss of the {side} takes outputs that the other "
    "does not give"
)
OTHER_PASSES = (
    "losses are not compared, only the gradients of their sum: the reference has {} of them, "
    "the candidate {}"
)
NO_GRADIENT = "no backward pass: "
"""How a note of a run begins that wanted a backward pass and found nothing to differentiate."""


def leave_unrecorded(
    pairing: Pairing, indexes: tuple[Index, Index], manifests: tuple[Manifest, Manifest]
) -> Pairing:
    """Drop the gradients and updates of a step of which one side recorded the forward pass alone.

    And those of two different losses, as the manifests say: of outputs that one side lacks. Where
    one side runs as many backward passes as it has losses, and the other one of their sum, no loss
    has a partner.

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
    counts = [sum(map(_is_loss, index.records)) for index in indexes]
    if not note and all(counts) and counts[0] != counts[1]:
        return _without(pairing, indexes, OTHER_PASSES.format(*counts), _is_loss)
    if not note:
        return pairing
    return _without(
        pairing, indexes, note, lambda record: _is_later(record) or record.role in left_out
    )


def _without(
    pairing: Pairing,
    indexes: tuple[Index, Index],
    note: str,
    is_left_out: Callable[[RecordInfo], bool],
) -> Pairing:
    """Drop records of both sides, and say so."""

    def stays(record: RecordInfo) -> bool:
        return not is_left_out(record)

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
    """Describe whose loss takes outputs that the other model lacks; nothing if neither does."""
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
        record
        for record in index.records
        if record.requires_grad and record.role is Role.OUTPUT and record.call is not None
    ]
    return not wanting or any(map(index.is_root, wanting))


def _has_later(index: Index) -> bool:
    return any(_is_later(record) for record in index.records)


def _has_loss(index: Index) -> bool:
    return any(map(_is_loss, index.records))


def _is_loss(record: RecordInfo) -> bool:
    return record.role is Role.LOSS


def _is_later(record: RecordInfo) -> bool:
    """Return whether no forward pass makes it; buffers after the step are left by one, too."""
    return record.phase in LATER and record.role is not Role.BUFFER


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
    return found.slot if index.is_root(found) and found.role in ROLES else None
