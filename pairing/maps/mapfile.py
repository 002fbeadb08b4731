"""Map files: what the user says about which module, weight or layout is which.

A map file is TOML with any number of these tables; see docs/map.md::

    [[pair]]
    reference = "encoder.layer.{i}.attention.self.query"
    candidate = "layers.{i}.self_attn.q_proj"
    children = true

    [[layout]]
    reference = "backbone.**"
    output = "NCHW->NHWC"

    [[layout]]
    module = "**.wo"
    output = "R over tp"

    [[ignore]]
    reference = "**.dropout"
    reason = "inactive"

    [[weight]]
    reference = "fc.weight"
    candidate = "head.weight"
    rule = "transpose"

    [[rule]]
    class = "mylib.layers.PackedLinear"
    kind = "linear"
    weight = "weight | transpose"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from padiff.dumpfile import ConfigError
from padiff.dumpfile.stricttoml import StrictTOMLError, from_toml, read_toml
from padiff.pairing.rule import Rule
from padiff.pairing.weights.weight_rules import ClassRule

from .pattern import PathPattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

KINDS = ("input", "output", "grad_input", "grad_output", "weight", "buffer")
"""What an entry may speak of; a weight's gradient and moments lie as it does."""
_PLACEMENT = re.compile(r"R|S\(\d{1,2}(;[1-9]\d{0,5})?\)|P\((sum|avg|max|min)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksEntry:
    """How tensors of some modules lie over ranks, whatever else is known of them."""

    module: PathPattern
    """Of modules, or of weights by their full names."""
    placements: Mapping[str, Mapping[str, str]]
    """By what they are to the module (``KINDS``): the placement along each dimension of a mesh."""
    name: str = "[[layout]]"
    """Table and number in the file, or the option, for messages."""

    @classmethod
    def parse(cls, text: str) -> RanksEntry:
        """Read what follows ``--layout``: ``**.wo output=R over tp``.

        Raises:
            ConfigError: It says nothing of the kind.

        >>> RanksEntry.parse("**.wo output=R over tp").placements
        {'output': {'tp': 'R'}}
        """
        pattern, _, rest = text.strip().partition(" ")
        kind, equals, told = (part.strip() for part in rest.partition("="))
        if not equals or kind not in KINDS:
            raise ConfigError(
                f"cannot read the layout {text!r}: expected 'PATTERN KIND=PLACEMENT over DIM'",
                hint=f"for example '**.wo output=R over tp'; kinds are {', '.join(KINDS)}",
            )
        return cls(
            module=PathPattern.parse(pattern),
            placements={kind: parse_placements(told)},
            name=f"--layout {text!r}",
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """Return what ``parse`` reads back, one for each kind."""
        return tuple(
            f"{self.module.text} {kind}="
            + ", ".join(f"{placement} over {dim}" for dim, placement in told.items())
            for kind, told in self.placements.items()
        )


def parse_placements(text: str) -> dict[str, str]:
    """Read ``S(0) over dp, R over tp``: the placement along each dimension.

    Raises:
        ConfigError: It says nothing of the kind.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        placement, _, dim = (word.strip() for word in part.partition(" over "))
        if not _PLACEMENT.fullmatch(placement) or not dim or dim in found:
            raise ConfigError(
                f"cannot read the layout {text!r}: expected R, S(axis), S(axis;runs) or P(sum), "
                "and the dimension of a mesh, as in 'S(0) over dp, R over tp'"
            )
        found[dim] = placement
    return found


T = TypeVar("T")


_KEYS = {
    "pair": {"reference", "candidate", "children"},
    "layout": {"reference", "module", *KINDS},
    "ignore": {"reference", "candidate", "reason"},
    "weight": {"reference", "candidate", "rule"},
    "rule": {"class", "kind"},
}
_FREE_KEYS = frozenset({"rule"})
"""Tables whose further keys are names of the user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairEntry:
    """Two modules, or two families of modules, that do the same job."""

    reference: PathPattern
    candidate: PathPattern
    children: bool = True
    """Whether what is inside is paired, too."""
    name: str = "[[pair]]"
    """Table and number in the file, for messages: ``[[pair]] 3``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutEntry:
    """How tensors of some modules lie on the candidate."""

    reference: PathPattern
    input: Rule | None = None
    output: Rule | None = None
    name: str = "[[layout]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreEntry:
    """Modules of one side, or of both, that are not compared, nor is what is inside."""

    reference: PathPattern | None = None
    candidate: PathPattern | None = None
    reason: str = "ignored by the map file"
    name: str = "[[ignore]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightEntry:
    """A parameter of the candidate, and what it is made of."""

    reference: tuple[PathPattern, ...]
    candidate: PathPattern
    rule: Rule | None = None
    """None lets the tables of weight rules decide."""
    name: str = "[[weight]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapFile:
    """A whole map file."""

    source: str = ""
    """Where it was read, for messages."""
    pairs: tuple[PairEntry, ...] = ()
    layouts: tuple[LayoutEntry, ...] = ()
    ignores: tuple[IgnoreEntry, ...] = ()
    weights: tuple[WeightEntry, ...] = ()
    over_ranks: tuple[RanksEntry, ...] = ()
    """How tensors of a sharded run lie over its ranks."""
    rules: tuple[ClassRule, ...] = ()
    """How classes of the user's own lay out their parameters."""

    @classmethod
    def parse(cls, text: str, source: str = "map") -> MapFile:
        """Read a map from TOML.

        Raises:
            ConfigError: No TOML, an unknown table or key, or a wrong value.
        """
        try:
            tables = from_toml(text)
        except StrictTOMLError as error:
            raise ConfigError(f"cannot read map file {source!r}: {error}") from None
        return cls._of_tables(tables, source)

    @classmethod
    def _of_tables(cls, tables: Mapping[str, Any], source: str) -> MapFile:
        _check_tables(tables, source)
        problems: list[str] = []
        layouts = list(_entries(tables, "layout", _layout, problems))
        made = cls(
            source=source,
            pairs=tuple(_entries(tables, "pair", _pair, problems)),
            layouts=tuple(one for one in layouts if isinstance(one, LayoutEntry)),
            over_ranks=tuple(one for one in layouts if isinstance(one, RanksEntry)),
            ignores=tuple(_entries(tables, "ignore", _ignore, problems)),
            weights=tuple(_entries(tables, "weight", _weight, problems)),
            rules=tuple(_entries(tables, "rule", _class_rule, problems)),
        )
        if problems:
            raise ConfigError(f"cannot read map file {source!r}", details=tuple(problems))
        return made


def read_map(path: Path) -> MapFile:
    """Read a map file.

    Raises:
        ConfigError: It cannot be read, or is no map file.
    """
    try:
        tables = read_toml(path)
    except (OSError, StrictTOMLError) as error:
        raise ConfigError(f"cannot read map file {str(path)!r}: {error}") from None
    return MapFile._of_tables(tables, str(path))


def _check_tables(tables: Mapping[str, Any], source: str) -> None:
    for table, entries in tables.items():
        if table not in _KEYS:
            raise ConfigError(
                f"cannot read map file {source!r}: unknown table {table!r}",
                hint=f"known tables: {', '.join(f'[[{key}]]' for key in _KEYS)}",
            )
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise ConfigError(
                f"cannot read map file {source!r}: write [[{table}]], with two brackets"
            )


def _entries(
    tables: Mapping[str, Any],
    table: str,
    read: Callable[[Mapping[str, Any], str], T],
    problems: list[str],
) -> Iterator[T]:
    """Read all entries of a table; what is wrong with which goes into ``problems``."""
    for number, entry in enumerate(tables.get(table, ()), start=1):
        name = f"[[{table}]] {number}"
        unknown = sorted(set(entry) - _KEYS[table])
        if unknown and table not in _FREE_KEYS:
            known = ", ".join(sorted(_KEYS[table]))
            problems.append(f"{name}: unknown key {unknown[0]!r}, expected one of {known}")
            continue
        try:
            yield read(entry, name)
        except ConfigError as error:
            problems.append(f"{name}: {error.message}")


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        found = "nothing" if key not in entry else repr(value)
        raise ConfigError(f"expected a text as {key!r}, found {found}")
    return value


def _pair(entry: Mapping[str, Any], name: str) -> PairEntry:
    reference, candidate = (
        PathPattern.parse(_text(entry, key)) for key in ("reference", "candidate")
    )
    if reference.captures != candidate.captures:
        raise ConfigError(
            f"expected the same captures on both sides, found {reference.text!r} and "
            f"{candidate.text!r}"
        )
    children = entry.get("children", True)
    if not isinstance(children, bool):
        raise ConfigError(f"expected true or false as 'children', found {children!r}")
    return PairEntry(reference=reference, candidate=candidate, children=children, name=name)


def _layout(entry: Mapping[str, Any], name: str) -> LayoutEntry | RanksEntry:
    """Read how tensors lie on the candidate, or of a ``module`` how they lie over ranks."""
    if "module" in entry:
        return _over_ranks(entry, name)
    odd = sorted(entry.keys() - {"reference", "input", "output"})
    if odd:
        raise ConfigError(f"{odd[0]!r} needs 'module', and a layout over ranks")
    rules = {key: layout_rule(_text(entry, key)) for key in ("input", "output") if key in entry}
    if not rules:
        raise ConfigError("expected 'input' or 'output', found neither")
    return LayoutEntry(reference=PathPattern.parse(_text(entry, "reference")), name=name, **rules)


def _over_ranks(entry: Mapping[str, Any], name: str) -> RanksEntry:
    kinds = [key for key in entry if key in KINDS]
    if not kinds or "reference" in entry:
        raise ConfigError(f"expected 'module' and one of {', '.join(KINDS)}")
    return RanksEntry(
        module=PathPattern.parse(_text(entry, "module")),
        placements={kind: parse_placements(_text(entry, kind)) for kind in kinds},
        name=name,
    )


def layout_rule(text: str) -> Rule:
    """Read a layout: ``NCHW->NHWC``, or the text of a rule.

    >>> str(layout_rule("NCHW->NHWC"))
    'permute 0 2 3 1'
    """
    if "->" not in text:
        return Rule.parse(text)
    before, _, after = (part.strip() for part in text.partition("->"))
    if sorted(before) != sorted(after) or len(set(before)) != len(before) or not before:
        raise ConfigError(f"cannot read the layout {text!r}: name each axis once on both sides")
    return Rule.parse("permute " + " ".join(str(before.index(axis)) for axis in after))


def _ignore(entry: Mapping[str, Any], name: str) -> IgnoreEntry:
    patterns = {
        key: PathPattern.parse(_text(entry, key))
        for key in ("reference", "candidate")
        if key in entry
    }
    if not patterns:
        raise ConfigError("expected 'reference' or 'candidate', found neither")
    reason = _text(entry, "reason") if "reason" in entry else "ignored by the map file"
    return IgnoreEntry(reason=reason, name=name, **patterns)


def _weight(entry: Mapping[str, Any], name: str) -> WeightEntry:
    reference = entry.get("reference")
    names = [reference] if isinstance(reference, str) else reference
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        found = "nothing" if "reference" not in entry else repr(reference)
        raise ConfigError(f"expected a name or a list of names as 'reference', found {found}")
    return WeightEntry(
        reference=tuple(map(PathPattern.parse, names)),
        candidate=PathPattern.parse(_text(entry, "candidate")),
        rule=Rule.parse(_text(entry, "rule")) if "rule" in entry else None,
        name=name,
    )


def _class_rule(entry: Mapping[str, Any], name: str) -> ClassRule:
    weights = {key: _text(entry, key) for key in entry if key not in _KEYS["rule"]}
    kind = _text(entry, "kind") if "kind" in entry else None
    return ClassRule.parse(_text(entry, "class"), weights, kind=kind, name=name)
