"""Which of a script's modules is its model."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from padiff.dumper.adapter import Adapter, Model, Module
    from padiff.dumper.trainer import Optimizer

OUR_PACKAGE = __name__.partition(".")[0]
ENTRIES = ("forward", "training_step")
"""Methods by which a model is entered once in a step, beside its call. Others may hold the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which of a script's models is recorded; by default the first root module that is called."""

    class_name: str | None = None
    """Its class, such as ``GPT`` or ``nets.gpt.GPT``."""
    variable: str | None = None
    """The variable of the script that holds it, such as ``model`` or ``trainer.net``."""

    def __str__(self) -> str:
        """Describe what is looked for."""
        if self.class_name is not None:
            return f"a model of class {self.class_name!r}"
        if self.variable is not None:
            return f"the model in variable {self.variable!r}"
        return "a model"

    def fits(self, adapter: Adapter, module: Module, frame: FrameType | None) -> bool:
        """Return whether a module that is called is the one."""
        if self.class_name is not None:
            kind = type(adapter.unwrap(module))
            full = f"{kind.__module__}.{kind.__qualname__}"
            return f".{full}".endswith(f".{self.class_name}")
        if self.variable is not None:
            values = _values(self.variable, frame, (OUR_PACKAGE, adapter.name))
            return any(_is_it(adapter, module, held) for held in values)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A model that begins to run."""

    model: Model
    methods: tuple[str, ...] = ()
    """By which of its methods it was entered, if it was not called itself."""

    @property
    def note(self) -> str:
        """Describe what is not recorded of it, ``""`` if all is."""
        if not self.methods:
            return ""
        return (
            f"the script runs {type(self.model).__name__} by its {self.methods[0]}() and never "
            "calls it: the calls inside were recorded, not the model's own input and output"
        )


def entered(adapter: Adapter, module: Module, frame: FrameType | None) -> Entered:
    """Find the model that a call belongs to: the outermost one that runs a method and owns it.

    Scripts call ``model.forward(x)``, or ``model.training_step(batch)`` as trainers do; then only
    modules inside the model are called.
    """
    found = Entered(model=module)
    while frame is not None:
        owner, name = _receiver(frame), frame.f_code.co_name
        if (
            name in ENTRIES
            and owner is not found.model
            and adapter.is_model(owner)
            and _method_code(owner, name) is frame.f_code
            and any(inner is module for _, inner in adapter.named_modules(owner))
        ):
            found = Entered(model=owner, methods=(name,))
        frame = frame.f_back
    return found


def update_around(adapter: Adapter, frame: FrameType | None) -> Optimizer | None:
    """Return the optimizer that called the code that runs, as LBFGS calls its closure."""
    while frame is not None:
        receiver = _receiver(frame)
        if adapter.trainer.is_optimizer(receiver):
            return receiver
        frame = frame.f_back
    return None


def _receiver(frame: FrameType) -> object:
    """Return what a function got as its first argument."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def _method_code(owner: object, name: str) -> object:
    method = getattr(type(owner), name, None)
    return getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None


def _values(name: str, frame: FrameType | None, others: tuple[str, ...]) -> Iterator[object]:
    """Yield what a dotted name means in each frame from this one outwards.

    Args:
        name: Such as ``model`` or ``trainer.net``.
        frame: The innermost.
        others: Top-level packages whose own variables do not count.
    """
    first, *parts = name.split(".")
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        scopes = () if package in others else (frame.f_locals, frame.f_globals)
        for scope in scopes:
            value = scope.get(first)
            for part in parts:
                value = getattr(value, part, None)
            if value is not None:
                yield value
        frame = frame.f_back


def _is_it(adapter: Adapter, module: Module, held: object) -> bool:
    return held is module or (
        adapter.is_model(held) and adapter.unwrap(held) is adapter.unwrap(module)
    )
