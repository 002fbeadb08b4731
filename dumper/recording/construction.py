"""How buffers and constants of a model were computed while it was built."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from padiff.dumpfile import (
    DTYPE_NAMES,
    LeafKind,
    Mode,
    ProgramBuilder,
    Stored,
    digest_of,
    referenced_values,
    renumbered,
)

from .callstack import CallStack
from .ownwork import OwnWork
from .programrecorder import ProgramRecorder
from .source import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Adapter, Model, Tensor
    from padiff.dumpfile import Argument, SourceLine

    Key = tuple[str, tuple[int, ...]]
    """Digest and shape of elements."""


@dataclass(frozen=True, slots=True)
class _Operator:
    """One operator, with the ids that its values had while the model was built."""

    name: str
    arguments: tuple[tuple[str | None, Argument], ...]
    outputs: tuple[int, ...]
    mode: int
    site: SourceLine | None

    @property
    def taken(self) -> list[int]:
        """The ids of the values that it takes."""
        return [one for _, each in self.arguments for one in referenced_values(each)]


class _Kept(ProgramBuilder):
    """Keeps operators and values as they come, without columns."""

    def __init__(self) -> None:
        super().__init__()
        self.operators_kept: list[_Operator] = []
        self.values_kept: list[dict[str, Any]] = []
        self.makers: dict[int, int] = {}
        """The operator that made each value."""

    def add_value(self, **fields: Any) -> int:  # noqa: ANN401 - those of the base
        """Keep a value."""
        self.values_kept.append({"kind": None, **fields})
        return len(self.values_kept) - 1

    def add_operator(
        self,
        name: str,
        arguments: Sequence[tuple[str | None, Argument]],
        outputs: Sequence[int],
        *,
        call: int | None,
        mode: int = 0,
        site: SourceLine | None = None,
    ) -> int:
        """Keep an operator."""
        del call
        number = len(self.operators_kept)
        one = _Operator(name, tuple(arguments), tuple(outputs), mode, site)
        self.operators_kept.append(one)
        for value in outputs:
            if self.values_kept[value]["kind"] in (None, LeafKind.RANDOM):
                self.makers.setdefault(value, number)
        return number


class _Nowhere:
    """Stands for the file of a step, and for what stores elements in it: nothing is stored."""

    inner_content = leaf_content = None

    @dataclass(slots=True)
    class _Nothing:
        stored: Stored = field(default_factory=Stored)

    def add_program(self, _: object) -> None:
        """Do nothing."""

    def store(self, _tensor: Tensor, _content: object) -> _Nothing:
        """Store nothing, and know no digest."""
        return self._Nothing()

    def forget(self, _: Tensor) -> None:
        """Do nothing."""


class Construction:
    """Records what operators make while a model is built, as far as it becomes a part of it."""

    def __init__(self, adapter: Adapter) -> None:
        """Prepare for a model of a framework whose operators can be seen."""
        assert adapter.operators is not None
        self._adapter = adapter
        self._kept = _Kept()
        nowhere = cast("Any", _Nowhere())
        self._recorder = ProgramRecorder(
            adapter,
            adapter.operators,
            nowhere,
            nowhere,
            Sources(adapter.name),
            lock=OwnWork(adapter.operators.unwatched),
            calls=CallStack(),
            backward=False,
            builder=self._kept,
        )
        self.made: dict[Key, int] = {}
        """The value of each tensor that the model, or anybody, holds when it is built."""

    def watch(self) -> AbstractContextManager[object]:
        """Return the context in which the model is built."""
        return self._recorder.watch_building()

    def finish(self, model: Model) -> None:
        """Look which tensors are left; weights do not count, as training has changed them."""
        adapter = self._adapter
        weights = {
            id(one.tensor)
            for _, module in adapter.named_modules(model)
            for one in adapter.own_tensors(module)
            if one.is_weight
        }
        for tensor, value in self._recorder.living():
            is_storable = self._kept.values_kept[value]["dtype"] in DTYPE_NAMES
            if is_storable and value in self._kept.makers and id(tensor) not in weights:
                with suppress(RuntimeError):  # what traces graphs leaves tensors without elements
                    array = adapter.elements(tensor)
                    self.made.setdefault((digest_of(array), array.shape), value)
        self._recorder.detach()

    def add_to(self, program: ProgramBuilder, leaves: Mapping[Key, Stored]) -> None:
        """Add to a program the operators that made some of its leaves."""
        wanted = {self.made[key]: stored for key, stored in leaves.items() if key in self.made}
        numbers: dict[int, int] = {}

        def number(value: int) -> int:
            if value not in numbers:
                fields = dict(self._kept.values_kept[value], content=wanted.get(value))
                if fields["kind"] not in (None, LeafKind.RANDOM):
                    fields["kind"] = LeafKind.CONSTANT
                numbers[value] = program.add_value(**fields)
            return numbers[value]

        for one in self._behind(wanted):
            program.add_operator(
                one.name,
                [(key, renumbered(each, number)) for key, each in one.arguments],
                [number(value) for value in one.outputs],
                call=None,
                mode=one.mode | Mode.CONSTRUCTION,
                site=one.site,
            )

    def _behind(self, values: Iterable[int]) -> list[_Operator]:
        """Return the operators that make values, in their order."""
        found: set[int] = set()
        open_ = list(values)
        while open_:
            maker = self._kept.makers.get(open_.pop())
            if maker is not None and maker not in found:
                found.add(maker)
                open_ += self._kept.operators_kept[maker].taken
        return [self._kept.operators_kept[one] for one in sorted(found)]
