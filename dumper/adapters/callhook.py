"""A hook on calls that stays behind when a model is copied or saved."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class CallHook:
    """Passes what a module takes or gives on, and changes nothing.

    Scripts copy their model (``copy.deepcopy`` for an average of the weights) or save it whole
    while a step is recorded. The copy is another model, so that in it the hook does nothing; a
    file must load where padiff is not installed, so that the hook is saved as a function of
    Python's own that takes anything and gives None.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., None]) -> None:
        """Keep whom to call; it gets the hook's arguments."""
        self._call = call

    def __call__(self, *given: Any) -> None:  # noqa: ANN401 - what the framework passes
        """Pass it on."""
        self._call(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        """Become a hook that does nothing."""
        return getattr, (nullcontext(), "__exit__")
