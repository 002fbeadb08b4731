"""What a framework must be able to do for its operators to be recorded.

One implementation per framework, in ``dumper/adapters/<framework>_operators.py``, found as
``adapter.operators``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumpfile import Argument

    from .adapter import Tensor

RunOperator = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Gets an operator's name, its function and its arguments, calls it and returns its result."""


class Operators(Protocol):
    """One framework's operators."""

    writes_surely: bool
    """Whether all that ``may_write`` returns is written; else its elements are looked at."""

    def watch(self, run: RunOperator) -> AbstractContextManager[object]:
        """Let ``run`` make every call of the framework's functions, until the context is left.

        Only the outermost call counts: what a function calls to do its work is not passed on.
        What only asks for a shape, a dtype or a device is not passed on either.
        """

    def watch_building(self, run: RunOperator) -> AbstractContextManager[object]:
        """Do the same while user code builds a model, which may compile, trace and export."""

    def watch_thread(self, run: RunOperator) -> AbstractContextManager[object]:
        """Let ``run`` make the calls of this thread, too, while another one is in ``watch``.

        What is left of it when that ends makes calls by itself.
        """

    def unwatched(self) -> AbstractContextManager[object]:
        """Return a context in which no call of the thread that entered it is passed on.

        It can be entered again once it was left.
        """

    def stamp(self, tensor: Tensor) -> tuple[Hashable, tuple[int, ...]]:
        """Return something that is another after each change of the tensor in place, and its sizes.

        Asked for of local tensors alone, six times an operator.
        """

    def memory(self, tensor: Tensor) -> Hashable:
        """Return what tells the memory that a tensor and its views share."""

    def dtype(self, tensor: Tensor) -> str:
        """Return the name of a tensor's dtype as dumps spell it."""

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Return the sizes of a tensor's axes."""
        return tuple(tensor.shape)

    def is_recordable(self, tensor: Tensor) -> bool:
        """Return whether the tensor has elements in a memory of its own that can be read now."""

    def argument(self, thing: object) -> Argument:
        """Return the form in which a program holds an argument of a class of the framework."""

    def is_plain(self, name: str) -> bool:
        """Return whether an operator of this name only makes values of what it takes.

        It writes nothing unseen and has nothing to do with other processes: ``may_write``,
        ``read_by``, ``is_pending``, ``is_wait`` and ``sends`` need not be asked. Where this is
        missing, they always are.
        """
        del name
        return False

    def is_unscaling(self, name: str) -> bool:
        """Return whether an operator of this name divides gradients by the scale of the loss.

        Where this is missing, none does.
        """
        del name
        return False

    def may_write(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Sequence[Tensor]:
        """Return the arguments that an operator may change while their ``version`` stays."""

    def read_by(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of an operator without the buffers that it only writes."""
        del name
        return args, kwargs

    def is_pending(self, name: str, result: object) -> bool:
        """Return whether what an operator makes is still on its way when it returns."""
        del name, result
        return False

    def is_wait(self, name: str) -> bool:
        """Return whether an operator waits for what another one makes, and returns that."""
        del name
        return False

    def sends(self, name: str) -> bool:
        """Return whether an operator does something though it makes nothing here."""
        del name
        return False

    def may_draw(self, name: str) -> bool:
        """Return whether an operator of this name may draw random numbers."""

    def mode(self) -> int:
        """Return the ``Mode`` bits of autocast and of building no graph, as they are now."""


@runtime_checkable
class DrawingInside(Protocol):
    """What operators of a framework know of what they draw on their way; those of others need not.

    What draws inside then is a random operator, whose outcome is a leaf.
    """

    def drawn_inside(
        self,
        name: str,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        made: object,
        before: Hashable,
    ) -> Tensor | None:
        """Return what an operator drew on its way, as far as is known.

        It has just been called, and drew random numbers.

        Args:
            name: Of the operator.
            given: What it was called with.
            made: What it returned.
            before: What ``random_state`` was before.
        """
