"""Look at every pair in every way, and count."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figure import Figure
from benchmarks.scale import Scale

from .corpus import DTYPES, Trial, trials
from .trial import WAYS, Found, look, record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TOP = 3
EPSILONS = {"float32": 2.0**-23, "bfloat16": 2.0**-7}


@dataclass(slots=True)
class Tally:
    """What one way did on one dtype."""

    trials: int = 0
    first: int = 0
    among_three: int = 0
    caused: int = 0
    causes: int = 0
    unnamed: list[str] = field(default_factory=list)
    clean: int = 0
    alarms: int = 0
    visible: int = 0
    """Trials whose effect in float32 is larger than the dtype's epsilon."""
    visible_first: int = 0
    missed: list[str] = field(default_factory=list)
    alarmed: list[str] = field(default_factory=list)
    """Clean pairs that alarmed, and what they named first."""


def figures(*, scale: Scale, only: str = "*", keep: Path | None = None) -> Iterator[Figure]:
    """Run the trials, saying on stderr what came of each, and give the shares in per cent.

    Args:
        scale: Below full size only the middle block and the first seed.
        only: Glob over ``<dtype> <name>`` of the trials.
        keep: Folder in which the dumps stay; those that are there already are not recorded again.
    """
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    effects: dict[str, float] = {}
    chosen = [
        one
        for one in trials(quick=scale is not Scale.FULL)
        if fnmatch(f"{one.dtype} {one.name}", only)
    ]
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        for number, trial in enumerate(chosen, start=1):
            out = keep or Path(folder)
            reference, candidate = (
                record(trial.kind, trial.dtype, out, is_kept=is_kept, **model)  # type: ignore[arg-type]
                for is_kept, model in (
                    (True, trial.reference),
                    (keep is not None, trial.candidate),
                )
            )
            seen = look(reference, candidate, trial.dtype)
            _count_all(trial, seen, tallies, effects)
            spent = time.monotonic() - started
            line = f"{number}/{len(chosen)} {spent:.0f} s  {trial.dtype} {trial.name}: "
            print(line + _said(trial, seen), file=sys.stderr, flush=True)
    for dtype in DTYPES:
        for way in WAYS:
            yield from _shares(way, dtype, tallies[way, dtype])


def _said(trial: Trial, seen: Mapping[str, Found]) -> str:
    """Say what came of our own ways."""
    words = []
    for way in WAYS[:2]:
        found = seen[way]
        is_right = found.named[:1] == (trial.expected,) if trial.fault else not found.alarm
        named = ", ".join(found.named[:TOP]) or "nothing"
        word = "right" if is_right else f"WRONG, names {named}"
        words.append(f"{way} {word}")
    return "; ".join(words)


def _count_all(
    trial: Trial,
    seen: Mapping[str, Found],
    tallies: dict[tuple[str, str], Tally],
    effects: dict[str, float],
) -> None:
    """Count one pair for every way.

    Args:
        trial: The pair.
        seen: What each way said of it.
        tallies: By way and dtype; added to.
        effects: Of the faults in the first dtype, by name of the trial; added to.
    """
    if trial.fault and trial.dtype == DTYPES[0]:
        effects[trial.name] = dict(seen[WAYS[0]].effects).get(trial.expected, 0.0)
    is_visible = effects.get(trial.name, 0.0) > EPSILONS[trial.dtype]
    for way, found in seen.items():
        tally = tallies[way, trial.dtype]
        if trial.fault:
            _count(tally, found, trial)
            tally.visible += is_visible
            tally.visible_first += is_visible and found.named[:1] == (trial.expected,)
            continue
        tally.clean += 1
        tally.alarms += found.alarm
        if found.alarm:
            tally.alarmed.append(f"{trial.name}: {found.named[:1]}")


def _count(tally: Tally, found: Found, trial: Trial) -> None:
    is_first = found.named[:1] == (trial.expected,)
    tally.trials += 1
    tally.first += is_first
    tally.among_three += trial.expected in found.named[:TOP]
    if not is_first:
        tally.missed.append(f"{trial.name}: {found.named[:1] or 'nothing'}")
    fault = trial.planted
    if is_first and fault.cause and fault.cause not in found.evidence:
        tally.unnamed.append(trial.name)
    if fault.cause:
        tally.causes += 1
        tally.caused += is_first and fault.cause in found.evidence


def _shares(way: str, dtype: str, tally: Tally) -> Iterator[Figure]:
    def share(part: int, whole: int) -> float:
        return 100 * part / whole if whole else 0.0

    is_ours = way.startswith("padiff")
    goal = 99.0 if is_ours and dtype == "float32" else None
    detail = f"{tally.first} of {tally.trials}; not: {'; '.join(tally.missed) or 'none'}"
    yield Figure(
        name=f"{way}, {dtype}: top-1",
        value=share(tally.first, tally.trials),
        unit="%",
        at_least=goal,
        detail=detail if is_ours else f"{tally.first} of {tally.trials}",
    )
    yield Figure(
        name=f"{way}, {dtype}: top-1, effect above epsilon",
        value=share(tally.visible_first, tally.visible),
        unit="%",
        detail=f"{tally.visible_first} of {tally.visible}",
    )
    yield Figure(
        name=f"{way}, {dtype}: top-{TOP}", value=share(tally.among_three, tally.trials), unit="%"
    )
    yield Figure(
        name=f"{way}, {dtype}: false alarms",
        value=share(tally.alarms, tally.clean),
        unit="%",
        at_most=0.0 if "floor" in way else None,
        detail=f"{tally.alarms} of {tally.clean} clean pairs"
        + (f": {'; '.join(tally.alarmed)}" if is_ours and tally.alarmed else ""),
    )
    if is_ours:
        yield Figure(
            name=f"{way}, {dtype}: cause named",
            value=share(tally.caused, tally.causes),
            unit="%",
            detail=f"{tally.caused} of {tally.causes}; not: {'; '.join(tally.unnamed) or 'none'}",
        )
