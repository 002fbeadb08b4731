"""A row of the table of operators, and how a case becomes a call of one framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from padiff.ops.cases import Argument, Case

if TYPE_CHECKING:
    from .draw import Draw

Arguments: TypeAlias = Mapping[str, Argument]
Strategy: TypeAlias = "Callable[[Draw], Arguments]"
Changes: TypeAlias = Callable[[dict[str, Argument]], dict[str, Argument]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of one framework's function."""

    name: str
    """Dotted, beginning with the framework."""
    keywords: Arguments
    positional: tuple[Argument, ...] = ()
    """What is passed without a name, in front."""
    taken: str = ""
    """Python for what is compared of the result, which it calls ``out``; empty for all of it."""
    slots: tuple[int, ...] | None = None
    """Places of the outputs that are compared; None for all."""
    wrapped: Mapping[str, str] = field(default_factory=dict)
    """Python for what is passed for an argument, by its name; the tensor is ``x``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What one framework calls an operator, and how its arguments differ."""

    name: str
    names: Mapping[str, str] = field(default_factory=dict)
    """Its name of an argument, by the table's; those that are missing have the same name."""
    always: Arguments = field(default_factory=dict)
    """What is passed beside a case's own arguments."""
    values: Mapping[str, Callable[[Argument], Argument]] = field(default_factory=dict)
    """What it is passed for an argument, by the table's name."""
    changes: Changes | None = None
    """Rewrites all arguments, under the table's names, before they are renamed."""
    slots: tuple[int, ...] | None = None
    """Places of the outputs that are compared; None for all."""
    positional: tuple[str, ...] = ()
    """Arguments that are passed without a name; of ``*tensors`` each element."""
    taken: str = ""
    """As in ``Call``."""
    wrapped: Mapping[str, str] = field(default_factory=dict)
    """As in ``Call``, by the table's names."""

    def call(self, case: Case) -> Call:
        """Return the call of this framework for a case."""
        arguments = dict(case.arguments)
        if self.changes is not None:
            arguments = self.changes(arguments)
        positional: list[Argument] = []
        for name in self.positional:
            if name.removeprefix("*") not in arguments:
                break
            one = arguments.pop(name.removeprefix("*"))
            positional += one if name[0] == "*" and isinstance(one, tuple) else [one]
        keywords = {
            self.names.get(name, name): self.values[name](value) if name in self.values else value
            for name, value in arguments.items()
        }
        return Call(
            name=self.name,
            keywords={**keywords, **self.always},
            positional=tuple(positional),
            taken=self.taken,
            slots=self.slots,
            wrapped={self.names.get(name, name): text for name, text in self.wrapped.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operator of both frameworks."""

    name: str
    frameworks: Mapping[str, Difference]
    """By framework; the first one's names of arguments are the table's."""
    strategy: Strategy
    least: float = 0.0
    """An element below this size rounds as one of this size: where a function crosses 0, kernels
    add and subtract terms of about this size."""
    formula: Callable[..., Any] | None = None
    """Of an operator without a lowering: its outputs in float64, by the table's arguments."""
    note: str = ""
    """What differs by design, for a reader."""

    @property
    def first(self) -> str:
        """The framework whose names the arguments have, and whose lowering is the oracle."""
        return next(iter(self.frameworks))


def _full(short: str, framework: str) -> str:
    return f"{framework}.nn.functional.{short[2:]}" if short[:2] == "F." else f"{framework}.{short}"


def row(  # noqa: PLR0913 -- one for each thing in which the frameworks differ
    name: str,
    paddle: str,
    renames: str,
    strategy: Strategy,
    *,
    torch: str = "",
    always: Arguments | None = None,
    values: Mapping[str, Callable[[Argument], Argument]] | None = None,
    changes: Changes | None = None,
    wrapped: Mapping[str, str] | None = None,
    torch_slots: tuple[int, ...] | None = None,
    paddle_taken: str = "",
    positional: str = "",
    least: float = 0.0,
    note: str = "",
) -> Row:
    """Build a row; ``F.relu`` stands for ``torch.nn.functional.relu`` and Paddle's twin.

    Args:
        name: The operator; torch's name without ``torch.`` unless ``torch`` says another.
        paddle: Paddle's name; empty if it is the same.
        renames: Torch's and Paddle's names of arguments that differ: ``"input:x dim:axis"``.
        strategy: Draws arguments under torch's names.
        torch: Torch's name.
        always: What Paddle is passed in addition.
        values: What Paddle is passed for an argument, by torch's name.
        changes: Rewrites all arguments for Paddle.
        wrapped: Python for what Paddle is passed for a tensor ``x``, by torch's name.
        torch_slots: The places of those of torch's outputs that are compared.
        paddle_taken: Python for what is compared of Paddle's result ``out``.
        positional: Arguments that both are passed without a name.
        least: As in ``Row``.
        note: What differs by design.
    """
    first = torch or name
    return Row(
        name=name.removeprefix("F."),
        frameworks={
            "torch": Difference(
                name=_full(first, "torch"),
                slots=torch_slots,
                positional=tuple(positional.split()),
            ),
            "paddle": Difference(
                name=_full(paddle or first, "paddle"),
                names=dict(pair.split(":") for pair in renames.split()),
                always=always or {},
                values=values or {},
                changes=changes,
                positional=tuple(positional.split()),
                taken=paddle_taken,
                wrapped=wrapped or {},
            ),
        },
        strategy=strategy,
        least=least,
        note=note,
    )
