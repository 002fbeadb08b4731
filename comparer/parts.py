"""A folder that workers share with the process that asked: there they leave what they found.

Counts and origins travel, and where the rest lies. The process that asked reads the rest a step at
a time when it writes a report. It trusts a part by its digest, which travels.
"""

from __future__ import annotations

import hashlib
import pickle
import secrets
import weakref
from collections import OrderedDict
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from padiff.dumpfile import CompareError, ConfigError
from padiff.dumpfile.bulk import collector_paused
from padiff.dumpfile.scratch import scratch_folder

from .judgedpairs import JudgedPairs, nearest_place, packed, packed_pairs, sayings, unpacked
from .stored import Stored, StoredDivergences, StoredPairs, kept_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from pathlib import Path

    from .judgedpairs import PackedPairs, Saying
    from .result import Divergence, StepComparison
    from .tasks import StepResult

Thing = TypeVar("Thing", bound="Hashable")

_TOKEN = "token"
_DIGEST_BYTES = 16
_OPEN = 2
"""Parts that stay in memory: a report looks into one, and back into the one before."""
_LISTS = ("tree", "pairing", "calls", "records")
"""The long sequences of a step beside its pairs and divergences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The file of one part."""

    name: str
    size_bytes: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The long sequences of a step, packed each by itself."""

    pairs: tuple[int, bytes, PackedPairs]
    """How many; by place those that do not simply match; the others."""
    divergences: bytes
    lists: tuple[bytes, ...]
    """In the order of ``_LISTS``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepHead:
    """What travels of the long sequences of a step, which lie in the folder."""

    place: _Place
    counts: tuple[int, ...]
    """Of the pairs, the divergences, and of each of ``_LISTS``."""
    said: tuple[tuple[Saying, int], ...]
    """What a summary says of the pairs, and of how many."""
    nearest: tuple[float, int] | None
    kept: tuple[tuple[int, Divergence], ...]
    """Divergences that reports tell without looking into the part, by place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsFolder:
    """The folder as it travels to workers."""

    path: Path
    token: str
    """The content of a file in it, by which a worker knows that it sees the same folder."""

    def is_shared(self) -> bool:
        """Return whether this process sees the folder."""
        with suppress(OSError, ValueError):
            return (self.path / _TOKEN).read_text(encoding="ascii") == self.token
        return False

    def store(self, result: StepResult) -> StepResult:
        """Write the part of a step, and return what has to travel of it.

        All of it where there is no room, or no right to write. A task that runs twice writes
        twice: each part is a file of its own.
        """
        step = result.step
        data = pickle.dumps(_part_of(step), pickle.HIGHEST_PROTOCOL)
        path = self.path / secrets.token_hex(8)
        try:
            with path.open("xb") as file:
                file.write(data)
        except OSError:
            with suppress(OSError):
                path.unlink()
            return result
        place = _Place(name=path.name, size_bytes=len(data), digest=_digest(data))
        bare = replace(step, pairs=(), divergences=(), tree=(), pairing=(), calls=(), records=())
        return replace(result, step=bare, head=_head_of(step, place))


class Parts:
    """The folder in the process that asked. It is removed with the last step that lies in it."""

    def __init__(self, above: Path) -> None:
        """Make it.

        Raises:
            ConfigError: It cannot be made there.
        """
        exits = ExitStack()
        try:
            path = exits.enter_context(scratch_folder(above)).absolute()
            token = secrets.token_hex(16)
            (path / _TOKEN).write_text(token, encoding="ascii")
        except OSError as error:
            exits.close()
            raise ConfigError(
                f"cannot keep parts of reports in {str(above)!r}: {error.strerror or error}",
                hint="--parts takes a folder that is there and can be written",
            ) from error
        self.folder = PartsFolder(path=path, token=token)
        self._open: OrderedDict[str, _Opened] = OrderedDict()
        self._known: dict[object, Any] = {}
        """What heads of many ranks say alike, each once."""
        weakref.finalize(self, exits.close)

    def step(self, step: StepComparison, head: StepHead) -> StepComparison:
        """Return a step with long sequences that are read from its part."""
        pairs, divergences, *counts = head.counts
        read = partial(self._opened, head.place)
        tree, pairing, calls, records = (
            Stored(count, partial(_listed, read, name))
            for name, count in zip(_LISTS, counts, strict=True)
        )
        told: Sequence[Divergence] = ()
        if divergences:
            told = StoredDivergences(divergences, lambda: read().divergences(), dict(head.kept))
        return replace(
            step,
            coverage_reference=self._once(step.coverage_reference),
            coverage_candidate=self._once(step.coverage_candidate),
            pairs=StoredPairs(pairs, lambda: read().pairs(), self._once(head.said), head.nearest),
            divergences=cast("tuple[Divergence, ...]", told),
            tree=tree,
            pairing=pairing,
            calls=calls,
            records=records,
        )

    def _once(self, thing: Thing) -> Thing:
        found: Thing = self._known.setdefault(thing, thing)
        return found

    def _opened(self, place: _Place) -> _Opened:
        """Return a part, read again unless it is one of the last.

        Raises:
            CompareError: It is not there, or not what a worker wrote.
        """
        found = self._open.get(place.name)
        if found is None:
            found = _Opened(_read(self.folder.path / place.name, place))
            while len(self._open) >= _OPEN:
                self._open.popitem(last=False)
            self._open[place.name] = found
        self._open.move_to_end(place.name)
        return found


class _Opened:
    """A part in memory, unpacked as far as somebody looked."""

    def __init__(self, part: _Part) -> None:
        self._part = part
        self._found: dict[str, Any] = {}

    def pairs(self) -> JudgedPairs:
        """Return the judged pairs."""
        if "pairs" not in self._found:
            count, told, others = self._part.pairs
            self._found["pairs"] = JudgedPairs(count, dict(unpacked(told)), others)
        found: JudgedPairs = self._found["pairs"]
        return found

    def divergences(self) -> tuple[Divergence, ...]:
        """Return the divergences."""
        return self._unpacked("divergences", self._part.divergences)

    def list(self, name: str) -> tuple[Any, ...]:
        """Return another sequence of the step."""
        return self._unpacked(name, self._part.lists[_LISTS.index(name)])

    def _unpacked(self, name: str, data: bytes) -> tuple[Any, ...]:
        if name not in self._found:
            with collector_paused():
                self._found[name] = unpacked(data)
        found: tuple[Any, ...] = self._found[name]
        return found


def _listed(read: Callable[[], _Opened], name: str) -> Sequence[Any]:
    return read().list(name)


def _part_of(step: StepComparison) -> _Part:
    told, others = packed_pairs(step.pairs)
    return _Part(
        pairs=(len(step.pairs), packed(told.items()), others),
        divergences=packed(step.divergences),
        lists=tuple(packed(getattr(step, name)) for name in _LISTS),
    )


def _head_of(step: StepComparison, place: _Place) -> StepHead:
    lists: dict[str, Any] = {name: getattr(step, name) for name in _LISTS}
    sizes = map(len, (step.pairs, step.divergences, *lists.values()))
    return StepHead(
        place=place,
        counts=tuple(sizes),
        said=tuple(sayings([step]).items()),
        nearest=nearest_place(step.pairs),
        kept=tuple(kept_of(step.divergences).items()),
    )


def _read(path: Path, place: _Place) -> _Part:
    try:
        with path.open("rb") as file:
            data = file.read(place.size_bytes + 1)
    except OSError as error:
        raise _lost(path, f"found {error.strerror or error}") from error
    if len(data) != place.size_bytes:
        raise _lost(path, f"expected {place.size_bytes} bytes, found {len(data)}")
    if _digest(data) != place.digest:
        raise _lost(path, "expected what a worker wrote, found other bytes")
    with collector_paused():
        part: _Part = pickle.loads(data)
    return part


def _lost(path: Path, found: str) -> CompareError:
    return CompareError(
        f"cannot read a part of the result, {str(path)!r}: {found}",
        hint="compare again, and let nobody else write there; --parts names another folder",
    )


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
