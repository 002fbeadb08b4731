"""Searches for cases in which the frameworks differ, and makes them small.

Hypothesis changes one choice at a time; a smaller tensor needs another seed to show the same
element, and tensors that share a shape must change together.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from padiff.ops.cases import Argument, Case, Fill, Layout, Tensor
from padiff.ops.judging import Bucket, Kind, Side

from .drawn import cases_of, hypothesis
from .running import Pair, run_case

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from padiff.ops.judging import Finding, Judgement
    from padiff.ops.table import Row


_ROUNDS = 12
"""Searches of one operator: each leaves out what those before it found."""
_MOST_LATE = 3
"""Cases of one search that pass the time limit, before it ends."""


@dataclass(slots=True, kw_only=True)
class Searched:
    """What was seen of one operator."""

    operator: str
    cases: int = 0
    """Drawn and executed, shrinking left out."""
    executions: int = 0
    """With shrinking."""
    rejected: int = 0
    """Cases that both frameworks refuse, or that end in neither."""
    compared: int = 0
    """Cases without a float64 program: results are held against each other."""
    worst: float = 0.0
    """The largest error where both are right, in units of rounding."""
    findings: dict[Bucket, tuple[Case, Finding]] = field(default_factory=dict)
    """The smallest case of each."""
    examples: list[Case] = field(default_factory=list)
    """All cases that were drawn."""
    seconds: dict[str, float] = field(default_factory=dict)
    """What a call of the largest case takes, by framework, where it was timed."""

    def add(self, case: Case, judgement: Judgement) -> None:
        """Count a case, and keep what it shows."""
        self.executions += 1
        self.count(case, judgement)
        self.keep(case, judgement)

    def count(self, case: Case, judgement: Judgement) -> None:
        """Count a case that was drawn."""
        self.cases += 1
        self.examples.append(case)
        finding = judgement.finding
        if finding is not None and _is_invalid(finding.bucket):
            self.rejected += 1
        elif finding is None and judgement.compared:
            self.compared += 1
        self.worst = max(self.worst, judgement.worst)

    def keep(self, case: Case, judgement: Judgement) -> Bucket | None:
        """Keep the smallest case of each defect; returns that of this case."""
        finding = judgement.finding
        if finding is None or _is_invalid(finding.bucket):
            return None
        smallest = self.findings.get(finding.bucket)
        if smallest is None or case.size < smallest[0].size:
            self.findings[finding.bucket] = case, finding
        return finding.bucket

    @property
    def is_only_invalid(self) -> bool:
        """Whether both frameworks refused every case."""
        return self.cases > 0 and self.rejected == self.cases


def _is_invalid(bucket: Bucket) -> bool:
    """Return whether a case says nothing: neither framework makes anything of it."""
    is_late = bucket.kind is Kind.TIME_LIMIT and bucket.side is Side.BOTH
    return is_late or bucket.kind is Kind.BOTH_REJECT


def search(row: Row, pair: Pair, *, examples: int, seed: int) -> Searched:
    """Test an operator.

    Args:
        row: The operator.
        pair: Both frameworks.
        examples: How many cases to draw.
        seed: Another number draws others.

    Raises:
        ConfigError: Hypothesis is not installed.
    """
    hypothesis()
    found = Searched(operator=row.name)
    for turn in range(_ROUNDS):
        before = set(found.findings)
        _search_once(row, pair, found, examples - found.cases, seed * _ROUNDS + turn)
        for bucket in set(found.findings) - before:
            _simplify(row, pair, found, bucket)
        if found.cases >= examples or set(found.findings) == before:
            break
    return found


def _simplify(row: Row, pair: Pair, found: Searched, bucket: Bucket) -> None:
    """Keep a simpler case of a finding, if there is one."""
    if bucket.kind is Kind.TIME_LIMIT:
        return

    def is_same(case: Case) -> bool:
        judgement = run_case(row, case, pair)
        found.executions += 1
        finding = judgement.finding
        # What a strategy would not draw may show something else: that is no news.
        if finding is None or finding.bucket != bucket:
            return False
        found.keep(case, judgement)
        return True

    simplified(found.findings[bucket][0], is_same)


def _search_once(row: Row, pair: Pair, found: Searched, examples: int, seed: int) -> None:
    """Draw cases until the first defects, and shrink these."""
    library: Any = hypothesis()
    seeker = _Seeker(found, set(found.findings), lambda case: run_case(row, case, pair))

    with contextlib.suppress(_DefectError, ExceptionGroup, library.errors.Flaky):
        _each(row, seeker.look, examples, seed)


def _each(row: Row, look: Callable[[Case], None], examples: int, seed: int) -> None:
    """Let Hypothesis draw cases, and shrink those at which ``look`` raises."""
    library: Any = hypothesis()
    settings = library.settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        report_multiple_bugs=True,
        phases=(library.Phase.generate, library.Phase.shrink),
        suppress_health_check=list(library.HealthCheck),
        verbosity=library.Verbosity.quiet,
    )

    def each(case: Case) -> None:
        look(case)

    library.seed(seed)(settings(library.given(cases_of(row))(each)))()


def draw_cases(row: Row, *, examples: int, seed: int) -> list[Case]:
    """Draw cases of an operator and run none of them.

    Raises:
        ConfigError: Hypothesis is not installed.
    """
    found: list[Case] = []
    _each(row, found.append, examples, seed)
    return found


class _DefectError(Exception):
    """Tells Hypothesis that a case shows a defect; there is a class for each bucket."""


class _Seeker:
    """Counts and keeps what is found while Hypothesis draws and shrinks."""

    def __init__(
        self,
        found: Searched,
        known: Container[Bucket],
        run: Callable[[Case], Judgement],
    ) -> None:
        self._found, self._known, self._run = found, known, run
        self._classes: dict[Bucket, Any] = {}
        self._late = 0

    def look(self, case: Case) -> None:
        """Run a case; raises where it shows a defect that is to be shrunk."""
        if self._late >= _MOST_LATE:
            return
        judgement = self._run(case)
        self._found.executions += 1
        if not self._classes:  # afterwards, most are attempts to shrink
            self._found.count(case, judgement)
        bucket = self._found.keep(case, judgement)
        finding = judgement.finding
        if finding is not None and finding.bucket.kind is Kind.TIME_LIMIT:
            self._late += 1
            return
        if bucket is None or bucket in self._known:
            return
        if bucket not in self._classes:
            self._classes[bucket] = type("Defect", (_DefectError,), {})
        raise self._classes[bucket]


_TRIES = 400
_SEEDS = 8
_SHAPES = ((), (1,), (2,), (3,), (2, 2))


def simplified(case: Case, is_same: Callable[[Case], bool]) -> Case:
    """Return a smaller case that shows the same."""
    left, tried = _TRIES, {repr(case)}
    is_moving = True
    while is_moving:
        is_moving = False
        for other in _simpler(case):
            if other.size >= case.size or repr(other) in tried:
                continue
            tried.add(repr(other))
            left -= 1
            if left < 0:
                return case
            if is_same(other):
                case, is_moving = other, True
                break
    return case


def _simpler(case: Case) -> Iterator[Case]:
    """Yield cases that may be simpler, the simplest first."""
    for shape in dict.fromkeys(one.shape for one in case.tensors):
        for target in (*_SHAPES, *_cut(shape)):
            for seed in range(_SEEDS):
                yield _changed(case, lambda one, s=shape, t=target, n=seed: (  # type: ignore[misc]
                    replace(one, shape=t, seed=n) if one.shape == s else one
                ))  # fmt: skip
                if len(target) > 1:
                    break
    for name in case.arguments:
        rest = {key: one for key, one in case.arguments.items() if key != name}
        yield replace(case, arguments=rest)
    for place in range(len(case.tensors)):
        for simpler in _tensors(case.tensors[place]):
            held = id(case.tensors[place])
            yield _changed(case, lambda one, s=simpler, h=held: s if id(one) == h else one)  # type: ignore[misc]
    yield replace(case, seed=0)


def _cut(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield shapes with one axis less, or a shorter one."""
    for axis, size in enumerate(shape):
        before, behind = shape[:axis], shape[axis + 1 :]
        yield (*before, *behind)
        for less in {1, 2, size - 1}:
            if 0 < less < size:
                yield (*before, less, *behind)


def _tensors(one: Tensor) -> Iterator[Tensor]:
    yield replace(one, layout=Layout.CONTIGUOUS)
    for fill in Fill:
        for seed in range(_SEEDS):
            yield replace(one, fill=fill, seed=seed)
        if fill is one.fill:
            break


def _changed(case: Case, change: Callable[[Tensor], Tensor]) -> Case:
    def changed(argument: Argument) -> Argument:
        if isinstance(argument, Tensor):
            return argument if argument.elements is not None else change(argument)
        if isinstance(argument, tuple):
            return tuple(changed(each) for each in argument)
        return argument

    return replace(case, arguments={key: changed(one) for key, one in case.arguments.items()})
