"""Run the cases of one chunk: record both sides, compare, rank."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from padiff.comparer import compare

from .case import Outcome, VerdictRank
from .judge import rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .case import Case
    from .judge import Ranks

__all__ = ["run_cases", "run_named"]


def run_named(names: Sequence[str]) -> list[Outcome]:
    """Run the cases of these names, which are of one chunk; what a worker process is asked."""
    from .corpus import corpus  # noqa: PLC0415 - loads all frameworks, which only a worker needs

    cases = {case.name: case for case in corpus()}
    return run_cases(cases[name] for name in names)


def run_cases(cases: Iterable[Case]) -> list[Outcome]:
    """Run cases one after the other; those with equal keys share their reference."""
    with tempfile.TemporaryDirectory(prefix="padiff-score-") as folder:
        return [_run(case, Path(folder)) for case in cases]


def _run(case: Case, folder: Path) -> Outcome:
    """Run one case; an exception is an outcome."""
    began = time.process_time()
    place = folder / "candidates"
    shared = folder / "".join(c if c.isalnum() else "_" for c in case.reference_key)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = shared / "made"
            if not made.exists():
                shared.mkdir(parents=True, exist_ok=True)
                made.write_text(str(case.reference(shared)))
            place.mkdir()
            reference = Path(made.read_text())
            candidate = case.candidate(place, reference)
            settings = case.settings
            if case.golden is not None:
                settings = replace(settings, golden=case.golden(place))
            found = compare(reference, candidate, settings)
            ranks = rank(case, found)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = str(error).splitlines()[0] if str(error) else ""
            said = f"{type(error).__name__}: {text} ({Path(where.filename).name}:{where.lineno})"
            ranks = (VerdictRank.CRASHED, None, None, said)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return _outcome(case, ranks, time.process_time() - began)


def _outcome(case: Case, ranks: Ranks, cpu_s: float) -> Outcome:
    verdict, origin, cause, said = ranks
    return Outcome(
        case=case.name,
        group=str(case.group),
        family=str(case.family or ""),
        verdict=verdict,
        origin=origin,
        cause=cause,
        detail=said,
        cpu_s=cpu_s,
    )
