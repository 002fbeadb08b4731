"""Make the user's model: import, seed, build, and fill with another dump's weights."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper import adapters
from padiff.dumper.recording.construction import Construction
from padiff.dumpfile import ConfigError
from padiff.dumpfile.manifestcodec import LOADED

from .target import build, import_target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Model
    from padiff.dumpfile import JSON
    from padiff.pairing import WeightPlan

    from .runsettings import Progress, RunSettings


@dataclass(frozen=True, slots=True)
class Loaded:
    """The user's model."""

    adapter: Adapter
    """Its framework."""
    model: Model
    """In whatever wraps it."""
    notes: list[str]
    construction: Construction | None
    """How its buffers and constants were made; None if nobody looked."""


def load_model(settings: RunSettings) -> Loaded:
    """Import and build the user's model, with every framework seeded that is there by then."""
    wanted = None if settings.framework is None else adapters.load(settings.framework)
    found = import_target(settings.model)
    seeded = _imported()
    seed_all(settings.seed, *seeded.values())

    def is_model(thing: object) -> bool:
        return any(adapter.is_model(thing) for adapter in _imported().values())

    watched = {
        name: Construction(one)
        for name, one in seeded.items()
        if settings.record.program and one.operators is not None
    }
    with ExitStack() as exits:
        for one in watched.values():
            exits.enter_context(one.watch())
        model = build(settings.model, found, is_model=is_model)
    adapter = adapters.find(model)
    construction = watched.get(adapter.name)
    if construction is not None:
        construction.finish(adapter.unwrap(model))
    if wanted is not None and adapter.name != wanted.name:
        raise ConfigError(
            f"cannot record {str(settings.model)!r}: expected a model of {wanted.name}, found "
            f"one of {adapter.name}",
            hint=f"drop --framework, or use --framework {adapter.name}",
        )
    if settings.deterministic:
        adapter.trainer.make_deterministic()
    notes = []
    if adapter.name not in seeded and model is not found:
        notes.append(
            f"{adapter.name} was imported by the factory itself, so that the seed did not reach "
            f"its initial weights; --framework {adapter.name} seeds it before"
        )
    return Loaded(adapter, model, notes, construction)


def _imported() -> dict[str, Adapter]:
    return {name: adapters.load(name) for name in adapters.imported()}


def seed_all(seed: int, *frameworks: Adapter) -> None:
    """Seed Python, numpy and the frameworks."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the generator that models draw from
    for adapter in frameworks:
        adapter.seed(seed)


def write_structure(
    settings: RunSettings, adapter: Adapter, model: Model, notes: Sequence[str], report: Progress
) -> Path:
    """Write the dump of a model that is not run."""
    from padiff.dumper.weights.structure import record_structure  # noqa: PLC0415 - few runs need it

    if settings.weights_from is not None:
        report.stage("loading the weights")
        plan = load_weights_into(settings, adapter, model, None)
        notes = (*notes, *(f"weights: {note}" for note in plan.notes))
    report.stage("writing")
    return record_structure(
        model,
        adapter,
        settings.record,
        origin=str(settings.model),
        seed=settings.seed,
        command=settings.command,
        notes=notes,
    )


def load_weights_into(
    settings: RunSettings,
    adapter: Adapter,
    model: Model,
    forward: Callable[[], object] | None,
) -> WeightPlan:
    """Load another dump's weights; a forward pass tells what names and shapes leave open.

    Returns:
        The plan that was carried out.
    """
    from padiff.dumper.weights.weights import load_weights  # noqa: PLC0415 - needs pairing, which few runs do

    from .rehearsal import rehearse, rehearse_fed  # noqa: PLC0415 - few runs need it

    source = settings.weights_from
    return load_weights(
        model,
        adapter,
        source or "",
        map_file=settings.map_file,
        strict=settings.weights_strict,
        rehearsal=None if forward is None else lambda: rehearse(model, adapter, forward),
        fed=None
        if forward is None or source is None
        else lambda known: rehearse_fed(model, adapter, forward, source, known),
    )


def loaded_setting(plan: WeightPlan) -> dict[str, JSON]:
    """Return what the manifest says of the weights that were loaded; pairing reads it."""
    return {LOADED: {name: list(sources) for name, sources in plan.loaded.items()}}
