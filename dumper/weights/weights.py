"""Load weights into a live model from a dump or a checkpoint, by the plan that pairs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumper.adapters import find
from padiff.dumper.recording.live import LiveSide
from padiff.dumpfile import ConfigError, DumpError, RecordError, RecordInfo
from padiff.pairing import pair as pair_runs
from padiff.pairing.maps.mapfile import MapFile, read_map
from padiff.pairing.result import PairedBy
from padiff.pairing.weights.plan import plan_weights
from padiff.pairing.weights.settled import settled_by_content, without_unsaved
from padiff.pairing.weights.tried import grounded
from padiff.pairing.weights.weight_text import (
    WeightError,
    draw_problems,
    example_of,
    problems_of,
    weight_name,
)

from .checkpoint import open_source
from .trial import Trial

if TYPE_CHECKING:
    import numpy.typing as npt

    from padiff.dumper.adapter import Adapter, Model
    from padiff.pairing.side import Side
    from padiff.pairing.weights.weight_plan import WeightPair, WeightPlan

Rehearsal = Callable[[], AbstractContextManager["Side"]]
"""Runs the live model once and gives what was recorded (``rehearsal.py``)."""
FedRehearsal = Callable[["MapFile | None"], AbstractContextManager["Side"]]
"""The same, each call handing on what the reference's did."""


def load_weights(
    model: Model,
    adapter: Adapter,
    source: Path | str,
    *,
    map_file: MapFile | Path | None = None,
    strict: bool = True,
    rehearsal: Rehearsal | None = None,
    fed: FedRehearsal | None = None,
) -> WeightPlan:
    """Overwrite the parameters and buffers of a model with those of a dump or file, in place.

    Dtypes and devices of the model stay, so does every tensor object: optimizers stay attached.

    Args:
        model: The live model.
        adapter: The adapter of its framework.
        source: A dump, or a checkpoint file (safetensors, torch's, Paddle's).
        map_file: Pairs and rules that the user decided.
        strict: Whether anything missing or ambiguous is an error; False loads what is paired.
        rehearsal: Runs the model once, if more than equal names is needed to decide.
        fed: Runs it with what the reference's calls handed on, where a fault hides what belongs
            where.

    Returns:
        The plan that was carried out.

    Raises:
        ConfigError: Something has no partner, does not fit, or cannot be decided; all of it is
            listed, and the model is as it was.
        DumpError: The source cannot be read.
    """
    entries = read_map(map_file) if isinstance(map_file, Path) else map_file
    with ExitStack() as stack:
        side: Side = stack.enter_context(open_source(source))
        task = f"cannot load weights from {str(source)!r}"
        live = LiveSide(model, adapter)
        return carry_over(
            side, live, task=task, map_file=entries, strict=strict, rehearsal=rehearsal, fed=fed
        )


def assign_weight(
    reference: Model | Path | str,
    candidate: Model,
    map: MapFile | Path | str | None = None,  # noqa: A002 - the name that PaDiff's users know
    *,
    strict: bool = True,
) -> WeightPlan:
    """Copy another live model's, a dump's or a checkpoint's weights into a live model, in place.

    Args:
        reference: A model of either framework, or the path of a dump or checkpoint.
        candidate: The model to change.
        map: A map file with pairs and rules that the user decided.
        strict: Whether anything missing or ambiguous is an error.

    Returns:
        The plan that was carried out.

    Raises:
        ConfigError: All problems at once; the candidate is as it was.
        DumpError: The reference cannot be read.
    """
    entries = read_map(Path(map)) if isinstance(map, str | Path) else map
    with opened_sides(reference, candidate) as (side, live, task):
        return carry_over(side, live, task=task, map_file=entries, strict=strict)


@contextmanager
def opened_sides(
    reference: Model | Path | str, candidate: Model
) -> Iterator[tuple[Side, LiveSide, str]]:
    """Open where weights come from and go to, with how an error about them begins.

    Raises:
        DumpError: The reference cannot be read.
    """
    live = LiveSide(candidate, find(candidate))
    if isinstance(reference, str | Path):
        with open_source(reference) as side:
            yield side, live, f"cannot load weights from {str(reference)!r}"
    else:
        yield LiveSide(reference, find(reference)), live, "cannot assign weights"


