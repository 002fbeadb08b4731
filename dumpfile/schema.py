"""The data of a dump, as plain immutable values, independent of how they lie on disk.

A dump is a manifest and one *index* for each step and rank. An index is four flat tables::

    modules ◄── calls ◄── records ──► values

Rows refer to each other by position (``id`` equals the position in the table); they become objects
when somebody asks for them. A *value* is one distinct tensor
content (one digest); a *record* says where and with which shape that value was met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from .address import Address, Phase, Role

FORMAT_VERSION = 2
"""Version of the on-disk form that this code writes, and the only one that it reads."""

Row = TypeVar("Row")
Rows = tuple[Row, ...] | Callable[[], tuple[Row, ...]]
"""The rows of a table, or what makes them."""

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]
"""A value that strict JSON can carry (nan and inf travel as strings)."""


class Content(StrEnum):
    """How much of a value is in the file."""

    DIGEST = "digest"
    """Digest only."""
    STATS = "stats"
    """Digest and statistics only."""
    SAMPLE = "sample"
    """Digest, statistics, and the elements at positions that follow from a shape."""
    FULL = "full"
    """Digest, statistics and every element."""

    def __init__(self, _: str) -> None:
        """Note how much there is of a value, in order; asked for each value of a step."""
        self.rank = len(type(self).__members__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A place in somebody's source code; never opened by the reader, only shown."""

    file: str
    """Path relative to the working directory or to the import root where that is possible."""
    line: int
    """Line number, from 1."""
    function: str = ""
    """Name of the function or class there, if known."""

    def __str__(self) -> str:
        """Return ``file:line``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleInfo:
    """One module of the tree, whether it was called or not."""

    id: int
    """Position in ``Index.modules``; parents precede children, siblings in definition order."""
    path: str
    """Dotted path from the root, ``""`` for the root itself; the first one where it is shared."""
    class_name: str
    """Short class name, ``Linear``."""
    class_path: str
    """Full class name, ``torch.nn.modules.linear.Linear``."""
    bases: tuple[str, ...] = ()
    """Full names of the base classes in method resolution order, without ``object``."""
    parent: int | None
    """Id of the containing module, None for the root."""
    aliases: tuple[str, ...] = ()
    """Further paths of the same module object."""
    training: bool = False
    """The training flag when recording began."""
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    """Configuration found on the object: ``eps``, ``stride``, ``approximate``, ``p`` …"""
    source: SourceLine | None = None
    """Where the class is defined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInfo:
    """One execution of a module."""

    id: int
    """Position in ``Index.calls``, ascending with ``start``."""
    module: int
    """Id of the module."""
    index: int
    """Number of the call among those of its module in this step, from 0."""
    parent: int | None
    """Id of the call inside which this one ran, None outside any recorded call."""
    start: int
    """Execution order at which the call began; one counter runs through all events of a step."""
    end: int | None
    """Execution order at which it returned; None if it never did."""
    training: bool = False
    """The module's training flag at the time."""
    site: SourceLine | None = None
    """The line of the user's model code that made the call."""
    literals: Mapping[str, JSON] = field(default_factory=dict)
    """Arguments and results that are no tensors, by role and slot: ``"input['causal']": true``."""
    containers: Mapping[str, str] = field(default_factory=dict)
    """Class names of non-trivial containers, by role and slot: ``"output": "ModelOutput"``."""
    recomputed: int = 0
    """How often activation checkpointing ran it again inside a backward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Random numbers that were drawn in a call itself, not in a call inside it; told once each."""

    call: int | None
    """Id of the call, None between two root calls."""
    after: int
    """Execution order of the last event before the first of them was drawn."""
    generators: tuple[str, ...]
    """Whose they were: ``torch``, ``paddle``; ``numpy``; ``python`` (the module ``random``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Summary of a value's finite elements, and the counts of the others.

    For complex values ``minimum``, ``maximum`` and ``mean`` are of the magnitude. Booleans count
    as 0 and 1. All are None where there is no finite element.
    """

    minimum: float | None
    maximum: float | None
    mean: float | None
    l2: float | None
    """Euclidean norm, summed in float64."""
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zeros: int = 0

    @property
    def nonfinite(self) -> int:
        """Count all elements that are nan or infinite."""
        return self.nan + self.posinf + self.neginf


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Which elements of a value are in the file: ``sampling.sample_positions(shape, count)``."""

    count: int
    shape: tuple[int, ...]
    """The one with which the value was met first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueInfo:
    """One distinct tensor content: equal bytes of equal dtype are one value, whatever the shape."""

    id: int
    """Position in ``Index.values``."""
    digest: str
    """Hex digest of dtype name and little-endian C-order bytes (``digest.py``)."""
    dtype: str
    """Name as in ``dtypes.py``: ``float32``, ``bfloat16``, ``bool`` …"""
    size: int
    """Number of elements."""
    statistics: Statistics
    """Of content ``digest`` nothing was measured: None and 0."""
    content: Content = Content.FULL
    """Whether the elements are in the file."""
    dataset: str | None = None
    """HDF5 path of the dataset that holds the elements, None if they are not in the file."""
    offset: int = 0
    """Index of the first element within that (one-dimensional) dataset."""
    sample: Sample | None = None
    """Which elements those are, if not all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """Processes as a grid of one or several named dimensions."""

    dims: tuple[str, ...]
    """Names of the dimensions, as the framework has them: ``dp``, ``tp``."""
    sizes: tuple[int, ...]
    ranks: tuple[int, ...]
    """The ranks in the grid, the last dimension fastest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a tensor lies over the processes of a mesh."""

    mesh: Mesh
    placements: tuple[str, ...]
    """One for each dimension of the mesh. ``R``: whole on each rank. ``S(d)``: split along axis d,
    ``S(d;n)`` in n interleaved parts. ``P(sum)``: terms of which the tensor is the sum; also
    ``P(avg)``, ``P(max)``, ``P(min)``, ``P(masked)``."""
    shape: tuple[int, ...]
    """Of the whole tensor."""

    @property
    def is_split(self) -> bool:
        """Whether one process has not all that there is to know of the tensor."""
        return any(placement != "R" for placement in self.placements)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordInfo:
    """One tensor met at one address."""

    id: int
    """Position in ``Index.records``, in the order in which they were recorded."""
    module: int
    """Id of the module; the root for ``loss``, ``lr`` and ``named``."""
    call: int | None
    """Id of the call (position in ``Index.calls``), None for roles outside ``CALL_ROLES``."""
    phase: Phase
    role: Role
    slot: str
    order: int
    """Execution order of the event that made it, from the same counter as ``CallInfo.start``."""
    shape: tuple[int, ...]
    value: int | None
    """Id of the value; None where the framework had None (a gradient that does not exist)."""
    requires_grad: bool = False
    tensor: int | None = None
    """For weights and buffers: equal numbers mean the same tensor object (tied parameters)."""
    layout: Layout | None = None
    """How the tensor lies over processes, of which ``shape`` is this one's part."""


