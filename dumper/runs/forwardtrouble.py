"""Describe in which module an exception of the forward pass arose."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from padiff.dumpfile import PadiffError, RecordError

from .usercode import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.adapter import Adapter, Model

__all__ = ["forward_trouble"]


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
