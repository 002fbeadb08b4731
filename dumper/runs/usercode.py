"""Run the user's code: whatever it raises becomes a ``RecordError`` that says where."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from padiff.dumpfile import PadiffError, RecordError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from padiff.dumper.adapter import Adapter, Model


class UserCode:
    """A ``with`` block around code that is not ours and may raise anything.

    padiff's own errors and what is no ``Exception`` (Ctrl-C, ``sys.exit``) pass as they are. The
    new error keeps the user's exception, and so its traceback, as ``__cause__``.
    """

    def __init__(
        self,
        doing: str | Callable[[], str],
        *,
        translate: Callable[[Exception], PadiffError | None] | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep what to say.

        Args:
            doing: What was being done, ``cannot run forward``; a function is asked only on failure.
            translate: Gives a better error for some exceptions, None for all others.
            hint: A way out.
        """
        self._doing, self._hint = doing, hint
        self._translate = translate

    def __enter__(self) -> UserCode:
        """Begin."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Raise the error that tells the user, if there is anything to tell."""
        if not isinstance(error, Exception) or isinstance(error, PadiffError):
            return
        better = None if self._translate is None else self._translate(error)
        if better is not None:
            raise better from error
        doing = self._doing if isinstance(self._doing, str) else self._doing()
        raise RecordError(f"{doing}: it raised {describe(error)}", hint=self._hint) from error


def describe(error: BaseException) -> str:
    """Return an exception's class and the line of its message that says what happened.

    Paddle's messages begin with a C++ traceback between rulers and say it in a line that starts
    with the kind of error in parentheses.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("---")]
    said = next((line for line in lines if line.startswith("(")), lines[0] if lines else "")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def forward_trouble(
    adapter: Adapter, model: Model, *, has_inputs: bool
) -> Callable[[Exception], PadiffError | None]:
    """Return in which module an exception of the forward pass arose.

    Args:
        adapter: The framework's.
        model: What was run.
        has_inputs: Whether it was given anything.
    """

    def translate(error: Exception) -> PadiffError | None:
        paths: dict[int, tuple[str, str]] = {}
        for path, module in adapter.named_modules(model):
            paths.setdefault(id(module), (path or "(root)", type(module).__name__))
        found = None
        for frame, _ in traceback.walk_tb(error.__traceback__):
            found = paths.get(id(frame.f_locals.get("self")), found)
        if found is None:
            return None
        path, kind = found
        return RecordError(
            f"cannot run forward: module {path!r} ({kind}) raised {describe(error)}",
            hint=_way_out(path, error, has_inputs=has_inputs),
        )

    return translate


def _way_out(path: str, error: Exception, *, has_inputs: bool) -> str | None:
    if path != "(root)" and not (has_inputs and isinstance(error, TypeError | ValueError)):
        return None
    if not has_inputs:
        return "no --inputs were given"
    return "check the inputs' shapes, dtypes and names: --inputs FILE or name=FILE"
