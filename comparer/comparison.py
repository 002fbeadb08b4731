"""Compare two dumps: align, measure, judge, locate."""

from __future__ import annotations

import warnings
from collections import deque
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from padiff.comparer.locating.tree import paired_calls, paired_modules
from padiff.dumpfile import (
    CompareError,
    ConfigError,
    Dump,
    DumpError,
    DumpNotFoundError,
    Phase,
    StepFile,
    open_dump,
)
from padiff.dumpfile.bulk import collector_paused
from padiff.pairing import RunPartners, pair
from padiff.program import on_one_thread

from . import executors
from .decided import differing_records, explain_by_rounding, is_asked, with_execution
from .executors import Workers, default_jobs
from .facts.draws import add_call_facts, random_notes
from .facts.optimizers import Optimizers, add_option_facts, add_rate_facts
from .faults import locate_by_execution
from .judgedpairs import Later, remarkable
from .judging.decision import ThreeWay, count_more_precise, measure_golden
from .judging.judge import judge
from .judging.noise import Noise, read_noise
from .judging.updates import TrainingJudge
from .left_out import excuse_left_out, leave_unrecorded, narrow, reported
from .locating.calltree import CallTree, is_bad
from .locating.fed import Fed, read_fed
from .locating.locate import Located, locate
from .locating.tree import merge_trees
from .parts import Parts
from .proving import Execution, ask_all, read_earlier
from .remarks import decide, name_of_place, notes_of_run, notes_of_step, reasons_of_step
from .result import Comparison, ReasonKind, StepComparison, VerdictReason
from .scope import count_coverage, scope_of_run, scope_of_step
from .settings import CompareSettings
from .sharding.causes import add_rank_causes
from .sharding.logicalstep import logical_sides
from .sharding.sides import Sides
from .sharding.verdicts import judge_ranks
from .steps import inherit_across
from .tasks import Chain, ChainState, Part, Place, Runner, StepResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumpfile import Manifest, Mesh, StepReader
    from padiff.pairing import Pairing

    from .judging.judge import Judgement
    from .parts import PartsFolder
    from .tasks import Watch


Given = ParamSpec("Given")
Item = TypeVar("Item")

_WITHOUT_ELEMENTS = ("program", "stats", "digest")
"""What the reference may have been recorded with so that its values can only be computed again."""

WORTH_S = 4.0
"""Estimated seconds from which other processes compare, too: each takes 1.2 s to start."""
BYTES_A_SECOND = 600 << 20
"""Of files that one process compares: both sides of float32 that differ."""
RECORD_S = 1.5e-3
"""What a record of a real model takes in seconds, execution included."""

_STAGES = frozenset({"pp", "pipe", "pipeline", "stage"})
"""Names that frameworks and their users give to the dimension of a mesh that is a pipeline."""

Scales = tuple[Noise | None, ThreeWay | None]
"""What was measured of how far correct runs differ."""


class _Silent:
    """Shows no progress, and warns as libraries do."""

    def begin(self, steps: int) -> None:
        """Do nothing."""

    def advance(self, steps: int) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Warn."""
        warnings.warn(text, RuntimeWarning, stacklevel=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What the steps of one task share."""

    state: ChainState
    fed: Fed
    manifests: tuple[Manifest, Manifest]
    """The reference's and the candidate's."""
    settings: CompareSettings


