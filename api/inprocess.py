"""Compare two live models in one process, by two dumps and one comparison.

The functions have the names and the meaning that users of PaDiff know.
"""

from __future__ import annotations

import difflib
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.comparer import CompareSettings, Mode
from padiff.comparer.report.terminal import render
from padiff.comparer.result import ReasonKind, VerdictReason
from padiff.comparing import Comparison, compare
from padiff.dumper import adapters
from padiff.dumper.recording.live import LiveSide
from padiff.dumper.recording.named import arrays_of, write_named
from padiff.dumper.recording.patterns import patterns_of
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.feedphase import FeedPhase
from padiff.dumper.runs.loading import seed_all
from padiff.dumper.runs.outputs import LossOutputs, common_outputs, outputs_for, parse_names
from padiff.dumper.runs.rehearsal import buffers_restorer, rehearse, rehearse_fed, rehearsed
from padiff.dumper.runs.steploop import LiveRun, record_steps
from padiff.dumper.weights import weights
from padiff.dumpfile import ConfigError, Phase, open_dump
from padiff.dumpfile.scratch import scratch_folder
from padiff.layermap import map_of
from padiff.pairing import plan_weights
from padiff.pairing.weights.weight_text import WeightError
from padiff.plans import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from padiff.pairing import MapFile, Side, WeightPlan


BOTH = 2


def auto_diff(
    reference_model: object,
    candidate_model: object,
    inputs: Sequence[Any],
    loss_fns: Sequence[Any] | None = None,
    optimizers: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 - options by name
) -> Comparison:
    """Run two models side by side and say where they first diverge.

    Each model sees copies of its inputs, so that a model which changes them harms nobody.
    Afterwards the candidate has the reference's weights (``auto_init``) and what the optimizers
    made of them; no gradient is left.

    Args:
        reference_model: The model held to be right, of either framework.
        candidate_model: The model to judge.
        inputs: For each model a dict of keyword arguments, a tuple of positional ones, or one
            tensor; the reference's first. numpy arrays become tensors of the model's framework.
        loss_fns: Two functions of the model's output; by default the mean of it.
        optimizers: Two optimizers, or functions without arguments that update the weights and
            clear the gradients. Without them there is one step.
        options: Options as a dict, as PaDiff took them.
        **more: ``auto_init`` (copy the reference's weights, default), ``steps``, ``diff_phase``
            ("both", "forward", "backward"), ``compare_mode`` ("strict", "mean"; where options come
            as PaDiff's ``options``, ``auto_weights`` or ``layer_map``, PaDiff's default "mean"),
            ``single_step`` (each call hands the reference's recorded output on), ``outputs`` (names
            of outputs that the default loss takes, such as "logits"; by default those that both
            models give; where the reference gives more, it runs twice), ``atol``,
            ``rtol``, ``seed``, ``map`` (a map file, ``LayerMap``, or dict of modules), ``include``
            and ``exclude`` (patterns of what is compared, or modules), ``out`` (keep the dumps
            here), ``quiet``.

    Returns:
        The comparison; true if it is a match. The report is printed unless ``quiet``.

    Raises:
        ConfigError: An option is unknown or unusable, or a weight cannot be assigned.
        RecordError: The user's code raised.
    """
    losses = _two("loss_fns", _either("loss_fns", loss_fns, more.pop("loss_fn", None)))
    updates = _two("optimizers", _either("optimizers", optimizers, more.pop("optimizer", None)))
    models = (reference_model, candidate_model)
    chosen = options_of(options, more, models)
    map_file = map_of(chosen.map, *models)
    runs = [
        LiveRun(
            model=model,
            inputs=given,
            loss=losses[side],
            optimizer=updates[side],
            steps=chosen.steps if any(updates) else 1,
            feed_phase=FeedPhase(chosen.diff_phase),
            map_file=map_file,
        )
        for side, (model, given) in enumerate(zip(models, _two("inputs", inputs), strict=True))
    ]
    if chosen.auto_init:
        runs[1] = replace(runs[1], loaded=_share_weights(runs[0], runs[1]))
    with scratch_folder() as folder:
        paths = _record_both(runs, chosen, folder if chosen.out is None else Path(chosen.out))
        comparison = compare(*paths, _comparing(chosen, map_file))
    if chosen.out is None:  # the dumps are gone
        comparison = replace(comparison, places=None)
    if not chosen.quiet:
        _print(comparison)
    return comparison


