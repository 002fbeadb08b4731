"""Make a dump of a graph file: read it, run it, write what happened."""

from __future__ import annotations

import platform
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from padiff.dumper import adapters
from padiff.dumper.runs.beforehand import check_place
from padiff.dumper.runs.inputs import InputFile, check_file
from padiff.dumpfile import (
    VERSION,
    ConfigError,
    DumpWriter,
    InputInfo,
    Manifest,
    Phase,
    digest_of,
    dtype_name,
    is_floating,
)
from padiff.dumpfile.manifestcodec import FOLDED, RUN

from .computing import computed_values
from .feeds import read_feeds
from .graph import Optimization
from .recording import Values, write_graph
from .scopes import modules_of, with_scopes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumper.runs.inputs import InputSource
    from padiff.dumpfile import JSON

    from .graph import Array, Format, Graph

__all__ = ["GraphSettings", "Optimization", "dump_graph", "is_graph_file"]

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
