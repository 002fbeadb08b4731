"""Compare two dumps: align, measure, judge, locate."""

from __future__ import annotations

from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from padiff.dumpfile import CompareError, ConfigError, Dump, Phase, StepFile, open_dump
from padiff.dumpfile.bulk import collector_paused
from padiff.pairing import learn_partners, pair

from .decided import explain_by_rounding, is_asked, with_execution
from .facts.callfacts import add_call_facts
from .facts.draws import random_notes
from .facts.learningrates import add_rate_facts
from .facts.optimizeroptions import Optimizers, add_option_facts
from .faults import locate_by_execution
from .judgedpairs import remarkable
from .judging.coverage import count_coverage
from .judging.judge import judge
from .judging.noise import Noise, read_noise
from .judging.threeway import ThreeWay, count_more_precise, measure_golden
from .judging.updates import TrainingJudge
from .later import Later
from .locating.calltree import CallTree, is_bad
from .locating.fed import Fed, read_fed
from .locating.locate import Located, locate
from .locating.tree import merge_trees
from .lossoutputs import excuse_left_out
from .narrow import narrow, reported
from .paired import paired_calls, paired_modules
from .proving import Execution, ask_all, read_earlier
from .remarks import decide, name_of_place, notes_of_run, notes_of_step, reasons_of_step
from .result import Comparison, StepComparison
from .scope import StepScope, scope_of_run, scope_of_step
from .settings import CompareSettings
from .steps import inherit_across
from .treerows import TreeRows, columns_of
from .unrecorded import leave_unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from padiff.dumpfile import Manifest
    from padiff.pairing import Pairing, RunPartners

    from .judging.judge import Judgement


__all__ = ["compare"]

Given = ParamSpec("Given")
Item = TypeVar("Item")

_WITHOUT_ELEMENTS = ("program", "stats", "digest")
"""What the reference may have been recorded with so that its values can only be computed again."""

