"""Record one pair, compare it in several ways, and say what each way named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, Comparison, JudgedPair, Tolerance, compare
from padiff.comparer.judging.hull import passes
from padiff.comparer.judging.noise import FloorSide
from padiff.comparer.report.fault_words import evidence_of
from padiff.dumper import RecordSettings
from padiff.dumper.runs.inputs import InputFile
from padiff.dumper.runs.repeat import RepeatSettings
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings
from padiff.dumper.runs.target import Target
from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Callable

MODELS = Path(__file__).parent / "entry.py"
SHAPES = {"cnn": (4, 3, 12, 12), "transformer": (3, 10, 32), "rnn": (3, 6, 32)}
DEFAULTS = {
    "float32": Tolerance(atol=1e-5, rtol=1.3e-6),
    "bfloat16": Tolerance(atol=1e-5, rtol=1.6e-2),
}
"""Source: torch.testing.assert_close, torch 2.13."""
FLOOR = RepeatSettings(count=3)
"""What the way ``--floor both`` takes for the noise of a dump."""
WAYS = ("padiff", "padiff --floor both", "allclose(1e-4)", "assert_close", "cosine < 0.99")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one way of comparing said of one pair."""

    alarm: bool
    named: tuple[str, ...]
    """Modules, the first suspicion first."""
    evidence: str = ""
    effects: tuple[tuple[str, float], ...] = ()
    """By module: largest difference of its outputs and gradients over their largest element."""


def record(
    kind: str,
    dtype: str,
    out: Path,
    *,
    is_kept: bool = False,
    repeat: RepeatSettings | None = FLOOR,
    **model: str | int,
) -> Path:
    """Dump one form of a model.

    Args:
        kind: ``cnn``, ``transformer`` or ``rnn``.
        dtype: ``float32`` or ``bfloat16``.
        out: Folder of dumps.
        is_kept: Take the dump that is there already, if one is.
        repeat: How its noise floor is measured, if it is.
        model: Fault, depth, style, seed.
    """
    inputs = out / f"{kind}.npy"
    if not inputs.exists():
        np.save(inputs, np.random.default_rng(1).standard_normal(SHAPES[kind]).astype(np.float32))
    words = "-".join(str(value).replace(" ", "_") for value in model.values())
    name = f"{kind}-{dtype}-{words}"
    if is_kept and (out / name / "manifest.json").exists():
        return out / name
    return run(
        RunSettings(
            model=Target(place=str(MODELS), attribute="build", arguments={"kind": kind, **model}),
            record=RecordSettings(out=out, name=name, overwrite=True),
            inputs=(InputFile(path=inputs),),
            framework="torch",
            dtype=dtype,
            repeat=repeat,
        )
    )


def look(reference: Path, candidate: Path, dtype: str) -> dict[str, Found]:
    """Compare two dumps in every way."""
    plain = compare(reference, candidate, CompareSettings())
    floored = compare(reference, candidate, CompareSettings(floor=FloorSide.BOTH))
    tests: dict[str, Callable[[JudgedPair], bool]] = {
        "allclose(1e-4)": lambda pair: _agrees(pair, Tolerance(atol=1e-4, rtol=1e-4)),
        "assert_close": lambda pair: _agrees(pair, DEFAULTS[dtype]),
        "cosine < 0.99": _is_aligned,
    }
    return {
        "padiff": replace(_origins(plain), effects=tuple(_effects(plain).items())),
        "padiff --floor both": _origins(floored),
        **{name: _first_bad(plain, test) for name, test in tests.items()},
    }


def _effects(found: Comparison) -> dict[str, float]:
    effects: dict[str, float] = {}
    for pair in found.steps[0].pairs:
        end = pair.reference
        if end is None or end.statistics is None or pair.metrics is None:
            continue
        if end.address.role in {Role.OUTPUT, Role.GRAD_INPUT, Role.WEIGHT_GRAD}:
            extremes = end.statistics.minimum or 0.0, end.statistics.maximum or 0.0
            size = (pair.metrics.max_abs or 0.0) / (max(map(abs, extremes)) or 1.0)
            effects[end.address.module] = max(effects.get(end.address.module, 0.0), size)
    return effects


def _origins(found: Comparison) -> Found:
    named: list[str] = []
    for origin in found.origins:
        named += [origin.pair.end.address.module, *origin.suspects]
    first = evidence_of(found.origins[0]) if found.origins else ()
    return Found(
        alarm=bool(found.reasons),
        named=tuple(dict.fromkeys(named)),
        evidence="; ".join(first),
    )


def _first_bad(found: Comparison, agrees: Callable[[JudgedPair], bool]) -> Found:
    """Name the modules whose outputs or gradients fail a test, in execution order."""
    bad = [
        pair.reference
        for pair in found.steps[0].pairs
        if pair.reference is not None
        and pair.reference.address.role in {Role.OUTPUT, Role.GRAD_INPUT, Role.WEIGHT_GRAD}
        and pair.candidate is not None
        and not agrees(pair)
    ]
    bad.sort(key=lambda end: end.order)
    return Found(alarm=bool(bad), named=tuple(dict.fromkeys(end.address.module for end in bad)))


def _agrees(pair: JudgedPair, tolerance: Tolerance) -> bool:
    if pair.metrics is None:
        return pair.equal_digest or not pair.fatal
    return not pair.metrics.nonfinite_mismatched and passes(pair.metrics.hull, tolerance)


def _is_aligned(pair: JudgedPair) -> bool:
    return pair.metrics is None or pair.metrics.cosine is None or pair.metrics.cosine >= 0.99
