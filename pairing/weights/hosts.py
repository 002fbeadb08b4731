"""Which module's class lays out each parameter: the one that owns it, or one around that.

The projections of a MultiheadAttention are its own parameters in one framework and those of layers
inside it in the other; what torch's parametrizations keep is a part of the layer around them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, RecordInfo, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.dumpfile import Index, ModuleInfo

    from .weight_rules import Form

__all__ = ["by_host", "owned_by"]

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
    """Give the parameters and buffers as they were before the first call."""
    return [
        record
        for record in index.records
        if record.call is None and record.role in _OWNED and record.phase is not _UPDATE
    ]


def by_host(
    records: Iterable[RecordInfo], modules: Sequence[ModuleInfo], forms: Sequence[Form | None]
) -> dict[int, list[Named]]:
    """Give the records that each module's class lays out, ascending by module.

    Args:
        records: Parameters and buffers.
        modules: All of the side, by id.
        forms: How the class of each of them lays out its parameters.
    """
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
        """Give the modules around one that come into question, with its path below each."""
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