Scales = tuple[Noise | None, ThreeWay | None]
"""What was measured of how far correct runs differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What all steps of one comparison share."""

    training: TrainingJudge
    partners: RunPartners
    fed: Fed
    manifests: tuple[Manifest, Manifest]
    """The reference's and the candidate's."""
    executed: dict[int, Execution] = field(default_factory=dict)
    """What executing the last step of each rank said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _StepResult:
    """One compared step with what the whole needs to know of it."""

    step: StepComparison
    used_rules: frozenset[int]
    used_allowances: frozenset[str]
    records: int
    scope: StepScope


def compare(
    reference: Path | str, candidate: Path | str, settings: CompareSettings | None = None
) -> Comparison:
    """Compare two dumps, step by step and rank by rank, in numeric order.

    A step or rank that only one of them has is a divergence.

    Args:
        reference: Directory of the dump held to be right.
        candidate: Directory of the dump to judge.
        settings: What to compare and when a difference counts; None takes the defaults.

    Raises:
        DumpError: One of them cannot be read.
        ConfigError: The settings select nothing.
        CompareError: The dumps have nothing in common.
    """
    with collector_paused():
        return _compare(open_dump(reference), open_dump(candidate), settings or CompareSettings())


def _compare(known: Dump, found: Dump, settings: CompareSettings) -> Comparison:
    places = _places(known, settings), _places(found, settings)
    common = sorted(places[0] & places[1])
    _check_common(places, common, settings)
    training = TrainingJudge(settings=settings)
    threeway = None
    if settings.golden is not None:
        threeway = measure_golden((settings.golden, known.path, found.path), settings, compare)
    noise = read_noise((known, found), settings.floor, settings.floor_factor, common)
    fed = read_fed(found.manifest)
    partners = learn_partners(known, found, common, settings.map_file)
    run = _Run(
        training=training,
        partners=partners,
        fed=fed,
        manifests=(known.manifest, found.manifest),
    )
    results: list[_StepResult] = []
    for place in common:
        if results:
            _make_all(results[-1].step)
        scales = noise.get(place), threeway
        results.append(_compare_step(known, found, place, run, scales))
    if not any(result.records for result in results):
        raise ConfigError(
            "the selection of phases and modules holds no record of either dump",
            hint="check --phase, --include and --exclude against `padiff show`",
        )
    steps = add_rate_facts(inherit_across([result.step for result in results], fed.phases))
    reasons = [
        *_one_sided(places),
        *(line for step in steps for line in reasons_of_step(step, settings)),
    ]
    scope = scope_of_run([result.scope for result in results], settings, known.manifest.settings)
    scope = with_execution(scope, steps, settings)
    verdict, reasons = decide(reasons, scope)
    result = Comparison(
        verdict=verdict,
        reasons=tuple(reasons),
        reference=known.manifest,
        candidate=found.manifest,
        steps=steps,
        settings=settings.to_json(),
        scope=scope,
        notes=notes_of_run(
            known,
            found,
            settings,
            used_rules=[place for result in results for place in result.used_rules],
            used_allowances=frozenset().union(*(result.used_allowances for result in results)),
        ),
    )
    return result if threeway is None else _with_precision(result)


def _with_precision(result: Comparison) -> Comparison:
    """Say how many records of the candidate are nearer to the golden run."""
    count = count_more_precise(result)
    note = f"the candidate is more precise than the reference in {count} records"
    return replace(result, notes=(*result.notes, note)) if count else result


def _places(dump: Dump, settings: CompareSettings) -> set[tuple[int, int]]:
    """Give the (step, rank) that the user wants of a dump."""
    return {
        (info.step, info.rank)
        for info in dump.files
        if (settings.steps is None or info.step in settings.steps)
        and (settings.ranks is None or info.rank in settings.ranks)
    }


def _check_common(
    places: tuple[set[tuple[int, int]], set[tuple[int, int]]],
    common: Sequence[tuple[int, int]],
    settings: CompareSettings,
) -> None:
    if common:
        return
    if not any(places) and (settings.steps is not None or settings.ranks is not None):
        raise ConfigError(
            "neither dump has the steps and ranks that were asked for",
            hint="see what there is with `padiff show`",
        )
    have = [", ".join(map(name_of_place, sorted(side))) or "nothing" for side in places]
    raise CompareError(
        f"the dumps have no step and rank in common: expected {have[0]}, found {have[1]}"
    )


def _one_sided(places: tuple[set[tuple[int, int]], set[tuple[int, int]]]) -> list[str]:
    lines = []
    known, found = places
    for name, mine, other in (("reference", known, found), ("candidate", found, known)):
        ranks = sorted({rank for _, rank in mine} - {rank for _, rank in other})
        if ranks:
            listed = ", ".join(map(str, ranks))
            lines.append(f"{'rank' if len(ranks) == 1 else 'ranks'} {listed} only in the {name}")
        lone = sorted(place for place in mine - other if place[1] not in ranks)
        lines += [f"{name_of_place(place)} is only in the {name}" for place in lone]
    return lines


def _compare_step(
    reference: Dump,
    candidate: Dump,
    place: tuple[int, int],
    run: _Run,
    scales: Scales,
) -> _StepResult:
    with ExitStack() as exits:
        known = exits.enter_context(reference.open(*place))
        found = exits.enter_context(candidate.open(*place, like=known))

        def before() -> tuple[StepFile, StepFile] | None:
            earlier = place[0] - 1, place[1]
            if any(
                earlier not in _places(side, CompareSettings()) for side in (reference, candidate)
            ):
                return None
            return (
                exits.enter_context(reference.open(*earlier)),
                exits.enter_context(candidate.open(*earlier)),
            )

        told = Optimizers.read(reference.manifest.settings, candidate.manifest.settings)
        result = _compare_files(known, found, run, scales, told, before)
        seeds = reference.manifest.seed, candidate.manifest.seed
        notes = random_notes(result.step.divergences, (known, found), seeds)
    return replace(result, step=replace(result.step, notes=(*result.step.notes, *notes)))


def _compare_files(
    known: StepFile,
    found: StepFile,
    run: _Run,
    scales: Scales,
    told: Optimizers,
    before: Callable[[], tuple[StepFile, StepFile] | None],
) -> _StepResult:
    settings = run.training.settings
    pairing = _pair_files(known, found, settings, run.partners)
    pairing = leave_unrecorded(pairing, (known.index, found.index), run.manifests)

    def release() -> None:
        known.release_pages()
        found.release_pages()

    judgement = judge(known, found, pairing, settings, scales=scales, release=release)
    judgement = excuse_left_out(judgement, pairing, (known.index, found.index), run.manifests)
    judgement = run.training.settle(judgement, pairing, known, found)
    executed = _executed(known, found, pairing, run, before)
    if executed is not None:
        judgement = explain_by_rounding(judgement, (known, found), executed, settings)
    if run.fed.phases:
        executed = None  # what is fed is no function of the model's inputs
    located = Located(divergences=(), pairs=judgement.pairs)
    if any(is_bad(pair) for _, pair in remarkable(judgement.pairs)):
        tree = CallTree(judgement, pairing, known.index, found.index, fed=run.fed)
        located = locate(tree, (known.framework, found.framework))
        located = add_call_facts(located, known, found)
    if executed is not None:
        is_port = known.framework != found.framework
        located = locate_by_execution(located, executed, settings, is_port=is_port)
    located = add_option_facts(located, pairing, (known.index, found.index), told)
    result = _result_of_step(known, found, pairing, judgement, located, settings.phases)
    return replace(result, step=replace(result.step, executed=executed))


def _executed(
    known: StepFile,
    found: StepFile,
    pairing: Pairing,
    run: _Run,
    before: Callable[[], tuple[StepFile, StepFile] | None],
) -> Execution | None:
    """Execute both programs; None where that is not asked, or neither side has one."""
    has_program = known.has_program or found.has_program
    is_fed = Phase.FORWARD in run.fed.phases
    if is_fed or not (has_program and is_asked(run.training.settings)):
        return None
    rank = known.index.rank
    said = run.executed.get(rank)
    earlier = None if said is None else read_earlier(before(), said)
    kept = run.manifests[0].settings.get("content")
    executed = run.executed[rank] = ask_all(
        known, found, pairing, earlier, is_recomputed=kept in _WITHOUT_ELEMENTS
    )
    return executed


def _result_of_step(
    known: StepFile,
    found: StepFile,
    pairing: Pairing,
    judgement: Judgement,
    whole: Located,
    phases: Sequence[Phase] | None,
) -> _StepResult:
    """Put together what was found of a step; what reports alone need is made when they do."""
    sides = known.index, found.index
    judgement, located, earlier = reported(judgement, whole, phases)
    told = replace(located, divergences=whole.divergences)
    coverages = count_coverage(judgement, *sides)
    tree = TreeRows(partial(merge_trees, pairing, *sides, located.pairs, located.divergences))
    if located.divergences:
        columns_of(tree)
    step = StepComparison(
        step=known.index.step,
        rank=known.index.rank,
        pairs=located.pairs,
        divergences=located.divergences,
        tree=tree,
        coverage_reference=coverages[0],
        coverage_candidate=coverages[1],
        same_structure=pairing.same_structure,
        notes=(*earlier, *notes_of_step(known, found, pairing, told)),
        pairing=_later(paired_modules, located, pairing, *sides),
        calls=_later(paired_calls, located, pairing, *sides),
        records=judgement.records,
    )
    return _StepResult(
        step=step,
        used_rules=judgement.used_rules,
        used_allowances=judgement.used_allowances,
        records=len(located.pairs),
        scope=scope_of_step(judgement, known.index),
    )


def _make_all(step: StepComparison) -> None:
    """Make what is made when it is looked into, so that indexes and pairing can go.

    They take more memory than what is made, of every step of a long run.
    """
    columns_of(step.tree)
    for made in (step.pairs, step.pairing, step.calls):
        deque(made, maxlen=0)


def _later(
    make: Callable[Given, Sequence[Item]],
    located: Located,
    *given: Given.args,
    **named: Given.kwargs,
) -> Sequence[Item]:
    """Make something when it is looked into; at once where something diverged, for it will be."""
    if located.divergences:
        return make(*given, **named)
    return Later(partial(make, *given, **named))


def _pair_files(
    known: StepFile, found: StepFile, settings: CompareSettings, partners: RunPartners
) -> Pairing:
    """Pair what the settings select.

    Raises:
        CompareError: Nothing has a counterpart.
    """
    whole = pair(known, found, map_file=settings.map_file, run=partners)
    if not whole.records and (known.index.records or found.index.records):
        place = name_of_place((known.index.step, known.index.rank))
        raise CompareError(
            f"{place}: no record of the reference has a counterpart in the candidate",
            hint="arrays go by their names, that of a .npy file has none"
            if known.framework == found.framework == "numpy"
            else "are these dumps of the same model?",
        )
    return narrow(whole, known.index, found.index, settings)
