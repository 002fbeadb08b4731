"""Hooks on calls of Cells: ``Cell.__call__`` is replaced while there are any.

MindSpore's own hooks run in a helper that has returned before ``construct`` begins, so that the
frames of a call would not tell what runs inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from mindspore import nn

from padiff.dumper.watch import Patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.adapter import AfterCall, BeforeCall, Handle


@dataclass(slots=True)
class _Hooks:
    """What is hooked to one Cell, which is kept alive so that its identity stays its own."""

    cell: nn.Cell
    entered: list[Callable[[], None]] = field(default_factory=list)
    around: list[tuple[BeforeCall, AfterCall]] = field(default_factory=list)
    replaced: list[Callable[[Any], Any]] = field(default_factory=list)


class CallHooks:
    """The hooks of all Cells."""

    def __init__(self) -> None:
        self._hooks: dict[int, _Hooks] = {}
        self._patch: Patch | None = None
        self.begins: Callable[[], None] | None = None
        """Called at the beginning of each call of a hooked Cell."""

    def around(self, cell: nn.Cell, before: BeforeCall, after: AfterCall) -> Handle:
        """Call back around every execution of a Cell."""
        return self._add(cell, "around", (before, after))

    def entered(self, cell: nn.Cell, callback: Callable[[], None]) -> Handle:
        """Call back at the beginning of every execution."""
        return self._add(cell, "entered", callback)

    def replaced(self, cell: nn.Cell, replace: Callable[[Any], Any]) -> Handle:
        """Put what ``replace`` gives in the place of each result, after it was recorded."""
        return self._add(cell, "replaced", replace)

    def _add(self, cell: nn.Cell, kind: str, hook: object) -> Handle:
        hooks = self._hooks.setdefault(id(cell), _Hooks(cell))
        getattr(hooks, kind).append(hook)
        if self._patch is None:
            self._patch = Patch(nn.Cell, "__call__", self._wrapped)
        return _Hook(partial(self._remove, cell, kind, hook))

    def _remove(self, cell: nn.Cell, kind: str, hook: object) -> None:
        hooks = self._hooks.get(id(cell))
        if hooks is None or hook not in getattr(hooks, kind):
            return
        getattr(hooks, kind).remove(hook)
        if not (hooks.entered or hooks.around or hooks.replaced):
            del self._hooks[id(cell)]
        if not self._hooks and self._patch is not None:
            self._patch.remove()
            self._patch = None

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        known = self._hooks

        def run_call(cell: nn.Cell, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            hooks = known.get(id(cell))
            if hooks is None:
                return call(cell, *args, **kwargs)
            if self.begins is not None:
                self.begins()
            for entered in tuple(hooks.entered):
                entered()
            around = tuple(hooks.around)
            for before, _ in around:
                before(cell, args, kwargs)
            result = call(cell, *args, **kwargs)
            for _, after in reversed(around):
                after(cell, result)
            for replace in tuple(hooks.replaced):
                result = replace(result)
            return result

        return run_call


class _Hook:
    """One hook, which can be taken off."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self._remove = remove

    def remove(self) -> None:
        """Take it off."""
        self._remove()
