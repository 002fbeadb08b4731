"""The primitives of JAX as operators: every one that runs while the tape watches."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from padiff.dumper.operators import Operators
from padiff.dumpfile import Argument, Dtype, Opaque

from .jax_tape import DRAWING, PREFIX, TAPE, is_array, raw
from .patched import class_name

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.operators import RunOperator


class JaxOperators(Operators):
    """The operators of ``jax``."""

    writes_surely = True

    def watch(self, run: RunOperator) -> AbstractContextManager[object]:
        """Let the tape hand on what it sees; it watches while the adapter records."""
        return TAPE.running(run)

    def watch_building(self, run: RunOperator) -> AbstractContextManager[object]:
        """Watch nothing: what makes a model's weights is no part of its program."""
        del run
        return TAPE.silent()

    def watch_thread(self, run: RunOperator) -> AbstractContextManager[object]:
        """Watch another thread, too."""
        del run
        return TAPE.recording()

    def unwatched(self) -> AbstractContextManager[object]:
        """Hand on nothing of this thread."""
        return TAPE.silent()

    def stamp(self, tensor: Any) -> tuple[Hashable, tuple[int, ...]]:  # noqa: ANN401
        """Return the shape: arrays never change."""
        return 0, raw(tensor).shape

    def memory(self, tensor: Any) -> Hashable:  # noqa: ANN401
        """Return the identity of the array: it shares its memory with none that can be seen."""
        return id(raw(tensor))

    def dtype(self, tensor: Any) -> str:  # noqa: ANN401
        """Return the dtype's name."""
        return str(tensor.dtype.name)

    def is_recordable(self, tensor: Any) -> bool:  # noqa: ANN401
        """Refuse tracers and keys of generators."""
        return is_array(raw(tensor))

    def argument(self, thing: object) -> Argument:
        """Return dtypes as such, members of enumerations as text, a name for everything else."""
        if isinstance(thing, np.dtype):
            return Dtype(thing.name)
        if isinstance(thing, type) and issubclass(thing, np.generic):
            return Dtype(np.dtype(thing).name)
        if isinstance(thing, enum.Enum):
            return thing.name
        if isinstance(thing, jax.Array):
            return Opaque("<a key>")
        return class_name(thing)

    def is_plain(self, name: str) -> bool:
        """Return True: no primitive writes."""
        del name
        return True

    def may_write(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """Return nothing: no primitive writes."""
        del name, args, kwargs
        return ()

    def may_draw(self, name: str) -> bool:
        """Know the primitives that make random numbers."""
        return name.removeprefix(PREFIX) in DRAWING

    def mode(self) -> int:
        """Return 0: there is neither autocast nor a mode without gradients."""
        return 0
