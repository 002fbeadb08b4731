"""What the manifest of a recording says, gathered while the model runs."""

from __future__ import annotations

import platform
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from padiff.dumpfile import JSON, VERSION, InputInfo, Manifest, Phase
from padiff.dumpfile.manifestcodec import RECORDING, UNSAVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumper.adapter import Adapter, Model, Module

    from .recordedsteps import RecordedSteps
    from .recordsettings import RecordSettings


class Description:
    """The manifest in the making."""

    def __init__(self, model: Model, adapter: Adapter, settings: RecordSettings) -> None:
        """Name the dump; the rest comes with ``observe`` and ``state``."""
        inner = adapter.unwrap(model)
        self._model, self._adapter, self._settings = inner, adapter, settings
        self._wrapped = model
        self._notes: list[str] = []
        if inner is not model:
            self._notes.append(
                f"the model was wrapped in {type(model).__name__}: the module inside it was "
                "recorded"
            )
        self._about = Manifest(
            name=settings.name or type(inner).__name__,
            framework=adapter.name,
            framework_version="",
            padiff_version="",
            created="",
            files=(),
        )

    @property
    def name(self) -> str:
        """Name of the dump."""
        return self._about.name

    def state(
        self,
        *,
        model: str | None = None,
        seed: int | None = None,
        command: Sequence[str] | None = None,
        inputs: Sequence[InputInfo] | None = None,
        notes: Sequence[str] = (),
        settings: Mapping[str, JSON] | None = None,
    ) -> None:
        """State what cannot be seen; None leaves a field as it is."""
        about = self._about
        self._about = replace(
            about,
            model=about.model if model is None else model,
            seed=about.seed if seed is None else seed,
            command=about.command if command is None else tuple(command),
            inputs=about.inputs if inputs is None else tuple(inputs),
            settings={**about.settings, **(settings or {})},
        )
        self._notes.extend(notes)

    def observe(self, more: Mapping[str, JSON]) -> None:
        """State what is true of the model and the machine when recording begins."""
        model, adapter, settings = self._model, self._adapter, self._settings
        kind = adapter.class_bases(model)[0]
        self._about = replace(
            self._about,
            framework_version=adapter.version(),
            padiff_version=VERSION,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            model_class=f"{kind.__module__}.{kind.__qualname__}",
            device=adapter.model_device(model),
            dtype=adapter.model_dtype(model),
            training=adapter.is_training(model),
            python=platform.python_version(),
            platform=platform.platform(),
            settings={
                **self._about.settings,
                "phase": str(settings.phase),
                "include": list(settings.include),
                "exclude": list(settings.exclude),
                "depth": settings.depth,
                "content": str(settings.content),
                **more,
                **_unsaved(model, adapter),
            },
        )
        self._notes.extend(f"{RECORDING}{note}" for note in adapter.notes(self._wrapped))

    def as_begun(self) -> Manifest:
        """Return what is known when recording begins."""
        return replace(self._about, notes=tuple(self._notes))

    def manifest(self, steps: RecordedSteps) -> Manifest:
        """Return the manifest of the steps that were recorded."""
        has_gradients = self._settings.phase is Phase.BACKWARD and steps.arrived
        phase = Phase.BACKWARD if has_gradients else Phase.FORWARD
        told: dict[str, JSON] = {}
        if steps.optimizers_told:
            told["optimizers"] = list(steps.optimizers_told)
        return replace(
            self._about,
            settings={**self._about.settings, **told},
            phase=Phase.UPDATE if steps.updated else phase,
            notes=(*self._notes, *steps.notes()),
        )


def _unsaved(model: Model, adapter: Adapter) -> dict[str, JSON]:
    """Name the buffers that the framework does not save with weights, if there are any."""
    paths: dict[int, tuple[str, Module]] = {}
    for path, module in adapter.named_modules(model):
        paths.setdefault(id(module), (path, module))
    names: list[JSON] = [
        f"{path}.{owned.name}".removeprefix(".")
        for path, module in paths.values()
        for owned in adapter.own_tensors(module)
        if not owned.is_saved
    ]
    return {UNSAVED: names} if names else {}
