"""How ``padiff weights`` prints plans, verdicts and distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from padiff.comparer.report.escape import printable
from padiff.comparer.report.fault_words import worded_making
from padiff.dumpfile import statistics_of
from padiff.pairing.kinds import kind_of
from padiff.pairing.result import SideName
from padiff.pairing.weights.weight_text import names_of, weight_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from padiff.comparer.weights import JudgedWeight
    from padiff.dumper.weights.convert import Converted
    from padiff.dumpfile import RecordInfo
    from padiff.pairing.side import Side
    from padiff.pairing.weights.weight_plan import WeightPlan


_UNLIKELY = 6.0
"""Standard errors beyond which two samples of one distribution are not expected to differ."""
_BLOCK = 1 << 16
"""Elements that are looked at at a time."""
_HINTS = {
    "linear": "defaults differ: torch.nn.Linear draws weight and bias from U(+-1/sqrt(in)), "
    "paddle.nn.Linear the weight by Xavier uniform, and the bias is 0",
    "conv2d": "defaults differ: torch draws Kaiming uniform, paddle Kaiming normal and bias 0",
    "embedding": "defaults differ: torch.nn.Embedding draws N(0, 1), paddle's is narrower",
    "attention": "defaults differ: torch draws in_proj as one matrix, paddle q, k and v each",
    "bilinear": "defaults differ: paddle draws Bilinear about four times narrower than torch",
}
"""Measured on torch 2.13 and paddle 3.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The distribution of one tensor's finite elements."""

    count: int
    mean: float
    std: float
    low: float
    high: float
    norm: float

    @property
    def cells(self) -> list[str]:
        """Return the numbers as text."""
        return [f"{x:.4g}" for x in (self.mean, self.std, self.low, self.high, self.norm)]


def draw_plan(console: Console, plan: WeightPlan, reference: Side, candidate: Side) -> None:
    """Print the table of pairs, then what stays alone."""
    table = _table("candidate", "shape", "reference", "rule", "found by")
    for pair in plan.pairs:
        record = candidate.index.records[pair.candidate]
        doubt = " (ambiguous)" if pair.is_ambiguous else ""
        table.add_row(
            printable(weight_name(candidate, record)),
            _dims(record),
            printable(names_of(reference, pair.reference)),
            str(pair.rule),
            f"{pair.paired_by}{doubt}",
        )
    console.print(table)
    _draw_alone(console, plan, reference, candidate)
    console.print(
        f"{len(plan.pairs)} pairs, {len(plan.ambiguous)} ambiguous, {len(plan.missing)} missing, "
        f"{len(plan.alone) - len(plan.missing)} dropped"
    )


def draw_conversion(
    console: Console, found: Converted, plan: WeightPlan, source: Side, target: Side
) -> None:
    """Print what became of every entry of the source, and where the others come from."""
    draw_plan(console, plan, source, target)
    for name in found.kept:
        console.print(f"kept: {printable(name)}: the target's own value")
    for name in found.left_out:
        console.print(f"not written: {printable(name)}: the constructor computes it")
    console.print(f"{len(found.arrays)} entries written")


def draw_comparison(
    console: Console,
    judged: Sequence[JudgedWeight],
    plan: WeightPlan,
    reference: Side,
    candidate: Side,
    *,
    verbose: bool,
) -> None:
    """Print the verdict first, then what diverged, then counts."""
    bad = [one for one in judged if not one.is_match]
    is_match = not bad and not plan.missing
    console.print(f"verdict: {'match' if is_match else 'diverged'}")
    shown = list(judged) if verbose else bad
    if shown:
        made = ["holds"] * any(one.made for one in shown)
        columns = ("candidate", "shape", "reference", "verdict", "max abs", "rel l2", "atol")
        table = _table(*columns, *made)
        for one in shown:
            record = candidate.index.records[one.pair.candidate]
            numbers = one.metrics
            table.add_row(
                printable(weight_name(candidate, record)),
                _dims(record),
                printable(names_of(reference, one.pair.reference)),
                str(one.verdict),
                _number(None if numbers is None else numbers.max_abs),
                _number(None if numbers is None else numbers.relative_l2),
                _number(one.tolerance.atol),
                *("" if one.made is None else worded_making(one.made) for _ in made),
            )
        console.print(table)
    _draw_alone(console, plan, reference, candidate)
    console.print(f"{len(judged)} compared, {len(bad)} diverged, {len(plan.missing)} missing")