def _record_both(runs: Sequence[LiveRun], chosen: Options, out: Path) -> tuple[Path, Path]:
    """Record the reference, then the candidate, which is fed from it in single steps."""
    names = parse_names(chosen.outputs)
    if names and any(run.loss is not None for run in runs):
        raise ConfigError("cannot use outputs with loss_fns: the losses decide what they take")
    first, adapter = runs[0], adapters.find(runs[0].model)
    restore = buffers_restorer(adapter.unwrap(first.model), adapter)
    known = replace(first, outputs=LossOutputs(names=names))
    reference = _record(known, chosen, _recording(chosen, out, "reference"))
    feed = reference if chosen.single_step else None
    found = replace(runs[1], outputs=outputs_for(names, [reference]), feed=feed)
    candidate = _record(found, chosen, _recording(chosen, out, "candidate"))
    common = None if names else common_outputs(reference, candidate)
    if common is not None and feed is None and first.optimizer is None:
        restore()
        settings = replace(_recording(chosen, out, "reference"), overwrite=True)
        _record(replace(first, outputs=common), chosen, settings)
    return reference, candidate


def _record(run: LiveRun, chosen: Options, settings: RecordSettings) -> Path:
    if chosen.seed is not None:
        seed_all(chosen.seed, adapters.find(run.model))
    return record_steps(run, settings)


def assign_weight(
    reference: Any,  # noqa: ANN401 - a model, or a path
    candidate: object,
    map: Any = None,  # noqa: A002, ANN401 - a map file, LayerMap, or dict of modules
    *,
    strict: bool = True,
) -> Plan:
    """Copy another live model's, a dump's or a checkpoint's weights into a live model, in place.

    Args:
        reference: A model of either framework, or the path of a dump or checkpoint.
        candidate: The model to change.
        map: What you decided: a map file, a ``LayerMap``, or a dict of modules.
        strict: Whether anything missing or ambiguous is an error.

    Returns:
        The plan that was carried out; true if nothing is missing or in doubt.

    Raises:
        ConfigError: All problems at once; the candidate is as it was.
        DumpError: The reference cannot be read.
    """
    is_path = isinstance(reference, str | Path)
    entries = map_of(map, candidate if is_path else reference, candidate)
    with weights.opened_sides(reference, candidate) as (side, live, task):
        found = weights.carry_over(side, live, task=task, map_file=entries, strict=strict)
        return Plan(found, side, live)


_METHODS = {
    "auto_layer_map": "map= of padiff.auto_diff; most partners are found without",
    "clear_report": "nothing: each padiff.record begins a recording of its own",
    "dump_grads": "padiff.record(model, name=…, out=…)",
    "dump_params": "padiff.record(model, name=…, out=…)",
    "dump_report": "padiff.record(model, name=…, out=…)",
    "dump_weights": "padiff.record(model, name=…, out=…)",
    "set_layer_map": "map= of padiff.auto_diff: a LayerMap, a dict of modules or a map file",
    "toggle_dropout": "no_dropout of `padiff dump`, or model.eval()",
    "try_dump": "`with padiff.record(model, name=…) as recorder:` around the steps, and "
    "recorder.step() after each",
    "update_black_list": "exclude=[model.head] of padiff.record or padiff.auto_diff",
    "update_black_list_with_class": "exclude=['type:Dropout'] of padiff.record or padiff.auto_diff",
    "update_unassigned_weights_list": "[[ignore]] in a map file, docs/map.md",
    "update_white_list": "include=[model.head] of padiff.record or padiff.auto_diff",
    "update_white_list_with_class": "include=['type:Linear'] of padiff.record or padiff.auto_diff",
}
"""Methods of PaDiff's wrapped models, and what does the same here."""


def create_model(model: object, name: str | None = None, **_: Any) -> object:  # noqa: ANN401
    """Return the model itself: PaDiff wrapped models, padiff needs no wrapper.

    The methods of PaDiff's wrapper say on this model what replaces them.

    Args:
        model: A model of either framework.
        name: Ignored; dumps are named by ``padiff.record``.

    Raises:
        ConfigError: It is no model.
    """
    del name
    adapters.find(model)
    for method in _METHODS:
        if not hasattr(model, method):
            setattr(model, method, partial(_replaced, method))
    return model


