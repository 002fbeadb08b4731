"""Choose the outputs that the default loss takes: those that the reference's loss takes, too.

A cache or a hidden state that only one author returns would change every gradient.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError, Role, is_floating, open_dump
from padiff.dumpfile.place import is_dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from padiff.dumpfile import JSON, Index

SETTING = "loss_outputs"
"""Entry of a manifest's settings."""
_PART = re.compile(r"\[(\d+)\]|\['([^']*)'\]|\.([^.\[]+)")
MOST_NAMES = 4
"""Outputs that a note names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A floating tensor that a model gives."""

    slot: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a loss takes of the outputs of a model."""

    taken: tuple[str, ...]
    """Slots."""
    left_out: tuple[str, ...] = ()
    """Slots that the model gives besides."""
    lacking: tuple[str, ...] = ()
    """Slots that the reference's loss takes and that this model has no counterpart of."""
    by_name: bool = False
    """Whether the user chose."""

    def settings(self) -> dict[str, JSON]:
        """Describe it for the manifest; nothing where the loss takes all that there is."""
        if not (self.left_out or self.lacking or self.by_name):
            return {}
        told: JSON = {
            "taken": list(self.taken),
            "left_out": list(self.left_out),
            "lacking": list(self.lacking),
            "by_name": self.by_name,
        }
        return {SETTING: told}

    def notes(self, reference: str) -> tuple[str, ...]:
        """Describe what was left out, and why."""
        lines = []
        if self.left_out:
            why = "as --outputs says" if self.by_name else f"which {reference!r} does not give"
            lines.append(
                f"loss: the mean of {_named(self.taken)}, without {_named(self.left_out)}, {why}"
            )
        if self.lacking:
            lines.append(
                f"loss: that of {reference!r} also takes {_named(self.lacking)}, which this model "
                "does not give: gradients are not comparable; name what both give with --outputs "
                "in both dumps"
            )
        return tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOutputs:
    """Which outputs the default loss takes."""

    names: tuple[str, ...] = ()
    """What the user chose; empty leaves it to the reference."""
    known: tuple[Output, ...] | None = None
    """What the reference's loss takes; None takes all that the model gives."""
    reference: str = ""
    """Name of its dump."""

    def choose(self, outputs: Sequence[Output]) -> Chosen:
        """Choose among the outputs of a model.

        Raises:
            ConfigError: A name that the user gave is none of them.
        """
        taken = [one.slot for one in outputs]
        if self.names:
            taken = self._by_name(outputs)
        pairs = self._pairs([one for one in outputs if one.slot in taken])
        if self.known is not None and not self.names and pairs:
            taken = [one.slot for one in outputs if one.slot in pairs.values()]
        lacking = () if self.known is None or not pairs else self.known
        return Chosen(
            taken=tuple(taken),
            left_out=tuple(one.slot for one in outputs if one.slot not in taken),
            lacking=tuple(one.slot for one in lacking if one.slot not in pairs),
            by_name=bool(self.names),
        )

    def _by_name(self, outputs: Sequence[Output]) -> list[str]:
        found: set[str] = set()
        for name in self.names:
            wanted = _parts(name if name[:1] in {"[", "."} else f".{name}")
            own = {one.slot for one in outputs if _parts(one.slot)[: len(wanted)] == wanted}
            if not own:
                have = ", ".join(".".join(_parts(one.slot)) for one in outputs) or "nothing"
                raise ConfigError(
                    f"cannot take the output {name!r} for the loss: the model gives no floating "
                    "tensor of that name",
                    hint=f"it gives {have}",
                )
            found |= own
        return [one.slot for one in outputs if one.slot in found]

    def _pairs(self, outputs: Sequence[Output]) -> dict[str, str]:
        """Pair the reference's slots with ours: by name, the others by shape, size and order."""
        known, left = list(self.known or ()), list(outputs)
        pairs: dict[str, str] = {}
        for is_partner in (_has_name_and_size, _has_shape, _has_size, _has_name):
            for one in [one for one in known if one.slot not in pairs]:
                other = next((other for other in left if is_partner(one, other)), None)
                if other is not None:
                    pairs[one.slot] = other.slot
                    left.remove(other)
        return pairs


def outputs_for(
    names: tuple[str, ...], sources: Iterable[Path | None], *, rank: int = 0
) -> LossOutputs:
    """Read what the loss of a reference takes.

    Args:
        names: What the user chose.
        sources: What a run reads from; the first that is a dump is the reference.
        rank: Whose first step is read, or the first rank that there is.

    Raises:
        DumpError: The dump cannot be read.
    """
    for source in sources:
        if source is not None and is_dump(source):
            dump = open_dump(source)
            places = sorted((info.step, info.rank) for info in dump.files)
            place = (0, rank) if (0, rank) in places else places[0]
            with dump.open(*place) as file:
                known = _outputs_of(file.index)
            told = dump.manifest.settings.get(SETTING)
            taken = told.get("taken") if isinstance(told, dict) else None
            if isinstance(taken, list):
                known = [one for one in known if one.slot in taken]
            return LossOutputs(names=names, known=tuple(known) or None, reference=source.name)
    return LossOutputs(names=names)


def common_outputs(reference: Path, candidate: Path) -> LossOutputs | None:
    """Read what a reference's loss may take so that the candidate's can take the same.

    Returns:
        None if the candidate lacks nothing of what the reference's loss took.

    Raises:
        DumpError: A dump cannot be read.
    """
    told = open_dump(candidate).manifest.settings.get(SETTING)
    lacking = told.get("lacking") if isinstance(told, dict) else None
    if not isinstance(lacking, list) or not lacking:
        return None
    known = outputs_for((), [reference]).known or ()
    left = tuple(one for one in known if one.slot not in lacking)
    return LossOutputs(known=left, reference=candidate.name)


def parse_names(text: str | Iterable[str] | None) -> tuple[str, ...]:
    """Read names with commas between, or several of them.

    Raises:
        ConfigError: There is none, or one is empty.
    """
    if text is None:
        return ()
    parts = text.split(",") if isinstance(text, str) else list(text)
    if not parts or not all(part.strip() for part in parts):
        raise ConfigError(
            f"cannot use the outputs {text!r}: expected names with commas between, such as logits"
        )
    return tuple(part.strip() for part in parts)


def _outputs_of(index: Index) -> list[Output]:
    """Return the floating outputs of the model's first call."""
    roots = [call.id for call in index.calls if call.parent is None]
    own = [one for one in roots if not index.modules[index.calls[one].module].path]
    root = next(iter(own or roots), None)
    return [
        Output(slot=record.slot, shape=record.shape)
        for record in index.records
        if record.call == root and record.role is Role.OUTPUT and record.value is not None
        if is_floating(index.values[record.value].dtype) and 0 not in record.shape
    ]


def _has_name_and_size(one: Output, other: Output) -> bool:
    return _has_name(one, other) and _has_size(one, other)


def _has_name(one: Output, other: Output) -> bool:
    return _parts(one.slot) == _parts(other.slot)


def _has_shape(one: Output, other: Output) -> bool:
    return one.shape == other.shape


def _has_size(one: Output, other: Output) -> bool:
    return math.prod(one.shape) == math.prod(other.shape)


def _parts(slot: str) -> tuple[str, ...]:
    """Return the parts of a slot without the kind of container; a bare tensor is the first part."""
    parts = tuple(next(filter(None, match), "0") for match in _PART.findall(slot))
    return parts or ("0",)


def _named(slots: Sequence[str]) -> str:
    names = [f"output{slot}" for slot in slots]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