def draw_statistics(
    console: Console, sides: Sequence[Side], plan: WeightPlan | None, max_rows: int
) -> None:
    """Print distributions: of one side in order, of two ranked by how unlikely they differ."""
    if plan is None:
        table = _table("weight", "shape", "mean", "std", "min", "max", "norm")
        for record in _owned(sides[0])[: max_rows or None]:
            found = _shape_of(sides[0].array(record))
            table.add_row(printable(weight_name(sides[0], record)), _dims(record), *_cells(found))
        console.print(table)
        return
    rows = _ranked(sides, plan)
    hints: dict[str, None] = {}
    is_one_framework = sides[0].framework == sides[1].framework
    lines = [_line("", ("mean", "std", "min", "max", "norm"), "unlikely")]
    for score, name, kind, one, two in rows[: max_rows or None]:
        # The name has a line of its own: beside six numbers it would not fit a terminal.
        lines.append(printable(name))
        mark = f"{score:.1f}" + (" !" if score > _UNLIKELY else "")
        lines.append(_line("reference", _cells(one), mark))
        lines.append(_line("candidate", _cells(two), ""))
        if score > _UNLIKELY and kind in _HINTS and not is_one_framework:
            hints[_HINTS[kind]] = None
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    for hint in hints:
        console.print(f"hint: {hint}")


def _ranked(
    sides: Sequence[Side], plan: WeightPlan
) -> list[tuple[float, str, str | None, _Shape | None, _Shape | None]]:
    reference, candidate = sides
    rows = []
    for pair in plan.pairs:
        record = candidate.index.records[pair.candidate]
        parts = [reference.array(reference.index.records[one]) for one in pair.reference]
        one = _shape_of(pair.rule.apply(parts, record.shape))
        two = _shape_of(candidate.array(record))
        kind = kind_of(candidate.index.modules[record.module])
        rows.append((_unlikely(one, two), weight_name(candidate, record), kind, one, two))
    return sorted(rows, key=lambda row: (-row[0], row[1]))


def _unlikely(one: _Shape | None, two: _Shape | None) -> float:
    """Return the larger of two z scores: of the means, and of the logarithms of the deviations."""
    if one is None or two is None:
        return 0.0 if one is two else math.inf
    if one.std == 0.0 or two.std == 0.0:
        return 0.0 if (one.mean, one.std) == (two.mean, two.std) else math.inf
    error = math.sqrt(one.std**2 / one.count + two.std**2 / two.count)
    spread = math.sqrt(1 / (2 * one.count) + 1 / (2 * two.count))
    return max(abs(one.mean - two.mean) / error, abs(math.log(one.std / two.std)) / spread)


def _shape_of(array: Any) -> _Shape | None:  # noqa: ANN401 - any dtype of a dump
    flat = np.asarray(array).reshape(-1)
    numbers = statistics_of(flat)
    mean, low, high, norm = numbers.mean, numbers.minimum, numbers.maximum, numbers.l2
    if mean is None or low is None or high is None or norm is None:
        return None
    count = flat.size - numbers.nan - numbers.posinf - numbers.neginf
    std = math.sqrt(math.fsum(_deviations(flat, mean)) / count)
    return _Shape(count=count, mean=mean, std=std, low=low, high=high, norm=norm)


def _deviations(flat: Any, mean: float) -> Iterator[float]:  # noqa: ANN401 - any dtype of a dump
    """Yield sums of squared deviations of the finite elements, in float64, block by block."""
    for first in range(0, flat.size, _BLOCK):
        block = flat[first : first + _BLOCK]
        with np.errstate(all="ignore"):  # a signalling nan is no news: statistics count it
            wide = (np.abs(block) if block.dtype.kind == "c" else block).astype(np.float64)
        away = wide[np.isfinite(wide)] - mean
        yield float(away @ away)


def _draw_alone(console: Console, plan: WeightPlan, reference: Side, candidate: Side) -> None:
    for alone in plan.alone:
        own = reference if alone.side is SideName.REFERENCE else candidate
        name = printable(weight_name(own, own.index.records[alone.record]))
        mark = "   <--- HERE" if alone.is_missing else ""
        word = "missing" if alone.is_missing else "dropped"
        shape = _dims(own.index.records[alone.record])
        console.print(f"{word}: {alone.side} {name} {shape}: {alone.reason}{mark}")
    for note in plan.notes:
        console.print(f"note: {printable(note)}")


def _owned(side: Side) -> list[RecordInfo]:
    return [record for record in side.index.records if record.role in {"weight", "buffer"}]


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _dims(record: RecordInfo) -> str:
    return "x".join(map(str, record.shape)) or "scalar"


def _cells(found: _Shape | None) -> list[str]:
    return ["-"] * 5 if found is None else found.cells


def _line(label: str, cells: Sequence[str], mark: str) -> str:
    return f"  {label:<10}{''.join(f'{cell:>11}' for cell in cells)}  {mark}".rstrip()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