def _replaced(method: str, *_: object, **__: object) -> None:
    """Name what replaces a method of PaDiff.

    Raises:
        ConfigError: Always.
    """
    raise ConfigError(f"a model has no {method!r} here", hint=f"use {_METHODS[method]}")


def check_dataloader(
    reference: Iterable[object],
    candidate: Iterable[object],
    *,
    batches: int | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    quiet: bool = False,
) -> Comparison:
    """Compare what two data loaders give, batch by batch; each batch is a step.

    Args:
        reference: Gives batches: tensors, arrays, numbers, or containers of these.
        candidate: Gives those to judge. A batch more or fewer is a divergence; the first of
            the result's reasons says which loader ended, and before which batch.
        batches: Look at no more than these.
        atol: Absolute tolerance; by default that of the dtype.
        rtol: Relative tolerance; by default that of the dtype.
        quiet: Print no report.

    Raises:
        ConfigError: A loader gives nothing, or something that is no number.
    """
    with scratch_folder() as folder:
        paths = [
            write_named(folder / name, _batches(loader, batches))
            for name, loader in (("reference", reference), ("candidate", candidate))
        ]
        comparison = compare(paths[0], paths[1], CompareSettings(atol=atol, rtol=rtol))
    reasons = (*_early_end(comparison), *comparison.reasons)
    comparison = replace(comparison, reasons=reasons, places=None)
    if not quiet:
        _print(comparison)
    return comparison


def _early_end(comparison: Comparison) -> list[VerdictReason]:
    """Return which loader ended before the other, and at which batch."""
    sides = [(len(comparison.reference.files), "reference")]
    sides.append((len(comparison.candidate.files), "candidate"))
    (count, short), (longest, long) = sorted(sides)
    if count == longest:
        return []
    line = f"the {short}'s loader ended before batch {count}, which the {long}'s gave"
    return [VerdictReason(ReasonKind.ONE_SIDED, line)]


def _batches(loader: Iterable[object], limit: int | None) -> Iterable[dict[str, Any]]:
    for number, batch in enumerate(loader):
        if limit is not None and number >= limit:
            return
        yield arrays_of(batch)


def _share_weights(reference: LiveRun, candidate: LiveRun) -> WeightPlan:
    """Copy the reference's weights into the candidate; run both where names leave a doubt.

    Returns:
        The plan that was carried out.

    Raises:
        ConfigError: A weight has no partner, or several.
        RecordError: A model does not run, and not because of its weights.
    """
    known, found = adapters.find(reference.model), adapters.find(candidate.model)
    side, live = LiveSide(reference.model, known), LiveSide(candidate.model, found)
    map_file = candidate.map_file
    with ExitStack() as exits:
        played: Side | None = None
        about: dict[str, Any] = {}
        if not plan_weights(side, live, map_file=map_file).is_firm:
            run = exits.enter_context(rehearsed(reference.model, known, reference.forward))
            played = exits.enter_context(open_dump(run).open())
            again = candidate.model, found, candidate.forward
            about["rehearsal"] = lambda: rehearse(*again)
            about["fed"] = lambda told: rehearse_fed(*again, run, told)
        try:
            return weights.carry_over(
                side if played is None else played,
                live,
                task="cannot assign weights",
                map_file=map_file,
                **about,
            )
        except WeightError as error:
            error.hint = (
                "say by map= which is which, or assign what fits by "
                "padiff.assign_weight(…, strict=False) and call auto_diff(…, auto_init=False)"
            )
            raise


def _either(name: str, given: object, old: object) -> Any:  # noqa: ANN401
    """Take an argument by its name or by PaDiff's older one."""
    if isinstance(given, bool):
        raise ConfigError(
            f"cannot use {name}={given}: expected one for each model",
            hint="PaDiff's further arguments go by name here: auto_weights=True, options={...}",
        )
    return old if given is None else given


def _two(what: str, given: Any) -> tuple[Any, Any]:  # noqa: ANN401
    if given is None:
        return None, None
    if not isinstance(given, list | tuple) or len(given) != BOTH:
        raise ConfigError(f"cannot use {what}: expected one for each model, found {given!r:.80}")
    return given[0], given[1]


