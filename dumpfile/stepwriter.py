"""Writes the file of one step and rank: stores tensors in a thread, then the index."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from .arena import Arena
from .bulk import collector_paused
from .columns import PoolsBuilder
from .errors import DumpError, write_error
from .hdf5sink import HDF5Sink
from .indexcodec import TABLES, encode_index
from .keep import Keep
from .lock import Owner
from .programcolumns import encode_program
from .schema import CallInfo, Content, Draw, FileInfo, Layout, Mesh, ModuleInfo, ValueInfo
from .valuestore import Stored, ValueStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from .address import Phase, Role
    from .dtypes import Array
    from .programbuilder import ProgramBuilder

_EVERYTHING = Keep()


class StepWriter:
    """Writes one step of one rank. Made by ``DumpWriter.step``; use it as a context manager.

    ``store`` does not wait for the disk as long as there is room: writing happens in a thread, and
    what that could not do surfaces as DumpWriteError at the next ``store``, ``flush`` or ``close``.
    All other methods belong to one thread.
    """

    def __init__(  # noqa: PLR0913
        self,
        path: Path,
        *,
        relative: str,
        step: int,
        rank: int,
        compression: int | None = None,
        content: Keep = _EVERYTHING,
        arena: Arena | None = None,
        shown: str | None = None,
        finished: Callable[[FileInfo, Sequence[Mesh]], None] = lambda info, meshes: None,
    ) -> None:
        """Create the file.

        Args:
            path: Where it will stand when it is whole; until then it has a hidden name.
            relative: The same, relative to the dump.
            step: Iteration.
            rank: Index of the process.
            compression: Level of deflate, None for none.
            content: What ``store`` writes unless it is told otherwise.
            arena: Where elements wait to be written; None makes one.
            shown: The path as the user knows it, for messages; None takes ``path``.
            finished: Called once by ``close`` with the description of the whole file, and the
                meshes of its records.

        Raises:
            DumpWriteError: The file cannot be created.
        """
        self._path, self._relative, self._shown = path, relative, shown or str(path)
        self._step, self._rank = step, rank
        self._finished = finished
        self._keep = content
        self._partial = path.with_name(f".{path.name}.partial")
        self._modules: list[ModuleInfo] = []
        self._calls: dict[int, CallInfo] = {}
        self._draws: tuple[Draw, ...] | None = None
        self._program: ProgramBuilder | None = None
        self._records: list[list[Any]] = []
        self._layouts: dict[Layout, int] = {}
        self._spread: list[tuple[int, int]] = []
        self._addresses: dict[tuple[Any, ...], int] = {}
        self._is_closed = False
        self._owner = Owner()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._sink = HDF5Sink(self._partial, compression=compression)
        except (OSError, RuntimeError) as error:
            raise write_error(f"create {self._shown!r}", error) from error
        self._store = ValueStore(
            self._sink,
            arena or Arena(),
            content,
            thread_name=f"padiff-writer-{step}-{rank}",
            shown=self._shown,
        )
        self.store_bytes = self._store.store_bytes
        """Stores a small tensor that was copied already; raises as ``store`` does."""

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file, or remove it if an error is passing through."""
        if error is None:
            self.close()
        else:
            self.abandon()

    def add_modules(self, modules: Sequence[ModuleInfo]) -> None:
        """Add rows to the table of modules; ids must go on from those already there."""
        self._modules.extend(modules)

    def add_call(self, call: CallInfo) -> None:
        """Add a call, or replace the one with the same id (to state its end).

        Raises:
            ValueError: An id was left out.
        """
        if call.id > len(self._calls):
            raise ValueError(f"expected call {len(self._calls)} or an earlier one, found {call.id}")
        self._calls[call.id] = call

    def add_draws(self, draws: Iterable[Draw]) -> None:
        """State where random numbers were drawn; an empty list says that none were."""
        self._draws = (*(self._draws or ()), *draws)

    def add_program(self, program: ProgramBuilder | None) -> None:
        """State which operators ran; written by ``close``, as it is by then. None writes none."""
        self._program = program

    @property
    def inner_content(self) -> Content:
        """How much is written of what operators make between modules."""
        return self._keep.content if self._keep.operators else self.at_most(Content.STATS)

    @property
    def leaf_content(self) -> Content:
        """How much is written of what no operator made and no candidate has: inputs, constants."""
        return Content.FULL if self._keep.program else self._keep.content

    def at_most(self, content: Content | None) -> Content:
        """Return how much is written of a value of which somebody wants so much.

        Args:
            content: What is wanted; None wants as much as this file keeps of most values.
        """
        if content is None:
            return self._keep.content
        most = self.leaf_content
        return most if most.rank < content.rank else content

    def store(
        self,
        array: Array,
        *,
        content: Content | None = None,
        arrival: Callable[[], object] | None = None,
    ) -> Stored:
        """Store a tensor's elements as they are now; they may change once this returns.

        Args:
            array: Any shape and any dtype that a dump can hold.
            content: How much of it to write; None as this file does.
            arrival: Returns once the elements are there, if they are not yet; called in the
                thread. The array is the writer's own then.

        Raises:
            DumpWriteError: Something stored earlier could not be written.
            RecordError: Dumps cannot hold the dtype.
        """
        stored = self._store.store(array, content, arrival)
        if self._store.queue.error is not None:
            self._store.raise_error()
        return stored

    def deepen(self, stored: Stored, content: Content) -> bool:
        """Keep more of a value than was wanted when it was stored, if that can still be done.

        Args:
            stored: What ``store`` returned.
            content: How much of it to write.

        Returns:
            Whether that is settled; else its tensor must be stored again.
        """
        return self._store.deepen(stored, content)

    def add_record(  # noqa: PLR0913
        self,
        *,
        module: int,
        call: int | None,
        phase: Phase,
        role: Role,
        slot: str,
        order: int,
        shape: tuple[int, ...],
        value: Stored | None,
        requires_grad: bool = False,
        tensor: int | None = None,
        layout: Layout | None = None,
    ) -> int:
        """Add a record; see ``RecordInfo`` for the fields.

        What comes again at the same address, as a loss that is recorded twice in a step, gets
        ``@2``, ``@3`` … at the end of its slot.

        Returns:
            Its id.
        """
        slot = self._distinct((module, call, phase, role), slot)
        record = [module, call, phase, role, slot, order, shape, value, requires_grad, tensor]
        self._records.append(record)
        if layout is not None:
            number = self._layouts.setdefault(layout, len(self._layouts))
            self._spread.append((len(self._records) - 1, number))
        return len(self._records) - 1

    def _distinct(self, owner: tuple[int, int | None, Phase, Role], slot: str) -> str:
        address = (*owner, slot)
        before = self._addresses.get(address, 0)
        self._addresses[address] = before + 1
        return slot if not before else self._distinct(owner, f"{slot}@{before + 1}")

    def flush(self) -> None:
        """Wait until everything stored is known by value.

        Raises:
            DumpWriteError: Something could not be written.
        """
        self._store.flush()
        self._store.raise_error()

    def close(self) -> None:
        """Write what is left and the index, and give the file its name.

        Raises:
            DumpWriteError: Something could not be written; the file is gone then.
        """
        if self._is_closed:
            return
        self._store.stop()
        try:
            self._store.raise_error()
            with collector_paused():
                self._write_tables(self._store.finish())
            contents = self._sink.write_contents()
            size_bytes = self._sink.close()
            self._partial.rename(self._path)
        except (OSError, RuntimeError) as error:
            self.abandon()
            if isinstance(error, DumpError):
                raise
            raise write_error(f"write {self._shown!r}", error) from error
        self._is_closed = True
        self._finished(
            FileInfo(
                step=self._step,
                rank=self._rank,
                path=self._relative,
                size_bytes=size_bytes,
                calls=len(self._calls),
                records=len(self._records),
                contents=contents,
            ),
            tuple(dict.fromkeys(layout.mesh for layout in self._layouts)),
        )

    def _write_tables(self, values: Sequence[ValueInfo]) -> None:
        """Write the index and the program; their texts stand once."""
        pools = PoolsBuilder()
        index = self._encoded_index(values, pools)
        program = None if self._program is None else encode_program(self._program.columns(), pools)
        for group, tables in (("/index", pools.datasets() | index), ("/program", program)):
            if tables is not None:
                self._sink.add_group(group)
            for name, table in (tables or {}).items():
                self._sink.write_table(f"{group}/{name}", table)

    def abandon(self) -> None:
        """Stop and remove the file; harmless after ``close``.

        A forked process, which has neither the thread nor a right to the file, closes its copy.
        """
        if not self._is_closed:
            self._is_closed = True
            if self._owner.is_here:
                self._store.stop(discard=True)
            self._sink.abandon()
            with suppress(OSError):  # another rank's file may be in it
                self._path.parent.rmdir()

    def _encoded_index(self, values: Sequence[ValueInfo], pools: PoolsBuilder) -> dict[str, Array]:
        names = [column.name for column in TABLES["records"]]
        cells = list(zip(*self._records, strict=True)) or [()] * len(names)
        records: dict[str, Sequence[Any]] = dict(zip(names, cells, strict=True))
        records["value"] = [None if one is None else one.info.id for one in records["value"]]
        return encode_index(
            step=self._step,
            rank=self._rank,
            modules=self._modules,
            calls=[self._calls[call] for call in sorted(self._calls)],
            values=values,
            records=records,
            draws=self._draws,
            layouts=tuple(self._layouts),
            spread=self._spread,
            pools=pools,
        )
