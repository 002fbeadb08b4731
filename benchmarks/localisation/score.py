"""Plant faults at every depth, look at every pair in every way, and count."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figure import Figure

from .faults import FAULTS, Fault
from .models import LAYERS
from .parts import STYLES
from .trial import WAYS, Found, look, record

if TYPE_CHECKING:
    from collections.abc import Iterator

DTYPES = ("float32", "bfloat16")
TOP = 3
SEEDS = (0, 1, 2)
"""Of weights, for the clean corpus."""
EPSILONS = {"float32": 2.0**-23, "bfloat16": 2.0**-7}


@dataclass(slots=True)
class Tally:
    """What one way did on one dtype."""

    trials: int = 0
    first: int = 0
    among_three: int = 0
    caused: int = 0
    causes: int = 0
    hinted: int = 0
    """Trials in which the first origin is right and causes are named."""
    misled: list[str] = field(default_factory=list)
    """Of those, the ones in which a cause is named that it is not."""
    unnamed: list[str] = field(default_factory=list)
    clean: int = 0
    alarms: int = 0
    visible: int = 0
    """Trials whose effect in float32 is larger than the dtype's epsilon."""
    visible_first: int = 0
    missed: list[str] = field(default_factory=list)


def figures(*, quick: bool) -> Iterator[Figure]:
    """Run all trials and give the shares, in per cent."""
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    effects: dict[tuple[str, str, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in FAULTS:
            for dtype in DTYPES:
                _trials(kind, dtype, Path(folder), tallies, effects, quick=quick)
    for dtype in DTYPES:
        for way in WAYS:
            yield from _shares(way, dtype, tallies[way, dtype])


def _trials(
    kind: str,
    dtype: str,
    folder: Path,
    tallies: dict[tuple[str, str], Tally],
    effects: dict[tuple[str, str, int], float],
    *,
    quick: bool,
) -> None:
    for seed in (0,) if quick else SEEDS:
        _clean(kind, dtype, folder, tallies, seed)
    reference = record(kind, dtype, folder, style="")
    depths = (LAYERS // 2,) if quick else (0, LAYERS // 2, LAYERS - 1)
    for name, fault in FAULTS[kind].items():
        for depth in depths:
            candidate = record(kind, dtype, folder, fault=name, depth=depth)
            expected = f"blocks.{depth}.{fault.where}".rstrip(".")
            seen = look(reference, candidate, dtype)
            if dtype == DTYPES[0]:
                effects[kind, name, depth] = dict(seen[WAYS[0]].effects).get(expected, 0.0)
            is_visible = effects[kind, name, depth] > EPSILONS[dtype]
            for way, found in seen.items():
                tally = tallies[way, dtype]
                _count(tally, found, expected, fault, f"{kind} {name} {depth}")
                tally.visible += is_visible
                tally.visible_first += is_visible and found.named[:1] == (expected,)


def _clean(
    kind: str, dtype: str, folder: Path, tallies: dict[tuple[str, str], Tally], seed: int
) -> None:
    """Compare other correct forms of a model, which must not alarm."""
    reference = record(kind, dtype, folder, style="", seed=seed)
    for style in STYLES:
        candidate = record(kind, dtype, folder, style=style, seed=seed)
        for way, found in look(reference, candidate, dtype).items():
            tallies[way, dtype].clean += 1
            tallies[way, dtype].alarms += found.alarm
            if found.alarm:
                name = f"{kind} {style} {seed}: alarm at {found.named[:1]}"
                tallies[way, dtype].missed.append(name)


def _count(tally: Tally, found: Found, expected: str, fault: Fault, name: str) -> None:
    is_first = found.named[:1] == (expected,)
    tally.trials += 1
    tally.first += is_first
    tally.among_three += expected in found.named[:TOP]
    if not is_first:
        tally.missed.append(f"{name}: {found.named[:1] or 'nothing'}")
    wrong = [name for name in found.causes if name not in fault.hints]
    tally.hinted += is_first and bool(found.causes)
    if is_first and wrong:
        tally.misled.append(f"{name}: {', '.join(wrong)}")
    if is_first and fault.cause and fault.cause not in found.evidence:
        tally.unnamed.append(name)
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
        detail=f"{tally.alarms} of {tally.clean} clean pairs",
    )
    if is_ours:
        yield Figure(
            name=f"{way}, {dtype}: cause named",
            value=share(tally.caused, tally.causes),
            unit="%",
            detail=f"{tally.caused} of {tally.causes}; not: {'; '.join(tally.unnamed) or 'none'}",
        )
        yield Figure(
            name=f"{way}, {dtype}: false hints",
            value=share(len(tally.misled), tally.hinted),
            unit="%",
            detail=f"{len(tally.misled)} of {tally.hinted} hinted: "
            f"{'; '.join(tally.misled) or 'none'}",
        )
