"""The localisation benchmark, its small corpus, as cases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.localisation.corpus import Trial, trials
from benchmarks.localisation.trial import record

from .case import DIFFERENT, SAME, Case, Expected, Family, Group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["cases"]

GROUPS = {"float32": Group.FLOAT32, "bfloat16": Group.BFLOAT16}
FAMILIES = {"cnn": Family.CNN, "transformer": Family.ENCODER, "rnn": Family.RECURRENT}


def cases() -> Iterator[Case]:
    """List the trials as cases."""
    for trial in trials(quick=True):
        yield _case(trial)


def _case(trial: Trial) -> Case:
    def reference(out: Path) -> Path:
        return record(trial.kind, trial.dtype, out, repeat=None, **trial.reference)  # type: ignore[arg-type]

    def candidate(out: Path, _: Path) -> Path:
        return record(trial.kind, trial.dtype, out, repeat=None, **trial.candidate)  # type: ignore[arg-type]

    expected = Expected(verdicts=SAME)
    if trial.fault:
        fault = trial.planted
        expected = Expected(
            verdicts=DIFFERENT,
            origins=(trial.expected,),
            words=re.escape(fault.cause),
        )
    return Case(
        group=GROUPS[trial.dtype],
        name=f"{trial.dtype} {trial.name}",
        family=FAMILIES[trial.kind],
        chunk=f"localisation {trial.dtype} {trial.kind}",
        reference=reference,
        reference_key=str(trial.seed),
        candidate=candidate,
        expected=expected,
    )