def _recording(options: Options, out: Path, name: str) -> RecordSettings:
    phase = Phase.FORWARD if options.diff_phase == "forward" else Phase.BACKWARD
    return RecordSettings(
        out=out, name=name, phase=phase, overwrite=options.out is not None, alone=True
    )


def _comparing(options: Options, map_file: MapFile | None) -> CompareSettings:
    phases = (Phase.BACKWARD, Phase.UPDATE) if options.diff_phase == "backward" else None
    return CompareSettings(
        atol=options.atol,
        rtol=options.rtol,
        mode=Mode(options.compare_mode),
        phases=phases,
        include=options.include,
        exclude=options.exclude,
        map_file=map_file,
    )


def _print(comparison: Comparison) -> None:
    from padiff.cli.output import emit, render_to_text  # noqa: PLC0415 - only where it is drawn
    from padiff.comparer.report.style import Canvas  # noqa: PLC0415
    from padiff.comparer.report.terminal import closing_line  # noqa: PLC0415

    def draw(console: Console) -> None:
        render(comparison, console)
        canvas = Canvas(console=console)
        canvas.line()
        canvas.line(closing_line(canvas, comparison))

    emit(render_to_text(draw))


_OLD_NAMES = {"auto_weights": "auto_init", "layer_map": "map"}
"""What versions of PaDiff called an option."""
_GONE = {
    "white_list": "include=['encoder.*', 'type:Linear'] compares only what matches",
    "black_list": "exclude=['**.dropout', 'type:Dropout', model.head] leaves out what matches",
    "use_loss": "loss_fns alone says so",
    "use_opt": "optimizers alone says so",
    "opt_type": "optimizers may be optimizers or functions without arguments",
    "cmd": "the report is printed, unless quiet=True",
    "debug": "out=FOLDER keeps both dumps, and `padiff show` prints them",
}
"""Options of PaDiff without a counterpart of that meaning, and what to use."""
_PHASES = ("both", "forward", "backward")
_MODES = ("mean", "strict")
_KINDS = (
    ("atol", Real, "a number"),
    ("rtol", Real, "a number"),
    ("steps", Integral, "a whole number"),
    ("seed", Integral, "a whole number"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``auto_diff`` is told by name."""

    auto_init: bool = True
    steps: int = 1
    diff_phase: str = "both"
    compare_mode: str = "strict"
    atol: float | None = None
    rtol: float | None = None
    single_step: bool = False
    outputs: Any = None
    seed: int | None = None
    map: Any = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    out: str | Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        """Refuse what no run can do.

        Raises:
            ConfigError: An option has a value that it cannot have.
        """
        for name, known in (("diff_phase", _PHASES), ("compare_mode", _MODES)):
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(
                    f"cannot use {name}={value!r}: expected one of {', '.join(known)}"
                )
        for name, kind, said in _KINDS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                raise ConfigError(f"cannot use {name}={value!r:.80}: expected {said}")
        if self.steps < 1:
            raise ConfigError(f"cannot run {self.steps} steps: expected 1 or more")


def options_of(
    options: Mapping[str, Any] | None, more: Mapping[str, Any], models: Sequence[Any] = ()
) -> Options:
    """Read options given in a dict, as PaDiff took them, and by name.

    A call in PaDiff's spelling keeps PaDiff's default ``compare_mode="mean"``, since the
    tolerances in it were chosen for means.

    Raises:
        ConfigError: An option is unknown, gone, given twice, or has an unusable value.
    """
    given: dict[str, Any] = {}
    for name, value in [*(options or {}).items(), *more.items()]:
        known = _OLD_NAMES.get(name, name)
        if known in given:
            raise ConfigError(f"cannot use the option {name!r}: it was given twice")
        given[known] = value
    _check_names(given)
    if options is not None or _OLD_NAMES.keys() & more.keys():
        given.setdefault("compare_mode", "mean")
    for name in ("include", "exclude"):
        if name in given:
            given[name] = patterns_of(name, given[name], *models)
    return Options(**given)


def _check_names(given: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(Options)]
    for name in given:
        if name in _GONE:
            raise ConfigError(f"cannot use PaDiff's option {name!r}", hint=_GONE[name])
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(
                f"cannot use the option {name!r}: auto_diff has none of that name",
                hint=f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known)}",
            )
