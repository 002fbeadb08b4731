"""Make a dump of a graph file: read it, run it, write what happened."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper import adapters
from padiff.dumper.adapter import Keywords
from padiff.dumper.runs.beforehand import check_place
from padiff.dumper.runs.inputs import InputFile, Inputs, check_file, load_inputs, renamed
from padiff.dumper.runs.replay import Recorded, inputs_of
from padiff.dumper.runs.target import near_names
from padiff.dumpfile import (
    VERSION,
    ConfigError,
    DumpWriter,
    InputInfo,
    LeafKind,
    Manifest,
    Phase,
    ProgramError,
    ValueRef,
    digest_of,
    dtype_name,
    is_floating,
    numpy_dtype,
)
from padiff.dumpfile.manifestcodec import FOLDED, RUN
from padiff.program import TABLES, Operator, Program, Value, execute, lower

from .graph import Optimization
from .recording import Values, write_graph
from .scopes import modules_of, with_scopes_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumper.runs.inputs import InputSource
    from padiff.dumpfile import JSON

    from .graph import Array, Format, Graph, Port


FORMATS = {".onnx": "onnx"}
"""Which format reads files of which suffix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """One ``padiff dump`` of a graph file."""

    model: Path
    record: RecordSettings
    inputs: tuple[InputSource, ...] = ()
    inputs_from: Path | None = None
    """A dump whose root inputs are fed; instead of ``inputs``."""
    scopes_from: Path | None = None
    """The file that ``model`` was made of, if a tool that dropped the scopes rewrote it."""
    optimization: Optimization = Optimization.NONE
    providers: tuple[str, ...] = ()
    """What executes the graph, the preferred first; empty takes the CPU."""
    no_run: bool = False
    """Do without a runtime: with inputs, padiff computes all values in float64."""
    command: tuple[str, ...] = ()
    """The command line, for the manifest."""

    def __post_init__(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            ConfigError: Two sources of inputs, none where one is needed, or options of a runtime
                beside ``no_run``.
        """
        if self.inputs and self.inputs_from is not None:
            raise ConfigError("cannot use --inputs together with --inputs-from: give one of them")
        if not self.no_run and not self.inputs and self.inputs_from is None:
            raise ConfigError(
                f"cannot run model {str(self.model)!r}: it was given no inputs",
                hint="name a file by --inputs, a dump by --inputs-from, or add --no-run",
            )
        is_plain = self.optimization is Optimization.NONE and not self.providers
        if self.no_run and not is_plain:
            raise ConfigError(
                "cannot use --optimization or --provider with --no-run: no runtime is used"
            )


def is_graph_file(text: str) -> bool:
    """Return whether a model is named by the path of a graph file."""
    return Path(text).suffix in FORMATS


def dump_graph(settings: GraphSettings) -> Path:
    """Record a graph file.

    Args:
        settings: What to run and what to record.

    Returns:
        The dump's directory.

    Raises:
        ConfigError: A file or an option is wrong, or a package is missing.
        RecordError: The runtime failed.
        DumpError: The dump cannot be written, or one to be read cannot be.
    """
    path = settings.model
    name = settings.record.name or path.stem
    check_place(settings.record, name)
    for source in settings.inputs:
        if isinstance(source, InputFile):
            check_file(source.path)
    form = adapters.load_format(FORMATS[path.suffix])
    graph = form.read(path, shapes={})
    feeds = read_feeds(graph, path, settings.inputs, settings.inputs_from)
    if any(port.sizes is None for port in graph.inputs) and feeds:
        shapes = {name: array.shape for name, array in feeds.items()}
        graph = form.read(path, shapes=shapes)
    if settings.scopes_from is not None:
        graph = with_scopes_of(graph, form.read(settings.scopes_from, shapes={}))
    values, runs_on = _values(settings, form, graph, feeds)
    record = settings.record
    with DumpWriter(
        record.out / name,
        overwrite=record.overwrite,
        compression=record.compression,
        content=record.content,
    ) as writer:
        with writer.step(0, 0) as step:
            write_graph(graph, step, feeds, values, with_program=record.program)
        return writer.commit(_manifest(settings, form, graph, feeds, runs_on))


def _values(
    settings: GraphSettings, form: Format, graph: Graph, feeds: Mapping[str, Array]
) -> tuple[Values, str]:
    """Return the values of all nodes, and what ran them; nothing without inputs."""
    if settings.no_run:
        made = computed_values(graph, form.name, feeds) if feeds else {}
        return Values(observed=made, filled={}), ""
    runtime = adapters.load_runtime(form.name)
    wanted = [name for node in graph.nodes for name in node.outputs if name]
    values = runtime.run(
        settings.model,
        wanted,
        feeds,
        optimization=settings.optimization,
        providers=settings.providers,
    )
    known = {name: array for name, array in values.items() if _fits(graph, name, array)}
    fused = len(known) < len(wanted)
    filled = computed_values(graph, form.name, feeds, known) if fused else {}
    return Values(observed=known, filled=filled), runtime.version()


def _fits(graph: Graph, name: str, array: Array) -> bool:
    """Return whether a value has the shape that the file states: a rewritten graph may differ."""
    port = graph.ports.get(name)
    return port is None or port.sizes in (None, array.shape)


def _manifest(
    settings: GraphSettings, form: Format, graph: Graph, feeds: Mapping[str, Array], runs_on: str
) -> Manifest:
    record = settings.record
    more: dict[str, JSON] = {} if runs_on else {RUN: False}
    more |= {FOLDED: list(graph.folded)} if graph.folded else {}
    dtypes = Counter(leaf.dtype for leaf in graph.leaves.values() if is_floating(leaf.dtype))
    return Manifest(
        name=record.name or settings.model.stem,
        framework=form.name,
        framework_version=", ".join(filter(None, (graph.version, runs_on))),
        padiff_version=VERSION,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        files=(),
        phase=Phase.FORWARD,
        model=str(settings.model),
        model_class=modules_of(graph)[0].class_path,
        device=settings.providers[0] if settings.providers else "cpu",
        dtype=max(dtypes, key=lambda dtype: dtypes[dtype], default=""),
        inputs=tuple(
            InputInfo(
                name=f"[{name!r}]",
                dtype=dtype_name(array.dtype),
                shape=array.shape,
                digest=digest_of(array),
            )
            for name, array in feeds.items()
        ),
        python=platform.python_version(),
        platform=platform.platform(),
        settings={
            "phase": str(Phase.FORWARD),
            "content": str(record.content),
            "optimization": settings.optimization.value,
            "providers": list(settings.providers),
            **more,
        },
        command=settings.command,
        notes=() if runs_on else (_NOT_RUN if feeds else _NO_INPUTS,),
    )


_NOT_RUN = "the model did not run: padiff computed all values in float64"
_NO_INPUTS = "the model did not run: structure, program, weights and buffers only"


def computed_values(
    graph: Graph,
    framework: str,
    feeds: Mapping[str, Array],
    observed: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Compute values of a graph, each rounded to its dtype in the end.

    Args:
        graph: With the shapes of all values, as they follow from the inputs'.
        framework: Whose table lowers its operators.
        feeds: Inputs by name.
        observed: Values that are known; what lies behind them is computed from these.

    Returns:
        By name, without those that are known and those behind an operator that no rule covers.

    Raises:
        ConfigError: A shape is not known before the graph runs, or the program cannot be executed.
    """
    return _Computing(graph, framework, feeds, observed or {}).run()


class _Computing:
    def __init__(
        self,
        graph: Graph,
        framework: str,
        feeds: Mapping[str, Array],
        observed: Mapping[str, Array],
    ) -> None:
        self.graph, self.framework, self.observed = graph, framework, observed
        self.values: list[Value] = []
        self.ids: dict[str, int] = {}
        self.leaves: dict[int, Array] = {}
        for leaf in graph.leaves.values():
            self.add_leaf(leaf.name, leaf.read(), leaf.kind)
        for name, array in feeds.items():
            self.add_leaf(name, array, LeafKind.INPUT)

    def add_leaf(self, name: str, array: Array, kind: LeafKind) -> None:
        value = self.add(name, array.dtype.name, array.shape, kind=kind)
        self.leaves[value] = array

    def add(
        self,
        name: str,
        dtype: str,
        shape: tuple[int, ...],
        *,
        kind: LeafKind | None = None,
        producer: int | None = None,
        slot: int = 0,
    ) -> int:
        self.ids[name] = len(self.values)
        self.values.append(
            Value(
                id=len(self.values),
                dtype=dtype,
                shape=shape,
                kind=kind,
                producer=producer,
                slot=slot,
            )
        )
        return self.ids[name]

    def add_made(self, name: str, place: int, slot: int) -> int:
        """Add what a node makes; elements that are known are those of a leaf."""
        array = self.observed.get(name)
        if array is None:
            dtype, shape = self.graph.known_port(name)
            return self.add(name, dtype, shape, producer=place, slot=slot)
        value = self.add(name, array.dtype.name, array.shape, producer=place, slot=slot)
        self.leaves[value] = array
        return value

    def run(self) -> dict[str, Array]:
        operators = []
        for place, node in enumerate(self.graph.nodes):
            taken = tuple(ValueRef(self.ids[name]) if name else None for name in node.inputs)
            outputs = []
            for slot, name in enumerate(node.outputs):
                if name:
                    outputs.append(self.add_made(name, place, slot))
            operators.append(
                Operator(
                    id=place,
                    name=node.operator,
                    positional=taken,
                    keywords=node.attributes,
                    outputs=tuple(outputs),
                    random=node.is_random,
                )
            )
        program = Program(
            framework=self.framework, values=tuple(self.values), operators=tuple(operators)
        )
        return self.executed(program)

    def executed(self, program: Program) -> dict[str, Array]:
        lowered = lower(program, TABLES[self.framework], contents=self.leaves.get)
        reached = {lowered.terms[value] for value in self.leaves}
        for node in lowered.nodes:
            if reached.issuperset(node.operands):
                reached.update(node.outputs)
        wanted = {
            name: id_
            for name, id_ in self.ids.items()
            if id_ not in self.leaves and lowered.terms[id_] in reached
        }
        try:
            with np.errstate(all="ignore"):
                made = execute(lowered, self.leaves, wanted.values())
        except ProgramError as error:
            raise ConfigError(f"cannot compute the values of the graph: {error}") from error
        found = {}
        for name, id_ in wanted.items():
            dtype = numpy_dtype(self.values[id_].dtype)
            with np.errstate(all="ignore"):
                found[name] = np.asarray(made[id_]).astype(dtype)
        return found


def read_feeds(
    graph: Graph, path: Path, sources: Sequence[InputSource], dump: Path | None
) -> dict[str, Array]:
    """Read the inputs of a graph.

    Args:
        graph: What takes them.
        path: Of its file, for messages.
        sources: Where they come from, in order.
        dump: A dump whose root inputs are fed instead.

    Returns:
        Arrays by name, in the graph's order, floating ones in the dtype that it states; nothing
        where neither sources nor a dump were given.

    Raises:
        ConfigError: An input is missing, has a name that the graph does not know, or another dtype
            or shape than the graph states.
        DumpError: The dump cannot be read.
    """
    if not sources and dump is None:
        return {}
    names = tuple(port.name for port in graph.inputs)
    forward = Keywords(names=names, takes_any=False)
    given = load_inputs(sources, forward) if dump is None else renamed(inputs_of(dump), forward)
    found = _by_name(given, names, path)
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigError(
            f"cannot run model {str(path)!r}: expected the inputs {', '.join(map(repr, names))}, "
            f"found no {missing[0]!r}",
            hint=f"save it under that name with numpy.savez, or give --inputs {missing[0]}=FILE",
        )
    return {port.name: _fitted(port, found[port.name], path) for port in graph.inputs}


def _by_name(given: Inputs, names: Sequence[str], path: Path) -> dict[str, Array]:
    """Return the arrays by the names of a graph's inputs; what is None was not given."""
    if len(given.positional) > len(names):
        raise ConfigError(
            f"cannot run model {str(path)!r}: expected {len(names)} inputs, found "
            f"{len(given.positional)}",
            hint=f"it takes {', '.join(map(repr, names))}",
        )
    found = dict(zip(names, given.positional, strict=False)) | dict(given.keywords)
    for name in found:
        if name not in names and found[name] is not None:
            raise ConfigError(
                f"cannot run model {str(path)!r}: it has no input {name!r}",
                hint=near_names(name, names),
            )
    arrays = {
        name: one.array if isinstance(one, Recorded) else one
        for name, one in found.items()
        if name in names and one is not None
    }
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ConfigError(
                f"cannot run model {str(path)!r}: expected an array for the input {name!r}, found "
                f"{type(array).__name__}"
            )
    return arrays


def _fitted(port: Port, array: Array, path: Path) -> Array:
    """Return an array in the dtype that an input states.

    Raises:
        ConfigError: Its shape or its kind of number is another.
    """
    wanted = [str(size) if size is not None else "any" for size in port.shape]
    is_alike = len(wanted) == array.ndim and all(
        size in (None, own) for size, own in zip(port.shape, array.shape, strict=True)
    )
    if not is_alike:
        raise ConfigError(
            f"cannot run model {str(path)!r}: expected the input {port.name!r} of shape "
            f"({', '.join(wanted)}), found {tuple(array.shape)}",
            hint="feed what it was exported with, or export it with dynamic shapes",
        )
    name = array.dtype.name
    if name != port.dtype and not (is_floating(name) and is_floating(port.dtype)):
        raise ConfigError(
            f"cannot run model {str(path)!r}: expected the input {port.name!r} of dtype "
            f"{port.dtype}, found {name}",
            hint=f"save it as {port.dtype}: array.astype({port.dtype!r})",
        )
    return np.ascontiguousarray(array, numpy_dtype(port.dtype)).reshape(array.shape)