def carry_over(
    side: Side,
    live: LiveSide,
    *,
    task: str = "cannot carry weights over",
    map_file: MapFile | None = None,
    strict: bool = True,
    rehearsal: Rehearsal | None = None,
    fed: FedRehearsal | None = None,
) -> WeightPlan:
    """Plan, check everything, and only then overwrite the live model's tensors in place.

    Args:
        side: Where the values come from.
        live: The model to change.
        task: How an error message begins.
        map_file: What the user decided.
        strict: Whether anything missing or ambiguous is an error.
        rehearsal: As ``load_weights``.
        fed: As ``load_weights``.

    Raises:
        ConfigError: As ``load_weights``; the model is as it was.
        RecordError: The model does not run, and not because of its weights.
    """
    plan = plan_weights(side, live, map_file=map_file)
    failed: RecordError | None = None
    if rehearsal is not None and side.index.calls and not plan.is_firm:
        try:
            plan = _tried(plan, side, live, rehearsal, fed, map_file, strict=strict)
        except RecordError as error:
            if not (strict and plan.missing):
                raise
            failed = error  # weights that do not fit are why
    plan = without_unsaved(settled_by_content(plan, side, live), side, live)
    problems = list(problems_of(plan, side, live)) if strict else []
    ready, unreadable = _ready(plan, side, live)
    problems += unreadable
    if problems:
        trees = (*draw_problems(plan, side, live), *example_of(plan, side, live))
        said = () if failed is None else (f"no run could tell more: {failed.message}",)
        raise WeightError(task, problems, (*trees, *said) if strict else ()) from failed
    _assign(live, ready)
    return replace(plan, loaded=_names(plan, side, live))


def _tried(
    plan: WeightPlan,
    side: Side,
    live: LiveSide,
    rehearsal: Rehearsal,
    fed: FedRehearsal | None,
    map_file: MapFile | None,
    *,
    strict: bool,
) -> WeightPlan:
    """Return the plan with what runs of the model tell; its weights are as they were.

    Raises:
        RecordError: The model does not run.
    """
    with _unchanged(live):
        supposed = _supposed(plan, side, live, rehearsal, map_file)
        if strict and supposed.missing:
            return supposed
        trial = Trial(
            reference=side,
            live=live.index,
            named=_named(plan),
            load=lambda tried: _assign(
                live, _ready(without_unsaved(tried, side, live), side, live)[0]
            ),
            rehearse=rehearsal,
            fed=None if fed is None else lambda: fed(map_file),
            replan=lambda told: plan_weights(side, live, modules=told, map_file=map_file),
            map_file=map_file,
        )
        return trial.settle(supposed)


def _names(plan: WeightPlan, side: Side, live: LiveSide) -> dict[str, tuple[str, ...]]:
    """Name what each weight was made of; readable once source and model are gone."""
    records = side.index.records, live.index.records
    return {
        weight_name(live, records[1][pair.candidate]): tuple(
            weight_name(side, records[0][record]) for record in pair.reference
        )
        for pair in plan.pairs
    }


def _supposed(
    plan: WeightPlan,
    side: Side,
    live: LiveSide,
    rehearsal: Rehearsal,
    map_file: MapFile | None,
) -> WeightPlan:
    """Add to a plan what the order of a run says; what that leaves open is supposed, in doubt."""
    with rehearsal() as played:
        modules = pair_runs(side, played, map_file=map_file, explains_unmatched=False).modules
    told = grounded(modules, side.index, played.index)  # a broken tie tells nothing
    tensors = {record.id: record.tensor for record in side.index.records}
    ordered = plan_weights(side, live, modules=told, map_file=map_file).doubted_by(plan, tensors)
    if not (ordered.missing or ordered.ambiguous):
        return ordered
    bold = ordered.filled_by(plan_weights(side, live, modules=modules, map_file=map_file))
    return ordered if bold.missing else bold


def _named(plan: WeightPlan) -> dict[int, tuple[int, ...]]:
    """Return what weights are made of by their names alone."""
    return {
        pair.candidate: pair.reference
        for pair in plan.pairs
        if pair.paired_by is PairedBy.NAME and not pair.is_ambiguous
    }


@contextmanager
def _unchanged(live: LiveSide) -> Iterator[None]:
    """Restore a model's weights."""
    before = [(record, live.array(record)) for record in live.index.records]
    try:
        yield
    finally:
        _assign(live, before)


def _assign(live: LiveSide, arrays: Iterable[tuple[RecordInfo, npt.NDArray[Any]]]) -> None:
    for record, array in arrays:
        live.assign(record, array)


def _ready(
    plan: WeightPlan, side: Side, live: LiveSide
) -> tuple[list[tuple[RecordInfo, npt.NDArray[Any]]], list[str]]:
    """Make every array before the first assignment, one for each distinct tensor."""
    found: dict[int | None, tuple[RecordInfo, npt.NDArray[Any], WeightPair]] = {}
    problems: list[str] = []
    for pair in plan.pairs:
        target = live.index.records[pair.candidate]
        sources = [side.index.records[record] for record in pair.reference]
        try:
            arrays = [side.array(record) for record in sources]
            array = pair.rule.apply(arrays, target.shape)
        except (ConfigError, DumpError) as error:
            problems.append(f"{weight_name(live, target)}: {error.message}")
            continue
        known = found.setdefault(target.tensor, (target, array, pair))
        if known[2].reference != pair.reference and not _equal(known[1], array):
            problems.append(
                f"{weight_name(live, target)}: the same tensor as {weight_name(live, known[0])}, "
                "but their partners hold different values"
            )
    return [(target, array) for target, array, _ in found.values()], problems


def _equal(one: npt.NDArray[Any], two: npt.NDArray[Any]) -> bool:
    return one.shape == two.shape and bool(np.array_equal(one, two))