@dataclass(slots=True, kw_only=True)
class _Work:
    """What the tasks of one comparison do, in whatever process: they open the dumps by name."""

    names: tuple[Path | str, Path | str]
    settings: CompareSettings
    joined: tuple[bool, ...]
    """Of each side, whether its ranks are taken together."""
    noise: Mapping[Place, Noise]
    threeway: ThreeWay | None
    about: tuple[object, ...]
    """What tells both dumps from others of the same names."""
    parts: PartsFolder | None = None
    """Where what was found is left; None lets it travel."""
    version: str = ""
    """Of padiff, where the comparison was planned, once it is to travel."""
    sides: Sides | None = None
    """Of this process; no part of what travels."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"sides": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def learn(self, place: Place) -> RunPartners:
        with collector_paused(), on_one_thread():
            sides = self._opened()
            run = self._partners(sides, place)
            with suppress(DumpError), sides.open(place) as (known, found):
                pair(
                    *(known, found),
                    map_file=self.settings.map_file,
                    run=run,
                    explains_unmatched=False,
                )
            return run

    def compare(
        self,
        places: Sequence[Place],
        before: ChainState | RunPartners | None,
        *,
        is_last: bool = False,
        is_end: bool = False,
    ) -> Part:
        with collector_paused(), on_one_thread():
            sides = self._opened()
            state = before
            if not isinstance(state, ChainState):
                state = ChainState(
                    training=TrainingJudge(settings=self.settings),
                    partners=state or self._partners(sides, places[0]),
                )
            manifests = sides.dumps[0].manifest, sides.dumps[1].manifest
            run = _Run(
                state=state,
                fed=read_fed(manifests[1]),
                manifests=manifests,
                settings=self.settings,
            )
            folder = self.parts if self.parts is not None and self.parts.is_shared() else None
            results: list[StepResult] = []
            for place in places:
                result = _compare_step(sides, place, run, (self.noise.get(place), self.threeway))
                if folder is not None:
                    result = folder.store(result)
                if not (is_last and place == places[-1]):
                    _make_all(result.step)
                results.append(result)
            return Part(results=tuple(results), state=None if is_end else state)

    def _opened(self) -> Sides:
        """Return both dumps.

        Raises:
            CompareError: This is another version of padiff, or the dumps are not here.
        """
        if self.sides is not None:
            return self.sides
        executors.check_version(self.version, "the process that planned this")
        try:
            known, found = map(open_dump, self.names)
        except DumpNotFoundError as error:
            raise CompareError(
                f"{error.message}, where a task of the comparison runs",
                hint="all workers must find both dumps under the same names",
            ) from None
        if _about(known, found) != self.about:
            names = " or ".join(repr(str(name)) for name in self.names)
            raise CompareError(
                f"cannot compare: {names} is another dump where a task of the comparison runs",
                hint="all workers must find both dumps under the same names",
            )
        self.sides = Sides(known, found, self.settings.over_ranks, joined=self.joined)
        return self.sides

    def _partners(self, sides: Sides, first: Place) -> RunPartners:
        """Learn partners from the first step of a group, unless that is compared itself."""
        return sides.partners(first, self.settings.map_file)


def _about(*dumps: Dump) -> tuple[object, ...]:
    """Return what tells dumps from others of the same names."""
    manifests = [dump.manifest for dump in dumps]
    return tuple((one.name, one.created, len(one.files)) for one in manifests)


def compare(
    reference: Path | str,
    candidate: Path | str,
    settings: CompareSettings | None = None,
    *,
    watch: Watch | None = None,
) -> Comparison:
    """Compare two dumps, step by step and rank by rank, in numeric order.

    A step or rank that only one of them has is a divergence. The result is the same whatever the
    settings say of where the work is done.

    Args:
        reference: Directory of the dump held to be right.
        candidate: Directory of the dump to judge.
        settings: What to compare and when a difference counts; None takes the defaults.
        watch: Who is told how far it got; None tells nobody.

    Raises:
        DumpError: One of them cannot be read.
        ConfigError: The settings select nothing, or name no scheduler.
        CompareError: The dumps have nothing in common, or a scheduler is not there or lost tasks.
    """
    names = reference, candidate
    with collector_paused(), on_one_thread():
        return _compare(names, settings or CompareSettings(), watch or _Silent())


def _compare(
    names: tuple[Path | str, Path | str], settings: CompareSettings, watch: Watch
) -> Comparison:
    known, found = map(open_dump, names)
    sides = Sides(known, found, settings.over_ranks, by_rank=settings.ranks is not None)
    places = _selected(sides.places(0), settings), _selected(sides.places(1), settings)
    common = sorted(places[0] & places[1])
    _check_common(places, common, settings)
    threeway = None
    if settings.golden is not None:
        threeway = measure_golden((settings.golden, known.path, found.path), settings, compare)
    if sides.is_logical and settings.floor is not None:
        raise ConfigError(
            "cannot use a noise floor: it is one rank's, and ranks are taken together here",
            hint="leave --floor out, or compare single ranks with --rank",
        )
    noise = read_noise((known, found), settings.floor, settings.floor_factor, common)
    work = _Work(
        names=names,
        settings=settings,
        joined=sides.joined,
        about=_about(known, found),
        noise=noise,
        threeway=threeway,
        sides=sides,
    )
    results = _run(work, sides, common, watch)
    if not any(result.records for result in results):
        raise ConfigError(
            "the selection of phases and modules holds no record of either dump",
            hint="check --phase, --include and --exclude against `padiff show`",
        )
    fed = read_fed(found.manifest).phases
    steps = add_rate_facts(inherit_across([result.step for result in results], fed))
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
        notes=(
            *notes_of_run(
                known,
                found,
                settings,
                used_rules=[place for result in results for place in result.used_rules],
                used_allowances=frozenset().union(*(result.used_allowances for result in results)),
            ),
            *sides.notes(frozenset().union(*(result.used_layouts for result in results))),
        ),
    )
    return result if threeway is None else _with_precision(result)


def _run(work: _Work, sides: Sides, common: Sequence[Place], watch: Watch) -> Sequence[StepResult]:
    """Compare all steps, wherever the settings say."""
    chains = _chains(sides, common)
    settings = work.settings
    runner = Runner(work=work, chains=chains, watch=watch, scheduler=settings.scheduler)
    where: AbstractContextManager[Workers | None] = nullcontext()
    if settings.scheduler is not None:
        where = executors.on_scheduler(settings.scheduler)
        work.names = _everywhere(work.names[0]), _everywhere(work.names[1])
    elif len(chains) > 1 and _is_worth(sides, common, settings.jobs):
        where = _local(settings.jobs or default_jobs(), len(chains))
    parts: Parts | None = None
    with where as workers:
        if workers is not None:
            runner.executor = workers.executor
            work.settings = replace(settings, jobs=_shares(workers, len(chains), work.names))
            work.version = executors.own_version()
            parts = None if settings.parts is None else Parts(settings.parts)
            work.parts = None if parts is None else parts.folder
        return [
            result
            if parts is None or result.head is None
            else replace(result, step=parts.step(result.step, result.head), head=None)
            for result in runner.run()
        ]


@contextmanager
def _local(jobs: int, chains: int) -> Iterator[Workers]:
    with executors.local_pool(min(jobs, chains)) as pool:
        yield Workers(executor=pool, width=jobs)


def _shares(workers: Workers, chains: int, names: Sequence[Path | str]) -> int:
    """Return in how many parts a task may measure large tensors: as many as there are idle workers.

    Elements of a store are where they were fetched, and nowhere else.
    """
    is_stored = any("://" in str(name) for name in names)
    return 1 if is_stored else max(1, workers.width // chains)


def _everywhere(name: Path | str) -> Path | str:
    """Return the name of a dump that does not depend on the folder that a process is in."""
    return name if "://" in str(name) else Path(name).absolute()


def _is_worth(sides: Sides, common: Sequence[Place], jobs: int | None) -> bool:
    """Return whether groups of ranks are compared side by side in processes of this machine."""
    if jobs is not None:
        return jobs > 1
    steps = {step for step, _ in common}
    files = [info for dump in sides.dumps for info in dump.files if info.step in steps]
    seconds = sum(info.size_bytes for info in files) / BYTES_A_SECOND
    seconds += sum(info.records for info in files) / 2 * RECORD_S
    return default_jobs() > 1 and seconds >= WORTH_S


def _chains(sides: Sides, common: Sequence[Place]) -> list[Chain]:
    """Return the steps of each group of ranks, and which of them may have the same partners.

    Those of the same stage, with as many calls and records in their first step.
    """
    places: dict[int, list[Place]] = {}
    for place in common:
        places.setdefault(place[1], []).append(place)
    firsts = {steps[0] for steps in places.values()}
    forms: dict[int, list[object]] = {rank: [] for rank in places}
    for dump in sides.dumps:
        stages = _stages(dump.manifest.meshes)
        for info in dump.files:
            if (info.step, info.rank) in firsts:
                forms[info.rank] += [info.calls, info.records, stages.get(info.rank)]
    return [Chain(places=tuple(steps), form=tuple(forms[rank])) for rank, steps in places.items()]


def _stages(meshes: Sequence[Mesh]) -> dict[int, tuple[int, ...]]:
    """Return the place of each rank along dimensions that are stages of a pipeline."""
    found: dict[int, tuple[int, ...]] = {}
    for mesh in meshes:
        for axis, name in enumerate(mesh.dims):
            if name in _STAGES:
                below = prod(mesh.sizes[axis + 1 :])
                for at, rank in enumerate(mesh.ranks):
                    found[rank] = (*found.get(rank, ()), at // below % mesh.sizes[axis])
    return found


def _with_precision(result: Comparison) -> Comparison:
    """Return how many records of the candidate are nearer to the golden run."""
    count = count_more_precise(result)
    note = f"the candidate is more precise than the reference in {count} records"
    return replace(result, notes=(*result.notes, note)) if count else result


def _selected(places: set[Place], settings: CompareSettings) -> set[Place]:
    """Return the (step, rank) that the user wants of a dump."""
    return {
        (step, rank)
        for step, rank in places
        if (settings.steps is None or step in settings.steps)
        and (settings.ranks is None or rank in settings.ranks)
    }


def _check_common(
    places: tuple[set[Place], set[Place]],
    common: Sequence[Place],
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


def _one_sided(places: tuple[set[Place], set[Place]]) -> list[VerdictReason]:
    lines: list[str] = []
    known, found = places
    for name, mine, other in (("reference", known, found), ("candidate", found, known)):
        ranks = sorted({rank for _, rank in mine} - {rank for _, rank in other})
        if ranks:
            listed = ", ".join(map(str, ranks))
            lines.append(f"{'rank' if len(ranks) == 1 else 'ranks'} {listed} only in the {name}")
        lone = sorted(place for place in mine - other if place[1] not in ranks)
        lines += [f"{name_of_place(place)} is only in the {name}" for place in lone]
    return [VerdictReason(ReasonKind.ONE_SIDED, line) for line in lines]


def _compare_step(
    sides: Sides,
    place: Place,
    run: _Run,
    scales: Scales,
) -> StepResult:
    reference, candidate = sides.dumps
    with ExitStack() as exits:
        known, found = exits.enter_context(sides.open(place))

        def before() -> tuple[StepReader, StepReader] | None:
            earlier = place[0] - 1, place[1]
            if earlier not in sides.places(0) & sides.places(1):
                return None
            return exits.enter_context(sides.open(earlier))

        told = Optimizers.read(reference.manifest.settings, candidate.manifest.settings)
        result = _compare_files(known, found, run, scales, told, before)
        seeds = reference.manifest.seed, candidate.manifest.seed
        notes = random_notes(result.step.divergences, (known, found), seeds)
    return replace(
        result,
        step=replace(result.step, notes=(*result.step.notes, *notes)),
        used_layouts=frozenset(sides.used_entries),
    )


def _compare_files(
    known: StepReader,
    found: StepReader,
    run: _Run,
    scales: Scales,
    told: Optimizers,
    before: Callable[[], tuple[StepReader, StepReader] | None],
) -> StepResult:
    settings = run.settings
    pairing = _pair_files(known, found, settings, run.state.partners)
    pairing = leave_unrecorded(pairing, (known.index, found.index), run.manifests)

    def release() -> None:
        known.release_pages()
        found.release_pages()

    judgement = judge(known, found, pairing, settings, scales=scales, release=release)
    judgement = judge_ranks(judgement, pairing, (known, found), settings)
    judgement = excuse_left_out(judgement, pairing, (known.index, found.index), run.manifests)
    judgement = run.state.training.settle(judgement, pairing, known, found)
    executed = None
    if isinstance(known, StepFile) and isinstance(found, StepFile):
        executed = _executed(known, found, pairing, run, before, judgement)
        if executed is not None:
            judgement = explain_by_rounding(judgement, (known, found), executed, settings)
    if run.fed.phases:
        executed = None  # what is fed is no function of the model's inputs
    located = Located(divergences=(), pairs=judgement.pairs)
    if any(is_bad(pair) for _, pair in remarkable(judgement.pairs)):
        located = locate(CallTree(judgement, pairing, (known, found), fed=run.fed))
        located = add_call_facts(located, known, found)
        located = add_rank_causes(located, judgement, (known, found))
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
    before: Callable[[], tuple[StepReader, StepReader] | None],
    judgement: Judgement,
) -> Execution | None:
    """Execute both programs; None where that is not asked, or neither side has one."""
    has_program = known.has_program or found.has_program
    is_fed = Phase.FORWARD in run.fed.phases
    if is_fed or not (has_program and is_asked(run.settings)):
        return None
    said = run.state.executed
    earlier = None if said is None else read_earlier(before(), said)
    kept = run.manifests[0].settings.get("content")
    executed = run.state.executed = ask_all(
        known,
        found,
        pairing,
        earlier,
        is_recomputed=kept in _WITHOUT_ELEMENTS,
        last=max(run.settings.phases or Phase, key=list(Phase).index),
        differing=differing_records(judgement),
    )
    return executed


def _result_of_step(
    known: StepReader,
    found: StepReader,
    pairing: Pairing,
    judgement: Judgement,
    whole: Located,
    phases: Sequence[Phase] | None,
) -> StepResult:
    """Put together what was found of a step; what reports alone need is made when they do."""
    sides = known.index, found.index
    judgement, located, earlier = reported(judgement, whole, phases)
    told = replace(located, divergences=whole.divergences)
    coverages = count_coverage(judgement, *sides)
    step = StepComparison(
        step=known.index.step,
        rank=known.index.rank,
        pairs=located.pairs,
        divergences=located.divergences,
        tree=_later(merge_trees, located, pairing, *sides, located.pairs, located.divergences),
        coverage_reference=coverages[0],
        coverage_candidate=coverages[1],
        same_structure=pairing.same_structure,
        notes=(*earlier, *notes_of_step(known, found, pairing, told)),
        pairing=_later(paired_modules, located, pairing, *sides),
        calls=_later(paired_calls, located, pairing, *sides),
        records=Later(partial(tuple, judgement.records)),
    )
    return StepResult(
        step=step,
        used_rules=judgement.used_rules,
        used_allowances=judgement.used_allowances,
        used_layouts=frozenset(),
        records=len(located.pairs),
        scope=replace(
            scope_of_step(judgement, known.index), logical=tuple(logical_sides(known, found))
        ),
    )


def _make_all(step: StepComparison) -> None:
    """Make what is made when it is looked into, so that indexes and pairing can go.

    They take more memory than what is made, of every step of a long run.
    """
    for made in (step.tree, step.pairs, step.pairing, step.calls):
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
    known: StepReader, found: StepReader, settings: CompareSettings, partners: RunPartners
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
