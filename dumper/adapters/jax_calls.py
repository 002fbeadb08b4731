"""Hooks on calls of modules of flax: the ``__call__`` of their classes is replaced meanwhile."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import jax

from padiff.dumper.watch import Patch

from .jax_tape import Removal

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.adapter import AfterCall, BeforeCall, Handle, Module

_CALL = "__call__"


@dataclass(slots=True)
class _Hooks:
    """What is hooked to one module, which is kept alive so that its identity stays its own."""

    module: Module
    entered: list[Callable[[], None]] = field(default_factory=list)
    around: list[tuple[BeforeCall, AfterCall]] = field(default_factory=list)
    replaced: list[Callable[[Any], Any]] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.entered or self.around or self.replaced)


_HOOKS: dict[int, _Hooks] = {}
_PATCHES: dict[type, tuple[Patch, set[int]]] = {}
"""The patch of each class that has a ``__call__`` of its own, and the modules that need it."""
_LOCK = threading.Lock()


def hook_call(module: Module, before: BeforeCall, after: AfterCall) -> Handle:
    """Call back around every execution of a module."""
    return _add(module, "around", (before, after))


def hook_entered(module: Module, callback: Callable[[], None]) -> Handle:
    """Call back at the beginning of every execution."""
    return _add(module, "entered", callback)


def feed(module: Module, replace: Callable[[Any], Any]) -> Handle:
    """Let a module hand on something else than it made."""
    return _add(module, "replaced", replace)


def _add(module: Module, kind: str, hook: object) -> Handle:
    with _LOCK:
        hooks = _HOOKS.setdefault(id(module), _Hooks(module))
        getattr(hooks, kind).append(hook)
        owner = _owner(type(module))
        if owner is not None:
            if owner not in _PATCHES:
                _PATCHES[owner] = Patch(owner, _CALL, partial(_wrapped, owner)), set()
            _PATCHES[owner][1].add(id(module))
    return Removal(partial(_remove, module, kind, hook))


def _remove(module: Module, kind: str, hook: object) -> None:
    with _LOCK:
        hooks = _HOOKS.get(id(module))
        if hooks is None or hook not in getattr(hooks, kind):
            return
        getattr(hooks, kind).remove(hook)
        if hooks.is_empty:
            del _HOOKS[id(module)]
            owner = _owner(type(module))
            if owner in _PATCHES:
                patch, users = _PATCHES[owner]
                users.discard(id(module))
                if not users:
                    patch.remove()
                    del _PATCHES[owner]


def _owner(kind: type) -> type | None:
    """Return the class whose ``__call__`` runs for instances of a class."""
    return next((one for one in kind.__mro__ if _CALL in vars(one)), None)


def _wrapped(owner: type, call: Callable[..., Any]) -> Callable[..., Any]:
    def run_call(module: Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        hooks = _HOOKS.get(id(module))
        # super().__call__() is no call of its own
        if hooks is None or _owner(type(module)) is not owner or _is_traced(args, kwargs):
            return call(module, *args, **kwargs)
        for entered in tuple(hooks.entered):
            entered()
        around = tuple(hooks.around)
        for before, _ in around:
            before(module, args, kwargs)
        result = call(module, *args, **kwargs)
        for replace in tuple(hooks.replaced):
            result = replace(result)
        for _, after in around:
            after(module, result)
        return result

    return run_call


def _is_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call is only traced: inside ``jit``, ``vmap``, ``grad``, ``scan``."""
    return any(isinstance(one, jax.core.Tracer) for one in jax.tree.leaves((args, kwargs)))
