"""Which calls draw random numbers: seen by what their generators say before and after."""

from __future__ import annotations

import ctypes
import random
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Draw

if TYPE_CHECKING:
    from collections.abc import Hashable

    from padiff.dumper.adapter import Adapter

_MT19937_BYTES = 4 * 624 + 4
"""numpy's ``mt19937_state``: 624 words and the place among them (numpy/random/src/mt19937)."""


class Draws:
    """Compares the states of all generators at each event of a step.

    What moved since the event before was moved by the call that ran in between. The generators are
    those that everybody shares; one that a model made for itself, or that was put back to where
    it had been, is not seen.
    """

    def __init__(self, adapter: Adapter) -> None:
        """Know no state yet: what came before the first event is no call's."""
        self._adapter = adapter
        self._seen: dict[str, tuple[Hashable, int]] = {}
        self._first: dict[tuple[int | None, str], int] = {}

    def look(self, call: int | None, order: int, *, is_own_code: bool) -> None:
        """See what was drawn since the last event.

        Args:
            call: Id of the innermost call that ran since then, None outside all.
            order: Execution order of the event that is now.
            is_own_code: Whether the module of the event is a user's. Those of a framework never
                draw from Python's generator, whose state costs ten times the others' to read.
        """
        self._compare(self._adapter.name, self._adapter.random_state(), call, order)
        self._compare("numpy", _numpy_state(), call, order)
        if is_own_code:
            self._compare("python", random.getstate(), call, order)

    def forget(self) -> None:
        """Take what was drawn since the last event for nobody's."""
        self._seen.clear()

    def found(self) -> list[Draw]:
        """Return what was drawn, one row for each call and moment."""
        rows: dict[tuple[int | None, int], list[str]] = {}
        for (call, generator), after in self._first.items():
            rows.setdefault((call, after), []).append(generator)
        return [
            Draw(call=call, after=after, generators=tuple(generators))
            for (call, after), generators in sorted(rows.items(), key=lambda row: row[0][1])
        ]

    def _compare(self, generator: str, state: Hashable, call: int | None, order: int) -> None:
        before = self._seen.get(generator)
        if before is not None and before[0] != state:
            self._first.setdefault((call, generator), before[1])
        self._seen[generator] = state, order


def _numpy_state() -> Hashable:
    """Return the memory of the generator behind ``np.random.rand`` and its kin."""
    bits = np.random.get_bit_generator()  # type: ignore[attr-defined]
    if not isinstance(bits, np.random.MT19937):
        return repr(bits.state)
    return ctypes.string_at(bits.ctypes.state_address, _MT19937_BYTES)
