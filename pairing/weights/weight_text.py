"""A weight plan as text: names, problems, and the editable map file that says the same.

What the blocks of a model have in common has one name: ``h.{i}.norm1 / norm2 (3 blocks)`` stands
for both norms of three blocks, with all that they own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing.result import SideName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.rule import Rule
    from padiff.pairing.side import Side

    from .weight_plan import WeightAlone, WeightPair, WeightPlan

_SHORT = {'"': '\\"', "\\": "\\\\"}
_BMP = 0xFFFF
_UNSAFE = re.compile(r"[^ !#-\[\]-~]")
"""All but printable ASCII without quotation mark and backslash."""


def quoted(text: str) -> str:
    r"""Return a TOML basic string; everything but printable ASCII is escaped.

    >>> print(quoted('a"b\n\u202e'))
    "a\"b\u000A\u202E"
    """
    return f'"{_UNSAFE.sub(lambda found: _escaped(found[0]), text)}"'


def comment(text: str) -> str:
    """Return a comment of one line, harmless wherever it is printed."""
    shown = "".join(
        char if char.isascii() and char.isprintable() else _escaped(char) for char in text
    )
    return f"# {shown}".rstrip()


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isascii() and char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= _BMP else f"\\U{ord(char):08X}"


_CAPTURES = "ijklmn"
NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
"""A component of a path that is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightKind:
    """Pairs of one kind: of modules of one class at like places, in doubt for like reasons."""

    name: str
    """The place, with the count of blocks."""
    first: WeightPair


def weight_name(side: Side, record: RecordInfo) -> str:
    """Return a parameter's full dotted name."""
    return f"{side.index.modules[record.module].path}{record.slot}".removeprefix(".")


def numbers_in(name: str) -> list[str]:
    """Return the components of a name that are numbers."""
    return NUMBER.findall(name)


def folded_names(names: Iterable[str]) -> str:
    """Write the paths of modules that lie beside each other as one.

    >>> folded_names(["h.0.norm1", "h.0.norm2", "h.1.norm1", "h.1.norm2"])
    'h.{i}.norm1 / norm2 (2 blocks)'
    >>> folded_names(["fc"])
    'fc'
    """
    every = list(names)
    blocks = len({tuple(numbers_in(name)) for name in every})
    folded = list(dict.fromkeys(every if blocks == 1 else with_captures(every)))
    above = folded[0].rpartition(".")[0]
    shown = " / ".join([folded[0], *(name.removeprefix(f"{above}.") for name in folded[1:])])
    return shown if blocks == 1 else f"{shown} ({blocks} blocks)"


def kinds_of(pairs: Iterable[WeightPair], candidate: Side) -> list[WeightKind]:
    """Group pairs by where their modules are, the numbers of blocks aside."""
    groups: dict[tuple[object, ...], list[WeightPair]] = {}
    for pair in pairs:
        record = candidate.index.records[pair.candidate]
        module = candidate.index.modules[record.module]
        place = NUMBER.sub("#", module.path).rpartition(".")[0]
        key = place, module.class_path, pair.note, len(pair.alternatives)
        groups.setdefault(key, []).append(pair)
    found = []
    for group in groups.values():
        records = [candidate.index.records[pair.candidate] for pair in group]
        paths = [candidate.index.modules[record.module].path for record in records]
        is_module = len(group) > 1 and all(paths)
        names = paths if is_module else [weight_name(candidate, record) for record in records]
        found.append(WeightKind(name=folded_names(names), first=group[0]))
    return found


def with_captures(names: Sequence[str]) -> list[str]:
    """Write ``{i}`` for the numbers in names that have the same ones."""
    parts = [name.split(".") for name in names]
    if sum(part.isdecimal() for part in parts[0]) > len(_CAPTURES):
        return list(names)
    made = []
    for name in parts:
        letters = iter(_CAPTURES)
        made.append(".".join(f"{{{next(letters)}}}" if p.isdecimal() else p for p in name))
    return made


def entry(table: str, sources: Sequence[str], target: str, rule: Rule | str = "") -> list[str]:
    """Return the lines of a map entry; one source stands alone, several in a list."""
    shown = ", ".join(map(quoted, sources))
    lines = [
        f"[[{table}]]",
        f"reference = {shown if len(sources) == 1 else f'[{shown}]'}",
        f"candidate = {quoted(target)}",
    ]
    return [*lines, f"rule = {quoted(str(rule))}"] if str(rule) else lines


