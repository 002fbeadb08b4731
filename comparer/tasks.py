"""The tasks of a comparison, and the order in which they run.

A task is some steps of one group of ranks, one after the other: what crosses steps goes in and
comes out. Groups do not depend on each other but for partners, which are learned once for all
groups of one form, such as the ranks of one stage of a pipeline.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from padiff.dumpfile import CompareError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from concurrent.futures import Executor, Future

    from padiff.pairing import RunPartners

    from .judging.updates import TrainingJudge
    from .parts import StepHead
    from .proving import Execution
    from .result import StepComparison
    from .scope import StepScope


STEPS_A_TASK = 8
"""On executors: what is lost with a worker, against the state that travels with each task."""
MOST_SUBMITTED = 512
"""Tasks that an executor has at once, since each takes its state along."""

Place = tuple[int, int]
"""A step and rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One compared step with what the whole needs to know of it."""

    step: StepComparison
    used_rules: frozenset[int]
    used_allowances: frozenset[str]
    used_layouts: frozenset[str]
    records: int
    scope: StepScope
    head: StepHead | None = None
    """Where the long sequences of the step are, if they were left in a folder."""


@dataclass(slots=True, kw_only=True)
class ChainState:
    """What the steps of one group of ranks leave to the next."""

    training: TrainingJudge
    partners: RunPartners
    executed: Execution | None = None
    """What executing the last step said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a task gives back."""

    results: tuple[StepResult, ...]
    """Of each of its steps."""
    state: ChainState | None
    """None where nobody needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The steps of one group of ranks, in order."""

    places: tuple[Place, ...]
    form: Hashable
    """Equal in groups that may have the same partners."""


class Work(Protocol):
    """What tasks do. It travels to other processes, with all that it holds."""

    def learn(self, place: Place) -> RunPartners:
        """Look for the partners of the group of ranks that begins here."""

    def compare(
        self,
        places: Sequence[Place],
        before: ChainState | RunPartners | None,
        *,
        is_last: bool = False,
        is_end: bool = False,
    ) -> Part:
        """Compare some steps of a group of ranks.

        Args:
            places: The steps.
            before: What the steps before left; at its beginning the partners that another group of
                the form has, None if it looks for them itself.
            is_last: Whether nothing is compared afterwards in this process.
            is_end: Whether nobody needs what these steps leave.
        """


class Watch(Protocol):
    """Who is told how far a comparison got."""

    def begin(self, steps: int) -> None:
        """Take how many steps and ranks there are."""

    def advance(self, steps: int) -> None:
        """Take how many more are done."""

    def note(self, text: str) -> None:
        """Take a line for the user that is not part of the report."""


@dataclass(slots=True, kw_only=True)
class _Job:
    chain: int
    places: Sequence[Place] = ()
    """Empty of one that learns the partners of the group."""
    before: ChainState | RunPartners | None = None


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs the tasks of all groups of ranks."""

    work: Work
    chains: Sequence[Chain]
    watch: Watch
    executor: Executor | None = None
    """None runs all in this process."""
    scheduler: str | None = None
    """Where the executor is; None on this machine, where this process takes over if it breaks."""
    _learns: bool = False
    """Whether partners are learned in tasks of their own, so that a form's first group need not be
    waited for."""
    _followers: dict[int, list[int]] = field(default_factory=dict)
    """By the first group of a form, the others, until its partners are known."""
    _ready: deque[_Job] = field(default_factory=deque)
    _running: dict[Future[Any], _Job] = field(default_factory=dict)
    _results: dict[Place, StepResult] = field(default_factory=dict)

    def run(self) -> list[StepResult]:
        """Run them; return what they found by step and rank, whatever order they ran in.

        Raises:
            CompareError: The executor lost tasks.
            PadiffError: A task raised it.
        """
        leaders: dict[Hashable, int] = {}
        for number, chain in enumerate(self.chains):
            leader = leaders.setdefault(chain.form, number)
            if leader == number:
                self._ready.append(self._job(number, chain.places, None))
            else:
                self._followers.setdefault(leader, []).append(number)
        self._learns = self.executor is not None
        if self._learns:
            self._ready.extendleft(_Job(chain=leader) for leader in reversed(self._followers))
        self.watch.begin(sum(len(chain.places) for chain in self.chains))
        while self._ready or self._running:
            if self.executor is None:
                job = self._ready.popleft()
                self._finish(job, self._run_here(job))
            else:
                self._submit(self.executor)
                self._collect()
        return [self._results[place] for place in sorted(self._results)]

    def _job(
        self, chain: int, left: Sequence[Place], before: ChainState | RunPartners | None
    ) -> _Job:
        """Return the next task of a group."""
        most = 1 if self.executor is None else STEPS_A_TASK
        return _Job(chain=chain, places=left[:most], before=before)

    def _run_here(self, job: _Job) -> Part | RunPartners:
        if not job.places:
            return self.work.learn(self.chains[job.chain].places[0])
        is_end = job.places[-1] == self.chains[job.chain].places[-1]
        is_last = is_end and not self._ready and not self._followers
        return self.work.compare(job.places, job.before, is_last=is_last)

    def _finish(self, job: _Job, found: Part | RunPartners) -> None:
        """Keep what a task found, and let run what waited for it."""
        if isinstance(found, Part):
            for place, result in zip(job.places, found.results, strict=True):
                self._results[place] = result
            self.watch.advance(len(job.places))
            places = self.chains[job.chain].places
            left = places[places.index(job.places[-1]) + 1 :]
            if left:
                self._ready.appendleft(self._job(job.chain, left, found.state))
            if self._learns or job.before is not None or found.state is None:
                return
            found = found.state.partners
        for follower in self._followers.pop(job.chain, ()):
            # each group goes on learning for itself
            partners = replace(found, known=list(found.known), sure=dict(found.sure))
            self._ready.append(self._job(follower, self.chains[follower].places, partners))

    def _submit(self, executor: Executor) -> None:
        while self._ready and len(self._running) < MOST_SUBMITTED:
            job = self._ready.popleft()
            try:
                future = self._submitted(executor, job)
            except BrokenExecutor as error:
                self._ready.appendleft(job)
                self._lose(error)
                return
            self._running[future] = job

    def _submitted(self, executor: Executor, job: _Job) -> Future[Any]:
        if not job.places:
            return executor.submit(self.work.learn, self.chains[job.chain].places[0])
        is_end = job.places[-1] == self.chains[job.chain].places[-1]
        compare = partial(self.work.compare, is_end=is_end)  # not all executors take more names
        return executor.submit(compare, job.places, job.before)

    def _collect(self) -> None:
        """Wait until at least one task ends, and take what ended."""
        if not self._running:
            return
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        ended = [(self._running.pop(future), future) for future in done]
        for job, future in sorted(ended, key=lambda one: (one[0].places, one[0].chain)):
            error = CancelledError() if future.cancelled() else future.exception()
            if error is None:
                self._finish(job, future.result())
            elif _is_of_executor(error):
                self._ready.appendleft(job)
                self._lose(error)
            else:
                raise error

    def _lose(self, error: BaseException) -> None:
        """Go on in this process, where that is as good.

        Raises:
            CompareError: It is not.
        """
        if self.scheduler is not None:
            raise CompareError(
                f"cannot compare on {self.scheduler}: expected the results of its tasks, found "
                f"{type(error).__name__}: {error}",
                hint="its workers' logs say why they ended; memory is the usual reason",
            ) from error
        if self.executor is not None:
            self.executor = None
            self._ready.extendleft(self._running.values())
            self._running.clear()
            self.watch.note(
                "a process that compared ended before its time; the rest is compared in this one"
            )


def _is_of_executor(error: BaseException) -> bool:
    """Return whether an executor lost a task, and not the task failed."""
    is_of_dask = type(error).__module__.partition(".")[0] == "distributed"
    return is_of_dask or isinstance(error, BrokenExecutor | CancelledError)
