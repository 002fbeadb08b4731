"""What is compared with what: rank with rank, or all ranks of a step with all of the other side.

Ranks are taken together where the two dumps have other ranks, or lie over other meshes.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from padiff.dumpfile import CompareError, Mode, Role
from padiff.pairing import learn_partners

from .joining import join, keys_of, roots_of
from .knownlayout import Turn
from .layouts import Layouts
from .logicalstep import LogicalStep

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from padiff.dumpfile import Dump, Index, StepFile, StepReader
    from padiff.pairing import MapFile, RanksEntry, RunPartners

    from .joining import Key
    from .layouts import Target

_MOST_RANKS = 1 << 20
"""More than that no run has, whatever a manifest says."""
_MOST_NAMED = 8
"""Ranks that are named in a message."""

Place = tuple[int, int]
Shape = tuple[int, ...]


class Sides:
    """Both dumps, and which of their ranks are taken together."""

    def __init__(
        self,
        reference: Dump,
        candidate: Dump,
        entries: Sequence[RanksEntry],
        *,
        by_rank: bool = False,
        joined: tuple[bool, ...] | None = None,
    ) -> None:
        """Decide how they are compared.

        Args:
            reference: The dump held to be right.
            candidate: The dump to judge.
            entries: What the user says of layouts.
            by_rank: Whether ranks were asked for one by one.
            joined: What was decided already; None decides.
        """
        self.dumps = reference, candidate
        self._entries = entries
        self.used_entries: set[str] = set()
        self.joined = self._decided(by_rank=by_rank) if joined is None else joined
        """Of each side, whether its ranks are taken together."""

    def _decided(self, *, by_rank: bool) -> tuple[bool, ...]:
        ranks = tuple({info.rank for info in dump.files} for dump in self.dumps)
        meshes = tuple(set(dump.manifest.meshes) for dump in self.dumps)
        is_logical = not by_rank and (
            ranks[0] != ranks[1] or meshes[0] != meshes[1] or self._lie_otherwise()
        )
        return tuple(is_logical and len(one) > 1 for one in ranks)

    @property
    def is_logical(self) -> bool:
        """Whether ranks of either side are taken together."""
        return any(self.joined)

    def places(self, which: int) -> set[Place]:
        """Return the (step, rank) of a side; of ranks that are taken together the rank is 0."""
        files = self.dumps[which].files
        is_joined = self.is_logical
        return {(info.step, 0 if is_joined else info.rank) for info in files}

    def notes(self, used: Collection[str]) -> Iterator[str]:
        """Yield what the user said of layouts to no effect."""
        for entry in self._entries:
            if entry.name not in used:
                why = (
                    "named no record"
                    if self.is_logical
                    else "had no effect: ranks are compared one by one"
                )
                yield f"the layout {entry.name} {why}"

    def partners(self, place: Place, map_file: MapFile | None) -> RunPartners:
        """Learn the partners of a rank from its first step, unless that is the place."""
        both = self.places(0) & self.places(1)
        loaded = self.dumps[1].loaded_weights
        return learn_partners(self.open, both, [place], loaded=loaded, map_file=map_file)

    @contextmanager
    def open(self, place: Place) -> Iterator[tuple[StepReader, StepReader]]:
        """Open a step of both sides."""
        with ExitStack() as exits:
            if not self.is_logical:
                known = exits.enter_context(self.dumps[0].open(*place))
                yield known, exits.enter_context(self.dumps[1].open(*place, like=known))
                return
            files = [
                open_ranks(dump, place[0], exits, is_whole=is_joined)
                for dump, is_joined in zip(self.dumps, self.joined, strict=True)
            ]
            one, other = self._read(files)
            yield one, other

    def _read(self, files: Sequence[dict[int, StepFile]]) -> tuple[StepReader, StepReader]:
        """Find the layouts of both sides, each by the shapes of the other, and join the ranks."""
        targets: list[Target] = []
        found: list[Layouts | None] = []
        indexes = [{rank: file.index for rank, file in side.items()} for side in files]
        runs = [len(roots_of(next(iter(side.values())))) for side in indexes]
        for which, (side, dump) in enumerate(zip(files, self.dumps, strict=True)):
            if not self.joined[which]:
                targets.append(_shapes_of(next(iter(indexes[which].values()))).get)
                found.append(None)
                continue
            several = runs[which] > runs[1 - which] == 1
            layouts = layouts_of(dump, side, self._entries, has_microbatches=several)
            found.append(layouts)
            targets.append(_target_of(layouts))
        for turn in Turn:
            _find(found, targets, turn)
        readers: list[StepReader] = []
        for side, one in zip(files, found, strict=True):
            if one is None:
                readers.append(next(iter(side.values())))
            else:
                self.used_entries |= one.used_entries
                readers.append(LogicalStep(side, one.step, one))
        return readers[0], readers[1]

    def _lie_otherwise(self) -> bool:
        """Return whether records of the first step lie in other ways on the two sides."""
        steps = [{info.step for info in dump.files} for dump in self.dumps]
        ranks = {info.rank for info in self.dumps[0].files}
        common = steps[0] & steps[1]
        if not common or len(ranks) == 1:
            return False
        place = min(common), min(ranks)
        with ExitStack() as exits:
            sides = [exits.enter_context(dump.open(*place)) for dump in self.dumps]
            told = [_forms_of(side.index) for side in sides]
        return any(told[0][key] != told[1][key] for key in told[0].keys() & told[1].keys())


def open_ranks(
    dump: Dump, step: int, exits: ExitStack, *, is_whole: bool = True
) -> dict[int, StepFile]:
    """Open the files of all ranks of a step.

    Raises:
        CompareError: Ranks are missing.
    """
    if is_whole:
        _check_ranks(dump, step)
    files: dict[int, StepFile] = {}
    for info in dump.files:
        if info.step == step:
            like = next(iter(files.values()), None)
            files[info.rank] = exits.enter_context(dump.open(step, info.rank, like=like))
    return files


def layouts_of(
    dump: Dump,
    files: Mapping[int, StepFile],
    entries: Sequence[RanksEntry] = (),
    *,
    has_microbatches: bool = False,
) -> Layouts:
    """Join the ranks of a step, and begin to find how their records known."""
    indexes = {rank: file.index for rank, file in files.items()}
    return Layouts(
        step=join(indexes, has_microbatches=has_microbatches),
        framework=dump.manifest.framework,
        meshes=dump.manifest.meshes,
        entries=entries,
        distributed=_distributed(next(iter(files.values()))),
    )


def _find(sides: Sequence[Layouts | None], targets: Sequence[Target], turn: Turn) -> None:
    """Find layouts of both sides, each by the shapes of the other."""
    reference, candidate = sides
    for is_final in (False, False, True):
        for side, target in zip(sides, reversed(targets), strict=True):
            if side is not None:
                side.find(target, turn, is_final=is_final)
        if reference is not None and candidate is not None and not is_final:
            _find_together(reference, candidate, turn)


def _find_together(reference: Layouts, candidate: Layouts, turn: Turn) -> None:
    """Find layouts of what both sides split by hand: the only shape that both may make.

    Parts of the same shapes on as many ranks are cut alike, whichever way, and compared as such.
    """
    sides = reference, candidate
    for key in [record.key for record in reference.left(turn)]:
        wholes = [side.wholes(key) for side in sides]
        common = wholes[0] & wholes[1]
        if len(common) == 1:
            for side in sides:
                side.find_one(key, next(iter(common)))
        elif common and () not in common and reference.parts(key) == candidate.parts(key):
            if any(side.is_equal(key) for side in sides):
                continue  # replicas
            for side in sides:
                side.take_along(key)


def _distributed(file: StepFile) -> frozenset[str]:
    """Return the digests of what operators on distributed tensors made."""
    program = file.program()
    if program is None:
        return frozenset()
    values = file.index.values
    found: set[str] = set()
    ends = program.operator_outputs.cumsum().tolist()
    for mode, start, end in zip(program.operator_mode.tolist(), [0, *ends], ends, strict=False):
        if mode & Mode.SPREAD:
            contents = program.value_content[program.outputs[start:end]].tolist()
            found.update(values[one].digest for one in contents if one >= 0)
    return frozenset(found)


def _forms_of(index: Index) -> dict[Key, object]:
    """Return how records lie as far as one rank tells; of plain tensors how large they are.

    Activations are left out: a port may make them otherwise.
    """
    roots = {call.id for call in index.calls if call.parent is None}
    found: dict[Key, object] = {}
    for key, record in zip(keys_of(index), index.records, strict=True):
        if record.layout is not None:
            found[key] = record.layout.placements
        elif record.role is Role.WEIGHT or (record.role is Role.INPUT and record.call in roots):
            found[key] = math.prod(record.shape)
    return found


def _shapes_of(index: Index) -> dict[Key, Shape]:
    return {key: record.shape for key, record in zip(keys_of(index), index.records, strict=True)}


def _target_of(layouts: Layouts) -> Callable[[Key], Shape | None]:
    """Return what looks up the shape of a whole, as far as its layout is known."""

    def shape(key: Key) -> Shape | None:
        known = layouts.found.get(key)
        return None if known is None else known.layout.shape

    return shape


def _check_ranks(dump: Dump, step: int) -> None:
    """Refuse a step that lacks ranks of the run or of a mesh.

    Raises:
        CompareError: It does.
    """
    told = dump.manifest.settings.get("ranks")
    expected = {info.rank for info in dump.files}
    if isinstance(told, int) and not isinstance(told, bool):
        expected |= set(range(min(told, _MOST_RANKS)))
    expected |= {rank for mesh in dump.manifest.meshes for rank in mesh.ranks}
    lacking = sorted(expected - {info.rank for info in dump.files if info.step == step})
    if lacking:
        listed = ", ".join(map(str, lacking[:_MOST_NAMED])) + (
            " …" if lacking[_MOST_NAMED:] else ""
        )
        raise CompareError(
            f"cannot take the ranks of {str(dump.path)!r} as one side: step {step} lacks "
            f"{'rank' if len(lacking) == 1 else 'ranks'} {listed} of {len(expected)}",
            hint="copy the whole dump; `--rank` compares single ranks with each other",
        )