class WeightError(ConfigError):
    """Weights cannot be paired or do not fit; everything that is wrong is listed."""

    def __init__(self, task: str, problems: Sequence[str], trees: Sequence[str] = ()) -> None:
        """Report what was being done and all that stands in the way.

        Args:
            task: How the message begins: ``cannot load weights from 'a.pth'``.
            problems: One line for each.
            trees: Where in the two models they are, from ``draw_problems``, and what to write
                into a map, from ``example_of``.
        """
        count = f"{len(problems)} problem" + ("s" if len(problems) != 1 else "")
        super().__init__(
            f"{task}: {count}",
            details=(*problems, *trees),
            hint="write the pairs in a map file (padiff weights plan -o writes one to edit), or "
            "load what fits with strict=False",
        )
        self.problems = tuple(problems)


def names_of(side: Side, records: Sequence[int]) -> str:
    """Return the names of several records, joined."""
    return " + ".join(weight_name(side, side.index.records[record]) for record in records)


def problems_of(plan: WeightPlan, reference: Side, candidate: Side) -> Iterator[str]:
    """Describe what is missing, in one line each, and what is ambiguous, in one for each kind."""
    for alone in plan.missing:
        is_reference = alone.side is SideName.REFERENCE
        own, other = (reference, candidate) if is_reference else (candidate, reference)
        record = own.index.records[alone.record]
        yield (
            f"{alone.side} {weight_name(own, record)} {record.shape}: {alone.reason}"
            f"{closest_of(alone, other)}"
        )
    for kind in kinds_of(plan.ambiguous, candidate):
        pair = kind.first
        reason = f" ({pair.note})" if pair.note else ""
        name = weight_name(candidate, candidate.index.records[pair.candidate])
        such = "" if name == kind.name else f"; {name}"
        yield f"candidate {kind.name} is ambiguous{reason}{such}: {options_of(pair, reference)}"


def plan_to_toml(plan: WeightPlan, reference: Side, candidate: Side) -> str:
    """Write the plan as a map file that a user can edit.

    What is missing or ambiguous stands in comments beside what it concerns.
    """
    lines = ["# Written by padiff weights plan; edit, and pass it with --map."]
    for pair in plan.pairs:
        name = weight_name(candidate, candidate.index.records[pair.candidate])
        sources = [weight_name(reference, reference.index.records[r]) for r in pair.reference]
        table, *rest = entry("weight", sources, name, pair.rule)
        lines += ["", table]
        if pair.is_ambiguous:
            lines.append(comment(f"ambiguous: {options_of(pair, reference, at_most=9)}"))
        lines += rest
    for alone in plan.alone:
        own = reference if alone.side is SideName.REFERENCE else candidate
        name = weight_name(own, own.index.records[alone.record])
        word = "missing" if alone.is_missing else "dropped"
        lines += ["", comment(f"{word}: {alone.side} {name}: {alone.reason}")]
    return "\n".join(lines) + "\n"


def options_of(pair: WeightPair, reference: Side, *, at_most: int = 3) -> str:
    """Describe what an ambiguous parameter could be made of, the plan's choice first."""
    options = [(pair.reference, pair.rule), *((o.reference, o.rule) for o in pair.alternatives)]
    shown = [f"{_compact(reference, records)} ({rule})" for records, rule in options[:at_most]]
    more = len(options) - len(shown)
    return " or ".join(shown) + (f" or {more} other way{'s' * (more > 1)}" if more else "")


def _compact(side: Side, records: Sequence[int]) -> str:
    """Write what several names have in common once: ``attn.(q + k + v).weight``."""
    names = [weight_name(side, side.index.records[record]).split(".") for record in records]
    if len(names) == 1:
        return ".".join(names[0])
    least = min(map(len, names)) - 1
    before = next((at for at in range(least) if len({name[at] for name in names}) > 1), least)
    room = least - before
    after = next((at for at in range(room) if len({name[-1 - at] for name in names}) > 1), room)
    middle = " + ".join(".".join(name[before : len(name) - after]) for name in names)
    return ".".join((*names[0][:before], f"({middle})", *names[0][len(names[0]) - after :]))


def closest_of(alone: WeightAlone, other: Side) -> str:
    """Name what comes nearest on the other side; empty if nothing does."""
    records = [other.index.records[record] for record in alone.closest]
    shown = ", ".join(f"{weight_name(other, record)} {record.shape}" for record in records)
    return f"; closest: {shown}" if shown else ""
