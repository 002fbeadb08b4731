"""Where modules and weights stand: ranks and words of a path, and the class that lays a weight out.

Ranks survive renaming: ``layer1.0.conv2`` of one author and
``stages.0.layers.0.layer.1.convolution`` of another both stand at (0, 0, 1): the first stage, its
first block, the second convolution in it. A number counts only among siblings that it tells apart,
so that wrappers and single members add nothing.

Ranks and words are worked out when they are first asked for: where modules are known to be partners
nobody asks.

The projections of a MultiheadAttention are its own parameters in one framework and those of layers
inside it in the other; what torch's parametrizations keep is a part of the layer around them.

Llama's authors call the gate ``w1``, the way up ``w3`` and the way down ``w2``; xFormers and DINOv2
call them ``w1``, ``w2`` and ``w3``. Sizes tell which convention it is: the way down has another
shape.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, RecordInfo, Role
from padiff.pairing.kinds import kind_of
from padiff.pairing.names import innermost, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from padiff.dumpfile import Index, ModuleInfo

    from .inventory import Unit
    from .weight_rules import Form

_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"(.*?)_?(\d{1,15})([a-z]?)", re.DOTALL)


def ranks_of(modules: Sequence[ModuleInfo], owners: Set[int]) -> dict[int, tuple[int, ...]]:
    """Return the ranks; only the owners and what is around them is looked at.

    Args:
        modules: All modules, parents first.
        owners: Ids of the modules that own parameters; branches without any do not count.
    """
    counted = _with_outer(modules, owners)
    keys = {number: _key(modules[number], owners) for number in counted}
    numbers: dict[tuple[int, str, str | None], set[tuple[int, str]]] = {}
    for key in keys.values():
        if key is not None:
            numbers.setdefault(key[0], set()).add(key[1])
    order = {
        key: {number: rank for rank, number in enumerate(sorted(found))}
        for key, found in numbers.items()
        if len(found) > 1
    }
    ranks: dict[int, tuple[int, ...]] = {}
    for module, key in keys.items():
        parent = modules[module].parent
        above = () if parent is None else ranks[parent]
        siblings = None if key is None else order.get(key[0])
        if key is not None and siblings is not None:
            above = (*above, siblings[key[1]])
        ranks[module] = above
    return ranks


def _with_outer(modules: Sequence[ModuleInfo], owners: Set[int]) -> list[int]:
    """Return some modules and all around them, the outermost first."""
    found = set(owners)
    for owner in owners:
        outer = modules[owner].parent
        while outer is not None and outer not in found:
            found.add(outer)
            outer = modules[outer].parent
    return sorted(found)


def _key(
    module: ModuleInfo, owners: Set[int]
) -> tuple[tuple[int, str, str | None], tuple[int, str]] | None:
    """Group numbered siblings by stem, and modules with parameters also by kind."""
    numbered = None if module.parent is None else _numbered(module.path.rpartition(".")[2])
    if numbered is None or module.parent is None:
        return None
    stem, number = numbered
    kind = kind_of(module) if module.id in owners else ""
    return (module.parent, stem, kind), number


@lru_cache(maxsize=65536)
def _numbered(name: str) -> tuple[str, tuple[int, str]] | None:
    """Return the stem of a name, and its number with what follows that; None without a number."""
    match = _NUMBER.fullmatch(name)
    return None if match is None else (match[1], (int(match[2]), match[3]))


_MIXED = re.compile(r"(?<![a-z\d])[a-z]*+\d++[a-z][a-z0-9]*+")
"""Tried only where a word begins, so that a long name takes no square of its length."""


def unnumbered(name: str) -> str:
    """Return what the names of like layers in all blocks have in common."""
    return _DIGITS.sub("#", name)


class Standing:
    """The places of the modules of one side that own parameters."""

    def __init__(self, modules: Sequence[ModuleInfo], owners: Set[int]) -> None:
        """Take the modules."""
        self._modules = modules
        self._owners = owners
        self._ranks: Mapping[int, tuple[int, ...]] | None = None

    def ranks(self, module: int) -> tuple[int, ...]:
        """Return the rank among numbered siblings, on each level where there are several."""
        if self._ranks is None:
            self._ranks = ranks_of(self._modules, self._owners)
        return self._ranks[module]

    def words(self, module: int) -> frozenset[str]:
        """Return the words of the path, synonyms made one."""
        return _words(self._modules[module].path)


@lru_cache(maxsize=65536)
def _words(path: str) -> frozenset[str]:
    """Return the words of a path, with those that hold numbers as a part: ``3x3dbl``."""
    return words_of(path) | frozenset(_MIXED.findall(innermost(path).lower()))


_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_UPDATE = Phase.UPDATE
"""Looking up a member of an enumeration takes ten times as long as a name."""
Named = tuple[str, RecordInfo]
"""A record by its name below a module."""
_PARAMETRISED = "parametrizations"
"""What torch calls the module that keeps what others inside the same layer are made of."""
_MAX_NESTED = 8
"""Names of the parameters that a class lays out inside itself have fewer components than this."""


def owned_by(index: Index) -> list[RecordInfo]:
    """Return the parameters and buffers as they were before the first call."""
    return [
        record
        for record in index.records
        if record.call is None and record.role in _OWNED and record.phase is not _UPDATE
    ]


def by_host(
    records: Iterable[RecordInfo], modules: Sequence[ModuleInfo], forms: Sequence[Form | None]
) -> dict[int, list[Named]]:
    """Return the records that each module's class lays out, ascending by module."""
    hosts = _Hosts(modules, forms)
    found: dict[int, list[Named]] = {}
    for record in records:
        host, name = hosts.of(record)
        if host in found:
            found[host].append((name, record))
        else:
            found[host] = [(name, record)]
    return dict(sorted(found.items()))


