"""Make the checkpoint of one model out of the weights of another, by the plan that pairs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError, DumpError, Role
from padiff.pairing.result import SideName
from padiff.pairing.side import unsaved_records
from padiff.pairing.weights.settled import settled_by_content
from padiff.pairing.weights.weight_rules import is_passive
from padiff.pairing.weights.weight_text import (
    WeightError,
    draw_problems,
    example_of,
    problems_of,
    weight_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.dumper.adapter import Array
    from padiff.dumpfile import RecordInfo
    from padiff.pairing.side import Side
    from padiff.pairing.weights.weight_plan import WeightPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """The entries of a checkpoint, and what happened to those that no plan pairs."""

    arrays: dict[str, Array]
    """By the names of the target's state dict; a shared module has one for each of its paths."""
    kept: tuple[str, ...]
    """Entries with the target's own value: counters that the source does not have."""
    left_out: tuple[str, ...]
    """Buffers that a constructor computes, which state dicts seldom hold."""


def convert(
    plan: WeightPlan, source: Side, target: Side, *, task: str, strict: bool = True
) -> Converted:
    """Apply a plan to all values of the source.

    Raises:
        ConfigError: Something is missing, ambiguous or does not fit; all of it is listed.
    """
    plan = settled_by_content(plan, source, target)
    problems = list(problems_of(plan, source, target)) if strict else []
    trees: tuple[str, ...] = ()
    if problems:
        trees = (*draw_problems(plan, source, target), *example_of(plan, source, target))
    arrays: dict[str, Array] = {}
    unsaved = unsaved_records(target)
    left_out: list[str] = []
    for pair in plan.pairs:
        record = target.index.records[pair.candidate]
        if record.id in unsaved or (record.role is Role.BUFFER and is_passive(record.slot)):
            left_out.append(weight_name(target, record))
            continue
        try:
            parts = [source.array(source.index.records[one]) for one in pair.reference]
            made = pair.rule.apply(parts, record.shape)
        except (ConfigError, DumpError) as error:
            problems.append(f"{weight_name(target, record)}: {error.message}")
            continue
        arrays.update(dict.fromkeys(_names(target, record), made))
    if problems:
        raise WeightError(task, problems, trees)
    kept = tuple(_keep(plan, target, arrays))
    return Converted(arrays=arrays, kept=kept, left_out=tuple(left_out))


def _names(side: Side, record: RecordInfo) -> Iterator[str]:
    module = side.index.modules[record.module]
    for path in (module.path, *module.aliases):
        yield f"{path}{record.slot}".removeprefix(".")


def _keep(plan: WeightPlan, target: Side, arrays: dict[str, Array]) -> Iterator[str]:
    """Take over what only the target has and a state dict must hold."""
    for alone in plan.alone:
        if alone.side is not SideName.CANDIDATE or alone.is_missing:
            continue
        record = target.index.records[alone.record]
        is_saved = record.id not in unsaved_records(target) and not is_passive(record.slot)
        if record.role is Role.BUFFER and is_saved:
            arrays.update(dict.fromkeys(_names(target, record), target.array(record)))
            yield weight_name(target, record)