class Index:
    """All modules, calls, records and values of one step of one rank.

    A table may be stated as a function that returns it, which is called when somebody first asks.
    """

    def __init__(  # noqa: PLR0913
        self,
        *,
        step: int,
        rank: int,
        modules: Rows[ModuleInfo],
        calls: Rows[CallInfo],
        records: Rows[RecordInfo],
        values: Rows[ValueInfo],
        draws: tuple[Draw, ...] | None = None,
        meshes: tuple[Mesh, ...] = (),
    ) -> None:
        """Keep the tables.

        Args:
            step: Iteration.
            rank: Index of the process.
            modules: Rows of the table.
            calls: Rows of the table.
            records: Rows of the table.
            values: Rows of the table.
            draws: Where random numbers were drawn; None if that was not looked for.
            meshes: The meshes of the records' layouts.
        """
        self.step, self.rank = step, rank
        self.draws, self.meshes = draws, meshes
        self._modules, self._calls, self._records, self._values = modules, calls, records, values

    @cached_property
    def modules(self) -> tuple[ModuleInfo, ...]:
        """All modules."""
        return _made(self._modules)

    @cached_property
    def calls(self) -> tuple[CallInfo, ...]:
        """All calls."""
        return _made(self._calls)

    @cached_property
    def records(self) -> tuple[RecordInfo, ...]:
        """All records."""
        return _made(self._records)

    @cached_property
    def values(self) -> tuple[ValueInfo, ...]:
        """All values."""
        return _made(self._values)

    def __eq__(self, other: object) -> bool:
        """Compare all rows."""
        if not isinstance(other, Index):
            return NotImplemented
        names = ("step", "rank", "modules", "calls", "records", "values", "draws", "meshes")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def is_root(self, record: RecordInfo) -> bool:
        """Return whether a record is of a call that no other call is around."""
        return record.call is not None and self.calls[record.call].parent is None

    def address(self, record: RecordInfo) -> Address:
        """Return the full name of one of this index's records."""
        module = self.modules[record.module]
        return Address(
            step=self.step,
            rank=self.rank,
            module=module.path,
            class_name=module.class_name,
            call=None if record.call is None else self.calls[record.call].index,
            phase=record.phase,
            role=record.role,
            slot=record.slot,
        )


def _made(rows: Rows[Row]) -> tuple[Row, ...]:
    return rows if isinstance(rows, tuple) else rows()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputInfo:
    """What the model was fed, by argument."""

    name: str
    """Slot of the argument: ``[0]`` or ``['mask']``."""
    dtype: str
    shape: tuple[int, ...]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """One HDF5 file of a dump."""

    step: int
    rank: int
    path: str
    """Relative to the dump, with forward slashes; always ``step_NNNNNN/rank_NNNN.h5``."""
    size_bytes: int
    calls: int
    records: int
    contents: tuple[int, int] | None = None
    """Byte offset and size of its table of contents; None in a file that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What describes a dump as a whole. Its file is written last: no manifest, no dump."""

    name: str
    """Name of the model, and of the dump's directory when it was made."""
    framework: str
    """``torch`` or ``paddle``, or the name of a registered adapter."""
    framework_version: str
    padiff_version: str
    created: str
    """ISO 8601 in UTC, to the second."""
    files: tuple[FileInfo, ...]
    format_version: int = FORMAT_VERSION
    model: str = ""
    """What the user named: ``models/resnet.py:build``; empty from a script."""
    model_class: str = ""
    """Full class name of the root module."""
    device: str = "cpu"
    dtype: str = ""
    """Dtype of the model's floating parameters, the most frequent one where they differ."""
    seed: int | None = None
    training: bool = False
    phase: Phase = Phase.BACKWARD
    """The last phase that was recorded."""
    command: tuple[str, ...] = ()
    """The command line, empty from a script."""
    inputs: tuple[InputInfo, ...] = ()
    python: str = ""
    platform: str = ""
    settings: Mapping[str, JSON] = field(default_factory=dict)
    """Every option that decides what was recorded: include, exclude, depth, content …"""
    notes: tuple[str, ...] = ()
    """What a reader should know: fused fast paths that recording disabled, parts not recorded."""
    incomplete: str = ""
    """Why the recording ended before its end, and so holds its whole steps only; else empty."""
    meshes: tuple[Mesh, ...] = ()
    """All meshes over which tensors lie, of all ranks."""
