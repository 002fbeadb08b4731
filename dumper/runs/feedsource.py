"""What a reference dump has to feed to the calls of a candidate: values, read when they are due."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from padiff.dumpfile import ConfigError, Content, Role, open_dump
from padiff.pairing import kind_of, pair
from padiff.pairing.kinds import ACTIVATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from padiff.dumper.adapter import Array
    from padiff.dumpfile import Dump, RecordInfo, StepFile
    from padiff.pairing import MapFile, Rule, Side


class Place(NamedTuple):
    """Where in a step a tensor left a call."""

    path: str
    call: int
    slot: str

    def __str__(self) -> str:
        """Spell it like an address, without step and role."""
        call = f"#{self.call}" if self.call else ""
        return f"{self.path or '(root)'}{call}{self.slot}"


class Unfit(Exception):  # noqa: N818 -- a reason why a call runs unfed, never a user's error
    """Says why the reference has nothing for a tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFeed:
    """What one output of the candidate is made of."""

    sources: tuple[Place, ...]
    rule: Rule


@dataclass(slots=True)
class _Open:
    """The file of the step that is being fed, and where its records are."""

    file: StepFile
    outputs: dict[Place, RecordInfo] = field(default_factory=dict)
    gradients: dict[Place, RecordInfo] = field(default_factory=dict)


class FeedSource:
    """The outputs and gradients of a reference dump, by what they are to the candidate."""

    def __init__(self, reference: Path, *, rank: int = 0, steps: Iterable[int] = (0,)) -> None:
        """Open the dump.

        Args:
            reference: The dump to feed from.
            rank: The candidate's; the reference's first where it has no such rank.
            steps: What is going to be run.

        Raises:
            DumpError: The dump cannot be read.
            ConfigError: It lacks a step, or holds no values.
        """
        self._dump: Dump = open_dump(reference)
        self._name = str(reference)
        ranks = sorted({info.rank for info in self._dump.files})
        self._rank = rank if rank in ranks else ranks[0]
        have = {info.step for info in self._dump.files if info.rank == self._rank}
        lacking = [str(step) for step in steps if step not in have]
        if lacking:
            raise ConfigError(
                f"cannot feed from {self._name!r}: expected the steps that are run, found none of "
                f"number {', '.join(lacking[:5])}",
                hint="record the reference with the same --steps, or run fewer",
            )
        self._first = min(have)
        self._table: dict[Place, RecordedFeed] = {}
        self._open: _Open | None = None

    def learn(self, candidate: Side, map_file: MapFile | None = None) -> None:
        """Pair the calls of a run of the candidate with those of the reference's first step.

        Raises:
            ConfigError: No output of the two is paired, or the reference holds digests only.
        """
        with self._dump.open(self._first, self._rank) as known:
            values = known.index.values
            fed = {one.value for one in known.index.records} - {None}
            if any(values[value].content is not Content.FULL for value in fed if value is not None):
                raise ConfigError(
                    f"cannot feed from {self._name!r}: it holds digests and statistics only",
                    hint='record the reference with content="full"',
                )
            for one in pair(known, candidate, map_file=map_file, explains_unmatched=False).records:
                record = candidate.index.records[one.candidate]
                records = [known.index.records[place] for place in one.reference]
                is_output = record.role is Role.OUTPUT and record.call is not None
                if is_output and not _are_exchanged((known, records[0]), (candidate, record)):
                    places = tuple(_place(known, source) for source in records)
                    self._table[_place(candidate, record)] = RecordedFeed(
                        sources=places, rule=one.rule
                    )
        if not self._table:
            raise ConfigError(
                f"cannot feed from {self._name!r}: none of its outputs has a counterpart"
            )

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """Open the file of one step while the block runs it."""
        with self._dump.open(number, self._rank) as file:
            self._open = _Open(file)
            for record in file.index.records:
                if record.call is not None and record.value is not None:
                    if record.role is Role.OUTPUT:
                        self._open.outputs[_place(file, record)] = record
                    elif record.role is Role.GRAD_OUTPUT:
                        self._open.gradients[_place(file, record)] = record
            try:
                yield
            finally:
                self._open = None

    def output(self, place: Place, shape: Sequence[int]) -> Array:
        """Return what the reference has in the place of an output.

        Raises:
            Unfit: It has nothing there, or nothing of that shape.
        """
        feed = self._table.get(place)
        if feed is None:
            raise Unfit("no partner")
        return self._serve({} if self._open is None else self._open.outputs, feed, shape)

    def gradient(self, place: Place, shape: Sequence[int]) -> Array | None:
        """Return the reference's gradient of an output, None if it recorded none."""
        feed = self._table.get(place)
        if feed is None or self._open is None:
            return None
        try:
            return self._serve(self._open.gradients, feed, shape)
        except Unfit:
            return None

    def has_gradient(self, place: Place) -> bool:
        """Return whether the reference recorded the gradient of an output."""
        feed = self._table.get(place)
        return (
            feed is not None
            and self._open is not None
            and all(source in self._open.gradients for source in feed.sources)
        )

    def _serve(
        self, known: dict[Place, RecordInfo], feed: RecordedFeed, shape: Sequence[int]
    ) -> Array:
        if self._open is None or any(source not in known for source in feed.sources):
            raise Unfit("the reference did not record its partner in this step")
        records = [known[source] for source in feed.sources]
        shapes, target = [record.shape for record in records], tuple(shape)
        if not feed.rule.fits(shapes, target):
            there = " and ".join(map(str, shapes))
            raise Unfit(f"shape {target}, the reference has {there}")
        arrays = [self._open.file.array(record) for record in records]
        return feed.rule.apply(arrays, target).copy()


def _are_exchanged(*ends: tuple[Side, RecordInfo]) -> bool:
    """Return whether two outputs are those of activations of different kinds.

    Such a call runs unfed, so that what is around it shows what it did.
    """
    kinds = {kind_of(side.index.modules[record.module]) for side, record in ends}
    return len(kinds) > 1 and kinds <= ACTIVATIONS


def _place(side: Side, record: RecordInfo) -> Place:
    call = side.index.calls[record.call or 0]
    return Place(side.index.modules[record.module].path, call.index, record.slot)
