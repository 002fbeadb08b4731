"""Write a model's module tree, weights and buffers as a dump, without running the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumper.recording.description import Description
from padiff.dumper.recording.live import LiveSide
from padiff.dumper.recording.select import ModuleName, Selection
from padiff.dumpfile import DumpWriter
from padiff.dumpfile.manifestcodec import RUN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Model
    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumpfile import StepWriter, Stored

_NOT_RUN = "the model did not run: structure, weights and buffers only"


def record_structure(
    model: Model,
    adapter: Adapter,
    settings: RecordSettings,
    *,
    origin: str = "",
    seed: int | None = None,
    command: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write a dump without calls: modules, weights and buffers as they are now.

    Args:
        model: The model, unwrapped.
        adapter: The adapter of its framework.
        settings: Where the dump goes, and which modules' weights are in it.
        origin: What the user named, for the manifest.
        seed: The seed that the model was built with.
        command: The command line.
        notes: What a reader should know.

    Returns:
        The dump's directory.

    Raises:
        ConfigError: A pattern of the settings matches nothing.
        DumpError: The dump cannot be written.
    """
    side = LiveSide(model, adapter)
    selected = _selected(side, settings)
    about = Description(model, adapter, settings)
    about.state(
        model=origin, seed=seed, command=command, notes=(*notes, _NOT_RUN), settings={RUN: False}
    )
    about.observe({})
    directory = settings.out / about.name
    with DumpWriter(
        directory,
        overwrite=settings.overwrite,
        compression=settings.compression,
        content=settings.content,
    ) as writer:
        with writer.step(0, 0) as step:
            step.add_modules(side.index.modules)
            _write_weights(side, step, selected)
            step.close()
        return writer.commit(about.as_begun())


def _selected(side: LiveSide, settings: RecordSettings) -> frozenset[str]:
    """Return the paths of the modules whose weights are wanted."""
    selection = Selection.parse(
        include=settings.include, exclude=settings.exclude, depth=settings.depth
    )
    names = [
        ModuleName(path=module.path, classes=(module.class_path, *module.bases))
        for module in side.index.modules
    ]
    return selection.select(names)


def _write_weights(side: LiveSide, step: StepWriter, selected: frozenset[str]) -> None:
    stored: dict[int | None, Stored] = {}
    for record in side.index.records:
        if side.index.modules[record.module].path not in selected:
            continue
        if record.tensor not in stored:
            stored[record.tensor] = step.store(side.array(record))
        step.add_record(
            module=record.module,
            call=None,
            phase=record.phase,
            role=record.role,
            slot=record.slot,
            order=record.order,
            shape=record.shape,
            value=stored[record.tensor],
            requires_grad=record.requires_grad,
            tensor=record.tensor,
        )
