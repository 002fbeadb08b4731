"""A model that is a file: its operators in order, its leaves, and what the exporter noted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import DTYPE_NAMES, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from padiff.dumpfile import Argument, LeafKind, SourceLine

Array = npt.NDArray[np.generic]


class Optimization(Enum):
    """How far a runtime may rewrite a graph before it runs."""

    NONE = "none"
    BASIC = "basic"
    """Without a look at the machine: constants folded, needless operators left out."""
    ALL = "all"
    """Operators fused, and layouts changed for the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A module that a node was made in."""

    path: str
    """Dotted, ``""`` for the root."""
    class_path: str = ""
    """Full name of its class; empty if the exporter did not note it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A value with its type, as far as the file states it."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    """None for an axis whose size follows from the inputs."""

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape; None where an axis is not known."""
        sizes = tuple(size for size in self.shape if size is not None)
        return sizes if len(sizes) == len(self.shape) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator of the graph."""

    operator: str
    """Its name in a dump: ``onnx.MatMul``."""
    inputs: tuple[str, ...]
    """Names of values; ``""`` for one that is left out."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Argument] = field(default_factory=dict)
    scopes: tuple[Scope, ...] = ()
    """The modules around it, the root first; empty if that is not known."""
    origin: str = ""
    """What it was exported from, such as ``linear_1``; nodes of one origin share it."""
    sites: tuple[SourceLine, ...] = ()
    """The lines that led to it, the outermost first."""
    is_random: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A value that stands in the file."""

    name: str
    """As the nodes know it."""
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Array]
    """Returns its elements."""
    kind: LeafKind
    weight: str = ""
    """Full name of the parameter or buffer that it holds; empty for a constant."""
    is_transposed: bool = False
    """Whether the file holds the matrix with its axes exchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A model as its file states it."""

    version: str
    """Of the file's operators: what the manifest states as the framework's."""
    nodes: tuple[Node, ...]
    """In an order in which they can run."""
    leaves: Mapping[str, Leaf]
    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]
    ports: Mapping[str, Port]
    """What is known of the types of other values, by name."""
    restored: tuple[Leaf, ...] = ()
    """Weights that the file holds in another form, computed back from it: no node takes them."""
    folded: tuple[str, ...] = ()
    """Parameters and buffers of the exported model that the file does not hold."""

    def known_port(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Return dtype and shape of a value that was not observed.

        Raises:
            ConfigError: They are not known before the graph runs.
        """
        port = self.ports.get(name)
        sizes = None if port is None else port.sizes
        if port is None or sizes is None or port.dtype not in DTYPE_NAMES:
            raise ConfigError(
                f"cannot record the value {name!r} of the graph: it was not observed, and the file "
                "does not tell its dtype and shape",
                hint="run it without --no-run and --optimization, or state shapes by --inputs",
            )
        return port.dtype, sizes


class Format(Protocol):
    """A kind of graph file."""

    name: str
    """What the manifest states as the framework; its table lowers the operators."""

    def read(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        """Read a file.

        Raises:
            ConfigError: It is damaged, or of a kind that is not supported.
        """


class Runtime(Protocol):
    """What runs a graph file and shows all of its values."""

    def version(self) -> str:
        """Return the runtime's name and version."""

    def run(
        self,
        path: Path,
        wanted: Sequence[str],
        feeds: Mapping[str, Array],
        *,
        optimization: Optimization,
        providers: Sequence[str],
    ) -> Mapping[str, Array]:
        """Run a file once.

        Args:
            path: Where it is.
            wanted: The names of the values to return.
            feeds: The inputs by name.
            optimization: How far the graph may be rewritten first.
            providers: What executes it, the preferred first; empty takes the CPU.

        Returns:
            The wanted values that are still there after the rewriting.

        Raises:
            ConfigError: The runtime refuses the graph or its inputs, or has no such provider.
            RecordError: It failed while the graph ran.
        """
