"""Run the user's code: whatever it raises becomes a ``RecordError`` that says where.

So does the loss, the scalar that the backward pass starts from.
"""

from __future__ import annotations

import math
import traceback
from typing import TYPE_CHECKING

from padiff.dumper.recording.nested import flatten
from padiff.dumpfile import PadiffError, RecordError

from .outputs import Chosen, LossOutputs, Output

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from padiff.dumper.adapter import Adapter, Model, Tensor


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
    """Return in which module an exception of the forward pass arose."""

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


def default_loss(
    adapter: Adapter, output: object, chosen: LossOutputs | None = None
) -> tuple[Tensor | None, str | None]:
    """Compute the mean over the floating outputs, and say why there is no backward pass if so.

    Raises:
        ConfigError: An output that the user chose is not there.
    """
    found = _floating(adapter, output)
    taken = {slot for slot, _ in found}
    if chosen is not None:
        taken = set(choose_outputs(adapter, output, chosen).taken)
    outputs = {adapter.identity(tensor): tensor for slot, tensor in found if slot in taken}
    if not outputs:
        return None, "the model gave no floating output with elements"
    with UserCode("cannot compute the loss"):
        loss = adapter.mean_loss(list(outputs.values()))
    needs_grad = adapter.requires_grad(loss)
    return loss, None if needs_grad else "no output depends on anything that requires a gradient"


def choose_outputs(adapter: Adapter, output: object, chosen: LossOutputs) -> Chosen:
    """Choose what the default loss takes of what a model gave.

    Raises:
        ConfigError: An output that the user chose is not there.
    """
    return chosen.choose(
        [
            Output(slot=slot, shape=tuple(tensor.shape))
            for slot, tensor in _floating(adapter, output)
        ]
    )


def _floating(adapter: Adapter, output: object) -> list[tuple[str, Tensor]]:
    return [
        (slot, tensor)
        for slot, tensor in flatten(output, adapter.is_tensor).tensors
        if adapter.is_floating(tensor) and math.prod(tensor.shape)
    ]