class _Hosts:
    """The modules whose classes lay out parameters of modules inside them."""

    def __init__(self, modules: Sequence[ModuleInfo], forms: Sequence[Form | None]) -> None:
        self._modules = modules
        self._forms = forms
        distinct = {id(form): form for form in forms if form is not None}
        nested = {key for key, form in distinct.items() if form.is_nested}
        self._nested = {number for number, form in enumerate(forms) if id(form) in nested}
        self._parametrised = {
            module.parent for module in modules if module.path.endswith(_PARAMETRISED)
        }
        self._around: dict[int, list[tuple[int, str]]] = {}

    def of(self, record: RecordInfo) -> tuple[int, str]:
        """Find the module that hosts a record, and the record's name below it."""
        local = record.slot.removeprefix(".")
        best = record.module, local
        for outer, path in self._possible(record.module):
            relative = f"{path}.{local}"
            if relative.startswith(f"{_PARAMETRISED}."):
                return outer, relative
            form = self._forms[outer]
            if form is not None and form.find(relative, ()) is not None:
                best = outer, relative
        return best

    def _possible(self, module: int) -> Sequence[tuple[int, str]]:
        """Return the modules around one that come into question, with its path below each."""
        if not (self._nested or self._parametrised):
            return ()
        if module not in self._around:
            self._around[module] = list(self._hosts_of(module))
        return self._around[module]

    def _hosts_of(self, module: int) -> Iterator[tuple[int, str]]:
        path: list[str] = []
        for _ in range(_MAX_NESTED):
            current = self._modules[module]
            if current.parent is None:
                break
            module = current.parent
            path.insert(0, current.path.rpartition(".")[2])
            is_nested = module in self._nested
            if is_nested or (module in self._parametrised and path[0] == _PARAMETRISED):
                yield module, ".".join(path)


GATES = {"w1": "gate", "w3": "up", "w2": "down"}
"""The convention of stacks, whose shapes say nothing of single experts."""
_LEAVES = tuple(GATES)
_OTHER = {"w1": "gate", "w2": "up", "w3": "down"}


def with_gates(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Add to the words of such units what they are; nothing where all are square."""
    families: dict[int | None, dict[str, Unit]] = {}
    for unit in units:
        if unit.kind == "linear" and unit.path.endswith(_LEAVES):
            leaf = unit.path.rpartition(".")[2]
            if leaf in GATES:
                families.setdefault(unit.module.parent, {})[leaf] = unit
    if not families:
        return units
    words = {
        id(unit): word
        for family in families.values()
        if len(family) == len(GATES)
        for leaf, word in _roles(family).items()
        for unit in (family[leaf],)
    }
    return tuple(
        unit.with_words(frozenset({words[id(unit)]})) if id(unit) in words else unit
        for unit in units
    )


def _roles(family: Mapping[str, Unit]) -> Mapping[str, str]:
    shapes = {leaf: unit.main.neutral_shape for leaf, unit in family.items()}
    for roles in (GATES, _OTHER):
        gate, up, down = (
            next(shapes[leaf] for leaf, role in roles.items() if role == wanted)
            for wanted in ("gate", "up", "down")
        )
        if gate == up != down:
            return roles
    return {}
