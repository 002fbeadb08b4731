"""Compare two live models in one process, by two dumps and one comparison.

The functions have the names and the meaning that users of PaDiff know.
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.comparer import CompareSettings, Comparison, Mode, Verdict, compare
from padiff.comparer.report.terminal import render
from padiff.dumper import adapters
from padiff.dumper.feedphase import FeedPhase
from padiff.dumper.loading import seed_all
from padiff.dumper.named import arrays_of, write_named
from padiff.dumper.recordsettings import RecordSettings
from padiff.dumper.steploop import LiveRun, record_steps
from padiff.dumper.weights import assign_weight
from padiff.dumpfile import ConfigError, Phase
from padiff.pairing import read_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["AutoDiffResult", "auto_diff", "check_dataloader", "create_model"]

BOTH = 2
_OLD_NAMES = {
    "auto_weights": "auto_init",
    "loss_fn": "loss_fns",
    "optimizer": "optimizers",
    "layer_map": "map",
}
"""What earlier versions of PaDiff called an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoDiffResult:
    """What ``auto_diff`` found; true if the two sides match."""

    comparison: Comparison

    def __bool__(self) -> bool:
        """Tell whether they match."""
        return self.comparison.verdict is Verdict.MATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of ``auto_diff``, by their names."""

    auto_init: bool = True
    steps: int = 1
    diff_phase: str = "both"
    compare_mode: str = "strict"
    atol: float | None = None
    rtol: float | None = None
    single_step: bool = False
    seed: int | None = None
    map: str | Path | None = None
    out: str | Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        """Refuse what no run can do."""
        for name, known in (
            ("diff_phase", ("both", "forward", "backward")),
            ("compare_mode", ("mean", "strict")),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(
                    f"cannot use {name}={value!r}: expected one of {', '.join(known)}"
                )
        if self.steps < 1:
            raise ConfigError(f"cannot run {self.steps} steps: expected 1 or more")
        if self.single_step and self.steps > 1:
            raise ConfigError("cannot use single_step with several steps: it is of one")


def auto_diff(
    reference_model: object,
    candidate_model: object,
    inputs: Sequence[Mapping[str, Any]],
    loss_fns: Sequence[Any] | None = None,
    optimizers: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 - options by name
) -> AutoDiffResult:
    """Run two models side by side and say where they first diverge.

    Args:
        reference_model: The model held to be right, of either framework.
        candidate_model: The model to judge.
        inputs: Two dicts of keyword arguments, the reference's first.
        loss_fns: Two functions of the model's output; by default the mean of it.
        optimizers: Two optimizers, or functions without arguments that update the weights and
            clear the gradients. Without them there is one step.
        options: Options as a dict, as ``more``.
        **more: ``auto_init`` (copy the reference's weights, default), ``steps``, ``diff_phase``
            ("both", "forward", "backward"), ``compare_mode`` ("strict", "mean"), ``single_step``
            (each call hands the reference's recorded output on), ``atol``, ``rtol``, ``seed``,
            ``map`` (a map file), ``out`` (keep the dumps here), ``quiet``.

    Returns:
        The comparison; true if it is a match. The report is printed unless ``quiet``.

    Raises:
        ConfigError: An option is unknown or unusable, or a weight cannot be assigned.
        RecordError: The user's code raised.
    """
    given = {
        _OLD_NAMES.get(name, name): value for name, value in {**(options or {}), **more}.items()
    }
    losses = _two("loss_fns", given.pop("loss_fns", loss_fns))
    updates = _two("optimizers", given.pop("optimizers", optimizers))
    chosen = _options(given)
    pair = _two("inputs", inputs)
    models = (reference_model, candidate_model)
    if chosen.auto_init:
        assign_weight(reference_model, candidate_model, chosen.map or None)
    runs = [
        LiveRun(
            model=model,
            inputs=pair[side] or {},
            loss=losses[side],
            optimizer=updates[side],
            steps=chosen.steps if any(updates) else 1,
            feed_phase=FeedPhase(chosen.diff_phase),
        )
        for side, model in enumerate(models)
    ]
    with tempfile.TemporaryDirectory(prefix="padiff-auto-diff-") as folder:
        out = Path(folder if chosen.out is None else chosen.out)
        paths: list[Path] = []
        for live, name in zip(runs, ("reference", "candidate"), strict=True):
            run = replace(live, feed=paths[0]) if chosen.single_step and paths else live
            if chosen.seed is not None:
                seed_all(chosen.seed, adapters.find(run.model))
            paths.append(record_steps(run, _recording(chosen, out, name)))
        comparison = compare(paths[0], paths[1], _comparing(chosen))
    if not chosen.quiet:
        _print(comparison)
    return AutoDiffResult(comparison=comparison)


def create_model(model: object, name: str | None = None, **_: Any) -> object:  # noqa: ANN401
    """Give the model itself: PaDiff wrapped models, padiff needs no wrapper.

    Args:
        model: A model of either framework.
        name: Ignored; dumps are named by ``padiff.record``.

    Raises:
        ConfigError: It is no model.
    """
    del name
    adapters.find(model)
    return model


def check_dataloader(
    reference: Iterable[object],
    candidate: Iterable[object],
    *,
    batches: int | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    quiet: bool = False,
) -> AutoDiffResult:
    """Compare what two data loaders give, batch by batch; each batch is a step.

    Args:
        reference: Gives batches: tensors, arrays, numbers, or containers of these.
        candidate: Gives those to judge. A batch more or fewer is a divergence.
        batches: Look at no more than these.
        atol: Absolute tolerance; by default that of the dtype.
        rtol: Relative tolerance; by default that of the dtype.
        quiet: Print no report.

    Raises:
        ConfigError: A loader gives nothing, or something that is no number.
    """
    with tempfile.TemporaryDirectory(prefix="padiff-batches-") as folder:
        paths = [
            write_named(Path(folder) / name, _batches(loader, batches))
            for name, loader in (("reference", reference), ("candidate", candidate))
        ]
        comparison = compare(paths[0], paths[1], CompareSettings(atol=atol, rtol=rtol))
    if not quiet:
        _print(comparison)
    return AutoDiffResult(comparison=comparison)


def _batches(loader: Iterable[object], limit: int | None) -> Iterable[dict[str, Any]]:
    for number, batch in enumerate(loader):
        if limit is not None and number >= limit:
            return
        yield arrays_of(batch)


def _options(given: Mapping[str, Any]) -> _Options:
    known = [field.name for field in fields(_Options)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(
                f"cannot use the option {name!r}: auto_diff has none of that name",
                hint=f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known)}",
            )
    return _Options(**given)


def _two(what: str, given: Sequence[Any] | None) -> tuple[Any, Any]:
    if given is None:
        return None, None
    if not isinstance(given, list | tuple) or len(given) != BOTH:
        raise ConfigError(f"cannot use {what}: expected one for each model, found {given!r:.80}")
    return given[0], given[1]


def _recording(options: _Options, out: Path, name: str) -> RecordSettings:
    phase = Phase.FORWARD if options.diff_phase == "forward" else Phase.BACKWARD
    return RecordSettings(out=out, name=name, phase=phase, overwrite=options.out is not None)


def _comparing(options: _Options) -> CompareSettings:
    phases = (Phase.BACKWARD, Phase.UPDATE) if options.diff_phase == "backward" else None
    return CompareSettings(
        atol=options.atol,
        rtol=options.rtol,
        mode=Mode(options.compare_mode),
        phases=phases,
        map_file=None if options.map is None else read_map(Path(options.map)),
    )


def _print(comparison: Comparison) -> None:
    from rich.console import Console  # noqa: PLC0415 - only where a report is drawn

    render(comparison, Console(file=sys.stdout, markup=False, highlight=False, emoji=False))
