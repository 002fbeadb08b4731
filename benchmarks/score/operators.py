"""Find the operators that each module of a model runs itself, and change one of them."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import nn
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

__all__ = ["Change", "Site", "change_operator", "sites"]

Change: TypeAlias = "Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]"
"""Gets an operator with its arguments, and returns what stands for its result."""
PLAIN = {"__iadd__": "add", "__radd__": "add", "__add__": "add", "add_": "add",
         "__mul__": "mul", "__rmul__": "mul", "__imul__": "mul", "__truediv__": "div",
         "__matmul__": "matmul", "__sub__": "sub", "__getitem__": "getitem"}  # fmt: skip
"""Operators that have several names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One operator in the code of one module."""

    module: str
    """Path of the module whose own code calls it."""
    operator: str
    nth: int
    """How many operators of that name the same call of the module ran before."""


def sites(
    model: nn.Module, run: Callable[[], object]
) -> list[tuple[Site, tuple[Any, ...], dict[str, Any]]]:
    """Run a model and list all operators of its modules, each once, with their arguments."""
    paths = {id(module): path for path, module in model.named_modules()}
    found: dict[Site, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    with _Listing(paths, found):
        run()
    return [(site, *arguments) for site, arguments in found.items()]


def change_operator(model: nn.Module, site: Site, change: Change) -> None:
    """Let one operator of a module give something else, in every call of the module."""
    module = model.get_submodule(site.module)
    base = type(module)

    @functools.wraps(base.forward)
    def forward(self: nn.Module, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        with _Changing(self, site, change):
            return base.forward(self, *args, **options)

    names = {"forward": forward, "__module__": base.__module__}
    module.__class__ = type(base.__name__, (base,), names)


class _Listing(TorchFunctionMode):
    """Lists operators by the module whose code runs them."""

    def __init__(
        self, paths: dict[int, str], found: dict[Site, tuple[tuple[Any, ...], dict[str, Any]]]
    ) -> None:
        super().__init__()
        self.paths, self.found = paths, found
        self.counts: dict[int, tuple[FrameType, Counter[str]]] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        owner = next(_owners(), None)
        path = None if owner is None else self.paths.get(id(owner[0]))
        if owner is not None and path is not None:
            frame, counts = self.counts.get(id(owner[0]), (None, Counter()))
            if frame is not owner[1]:
                counts = Counter()
            name = _name(func)
            site = Site(module=path, operator=name, nth=counts[name])
            self.found.setdefault(site, (args, kwargs or {}))
            counts[name] += 1
            self.counts[id(owner[0])] = owner[1], counts
        return func(*args, **(kwargs or {}))


class _Changing(TorchFunctionMode):
    """Changes one operator of one call of a module."""

    def __init__(self, module: nn.Module, site: Site, change: Change) -> None:
        super().__init__()
        self.module, self.site, self.change = module, site, change
        self.count = 0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        options = kwargs or {}
        if _name(func) != self.site.operator:
            return func(*args, **options)
        owner = next(_owners(), None)
        if owner is None or owner[0] is not self.module:
            return func(*args, **options)
        self.count += 1
        if self.count - 1 != self.site.nth:
            return func(*args, **options)
        return self.change(func, args, options)


def _name(func: Callable[..., Any]) -> str:
    name = str(getattr(func, "__name__", ""))
    return PLAIN.get(name, name)


def _owners() -> Iterator[tuple[nn.Module, FrameType]]:
    """List the modules whose code is running, the innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module):
            yield module, frame
        frame = frame.f_back
