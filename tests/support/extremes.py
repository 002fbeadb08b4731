"""Sides of extreme form, for trials of speed: thousands of levels, or of layers in a row.

Every tree comes in three dialects. ``same`` is the tree itself, ``numbered`` has the words of
another author, and in ``strange`` every module has a name and every container a class that the
other side has nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import (
    CallInfo,
    Index,
    ModuleInfo,
    Phase,
    RecordInfo,
    Role,
    digest_of,
)

from .dumps import MemorySide
from .treegen import values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["EXTREMES", "WIDE", "Dialect", "extreme"]

_LETTERS = "bcdfghjklm"
_KNOWN = frozenset({"Linear", "ReLU", "LayerNorm", "BatchNorm2d", "Conv2d", "MultiheadAttention"})
_EXPERTS = 256


class Dialect(StrEnum):
    """How the modules of a tree are called."""

    SAME = "same"
    NUMBERED = "numbered"
    STRANGE = "strange"


@dataclass(kw_only=True)
class _Maker:
    """Makes a side module by module; values are three random numbers each."""

    dialect: Dialect
    seed: int
    modules: list[ModuleInfo] = field(default_factory=list)
    calls: list[CallInfo] = field(default_factory=list)
    records: list[RecordInfo] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    _open: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._generator = np.random.default_rng(self.seed)
        self._order = 0

    def value(self, size: int = 3, *, is_unit: bool = False) -> int:
        array = self._generator.standard_normal(size).astype(np.float32)
        if is_unit:
            array /= np.linalg.norm(array)
        self.arrays.append(array)
        return len(self.arrays) - 1

    def name(self, word: str, number: int) -> str:
        if self.dialect is Dialect.SAME:
            return f"{word}{number}"
        if self.dialect is Dialect.NUMBERED:
            return f"the_{word}_{number}"
        return "q" + "".join(_LETTERS[int(digit)] for digit in str(number))

    def enter(self, word: str, kind: str, given: int, *, sizes: tuple[int, ...] = ()) -> None:
        number, is_known = len(self.modules), kind in _KNOWN
        parent = self._open[-1] if self._open else None
        above = "" if parent is None else self.modules[parent].path
        name = self.name(word, number)
        path = "" if parent is None else f"{above}.{name}".lstrip(".")
        own = kind if is_known or self.dialect is not Dialect.STRANGE else f"Q{name}"
        package = "torch.nn.modules." if is_known else "net."
        self.modules.append(
            ModuleInfo(
                id=number, path=path, class_name=own, class_path=package + own, parent=parent
            )
        )
        for place, size in enumerate(sizes):
            self._record(Role.WEIGHT, (".weight", ".bias")[place], self.value(size), call=None)
        self.calls.append(
            CallInfo(id=number, module=number, index=0, parent=parent, start=self._tick(), end=None)
        )
        self._open.append(number)
        self._record(Role.INPUT, "[0]", given)

    def leave(self, given: int) -> int:
        self._record(Role.OUTPUT, "", given)
        self._open.pop()
        self._tick()
        return given

    def layer(self, word: str, kind: str, given: int, *, sizes: tuple[int, ...] = ()) -> int:
        self.enter(word, kind, given, sizes=sizes)
        return self.leave(self.value())

    def also(self, slot: str) -> None:
        """Let the call that is open give one more output."""
        self._record(Role.OUTPUT, slot, self.value())

    def side(self) -> MemorySide:
        return MemorySide(
            framework="torch" if self.dialect is Dialect.SAME else "paddle",
            index=Index(
                step=0,
                rank=0,
                modules=tuple(self.modules),
                calls=tuple(self.calls),
                records=tuple(self.records),
                values=values_of(self.arrays, list(map(digest_of, self.arrays))),
            ),
            arrays=tuple(self.arrays),
        )

    def _tick(self) -> int:
        self._order += 1
        return self._order - 1

    def _record(self, role: Role, slot: str, value: int, *, call: int | None = -1) -> None:
        module = len(self.modules) - 1 if call is None else self._open[-1]
        self.records.append(
            RecordInfo(
                id=len(self.records),
                module=module,
                call=None if call is None else module,
                phase=Phase.FORWARD,
                role=role,
                slot=slot,
                order=self._tick(),
                shape=self.arrays[value].shape,
                value=value,
                tensor=len(self.records) if call is None else None,
            )
        )


def _levels(make: _Maker, count: int) -> None:
    """Nest modules that hand on what the innermost one makes."""
    given = make.value()
    for _ in range(count - 1):
        make.enter("level", "Wrap", given)
    made = make.layer("last", "Linear", given, sizes=(9, 3))
    for _ in range(count - 1):
        make.leave(made)


def _adding_levels(make: _Maker, count: int) -> None:
    """Nest modules of which each adds something to what the inner one makes."""
    given = make.value()
    for _ in range(count - 1):
        make.enter("level", "Wrap", given)
    make.layer("last", "Linear", given, sizes=(9, 3))
    for _ in range(count - 1):
        make.leave(make.value())


def _levels_of_layers(make: _Maker, count: int) -> None:
    """Nest modules of which each runs a layer before the inner one."""
    made = make.value()
    for _ in range(count // 2):
        make.enter("level", "Wrap", made)
        made = make.layer("fc", "Linear", made, sizes=(9, 3))
    for _ in range(count // 2):
        make.leave(made)


def _row(kind: str, sizes: Callable[[int], tuple[int, ...]]) -> Callable[[_Maker, int], None]:
    def build(make: _Maker, count: int) -> None:
        made = make.value()
        make.enter("root", "Net", made)
        made = make.layer("first", "Linear", made, sizes=(9, 3))
        for number in range(count - 3):
            made = make.layer("layer", kind, made, sizes=sizes(number))
        make.leave(make.layer("head", "Linear", made, sizes=(9, 3)))

    return build


EXTREMES: dict[str, Callable[[_Maker, int], None]] = {
    "nested levels": _levels,
    "nested levels that add": _adding_levels,
    "nested levels of layers": _levels_of_layers,
    "equal layers": _row("Linear", lambda _: (9, 3)),
    "layers of all sizes": _row("Linear", lambda number: (number + 10, 3)),
    "blocks of unknown classes": _row("Block", lambda _: ()),
    "activations": _row("ReLU", lambda _: ()),
}
"""What to build by what to call it; each takes a count of modules, of which each runs once."""


def _experts(make: _Maker, count: int) -> None:
    """Run layers of up to 256 experts, each of two layers fed something of their own."""
    made = make.value()
    make.enter("root", "Net", made)
    layers = -(-count // (3 * _EXPERTS))
    for _ in range(layers):
        make.enter("layer", "Layer", made)
        make.layer("gate", "Linear", made, sizes=(9, 3))
        for _ in range(count // (3 * layers)):
            given = make.value()
            make.enter("expert", "Expert", given)
            inner = make.layer("up", "Linear", given, sizes=(9, 3))
            make.leave(make.layer("down", "Linear", inner, sizes=(9, 3)))
        made = make.leave(make.value())
    make.leave(make.layer("head", "Linear", made, sizes=(9, 3)))


def _branches(make: _Maker, count: int) -> None:
    """Run blocks of four branches of one to four convolutions, each with a norm and a ReLU."""
    made = make.value()
    make.enter("root", "Net", made)
    for _ in range(max(1, count // 31)):
        make.enter("block", "Block", made)
        for depth in range(1, 5):
            inner = made
            for _ in range(depth):
                inner = make.layer("conv", "Conv2d", inner, sizes=(9,))
                inner = make.layer("bn", "BatchNorm2d", inner, sizes=(3, 3))
                inner = make.layer("act", "ReLU", inner)
        made = make.leave(make.value())
    make.leave(make.layer("head", "Linear", made, sizes=(9, 3)))


def _attentions(make: _Maker, count: int) -> None:
    """Run blocks of one attention, of which what is inside is paired by itself."""
    made = make.value()
    make.enter("root", "Net", made)
    for _ in range(max(1, count // 6)):
        make.enter("block", "Block", made)
        make.enter("attn", "MultiheadAttention", made)
        for word in ("query", "key", "value"):
            make.layer(word, "Linear", made, sizes=(9, 3))
        made = make.leave(make.leave(make.layer("out", "Linear", make.value(), sizes=(9, 3))))
    make.leave(make.layer("head", "Linear", made, sizes=(9, 3)))


def _one_length(make: _Maker, count: int) -> None:
    """Run norms without weights: all outputs are as long as one another."""
    made = make.value()
    make.enter("root", "Net", made)
    made = make.layer("first", "Linear", made, sizes=(9, 3))
    for _ in range(count):
        make.enter("norm", "LayerNorm", made)
        made = make.leave(make.value(8, is_unit=True))
    make.leave(make.layer("head", "Linear", made, sizes=(9, 3)))


def _many_outputs(make: _Maker, count: int) -> None:
    """Run one call that gives thousands of tensors, by number or by name."""
    made = make.value()
    make.enter("root", "Net", made)
    make.enter("many", "Many", made)
    for number in range(count):
        make.also(
            f"[{number}]" if make.dialect is Dialect.SAME else f"['{make.name('o', number)}']"
        )
    made = make.leave(make.value())
    make.leave(make.layer("head", "Linear", made, sizes=(9, 3)))


def _takers(make: _Maker, count: int) -> None:
    """Run layers that all take one value, as the heads of a model do."""
    made = make.value()
    make.enter("root", "Net", made)
    made = make.layer("first", "Linear", made, sizes=(9, 3))
    for _ in range(count):
        make.layer("head", "Linear", made, sizes=(9, 3))
    make.leave(make.layer("last", "Linear", make.value(), sizes=(9, 3)))


WIDE: dict[str, Callable[[_Maker, int], None]] = {
    "256 experts a layer": _experts,
    "branches of convolutions": _branches,
    "attentions": _attentions,
    "outputs of one length": _one_length,
    "outputs of one call": _many_outputs,
    "takers of one value": _takers,
}
"""The same for forms that are wide, not all of whose calls can be told apart by what they hold."""


def extreme(kind: str, count: int, dialect: Dialect, *, seed: int = 0) -> MemorySide:
    """Give a side of one form; the same seed gives the same weights and values.

    Args:
        kind: One of ``EXTREMES`` or ``WIDE``.
        count: How many modules, about.
        dialect: How they are called.
        seed: Of all numbers.
    """
    make = _Maker(dialect=dialect, seed=seed)
    {**EXTREMES, **WIDE}[kind](make, count)
    return make.side()
