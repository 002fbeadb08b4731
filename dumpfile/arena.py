"""Memory for tensors on their way to the disk, used over and over.

Memory that is new to a process costs more than the copy into it (the kernel clears every page at
its first touch). Pieces come back nearly in the order in which they went out, so a ring is enough.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

SIZE_BYTES = 64 << 20
_ALIGNMENT = 64  # bytes; no piece shares a cache line with another


@dataclass(slots=True, eq=False)
class Piece:
    """A part of the arena that is in use."""

    data: npt.NDArray[np.uint8]
    start: int
    end: int
    owner: object
    is_free: bool = False


class Arena:
    """A ring of bytes. Any thread may take pieces and give them back, in any order."""

    def __init__(self, size_bytes: int = SIZE_BYTES) -> None:
        """Reserve the memory; what is never taken is never touched."""
        self._size = size_bytes
        self._memory: npt.NDArray[np.uint8] | None = None
        self._pieces: deque[Piece] = deque()
        self._lock = threading.Lock()

    def take(self, size_bytes: int, owner: object) -> Piece | None:
        """Return that many bytes of any content, None if there is no room for them now.

        Args:
            size_bytes: How many.
            owner: By whom they are used, for ``clear``.
        """
        room = max(-(-size_bytes // _ALIGNMENT), 1) * _ALIGNMENT
        with self._lock:
            start = self._place(room)
            if start is None:
                return None
            if self._memory is None:
                self._memory = np.empty(self._size, np.uint8)
            data = self._memory[start : start + size_bytes]
            piece = Piece(data=data, start=start, end=start + room, owner=owner)
            self._pieces.append(piece)
            return piece

    def give_back(self, piece: Piece) -> None:
        """Let the bytes be used again."""
        with self._lock:
            piece.is_free = True
            self._shrink()

    def clear(self, owner: object) -> None:
        """Take back everything that one owner uses."""
        with self._lock:
            for piece in self._pieces:
                piece.is_free = piece.is_free or piece.owner is owner
            self._shrink()

    def _shrink(self) -> None:
        while self._pieces and self._pieces[0].is_free:
            self._pieces.popleft()

    def _place(self, room: int) -> int | None:
        """Find where a piece can begin: behind the last one, or at the start again."""
        if not self._pieces:
            return 0 if room <= self._size else None
        first, last = self._pieces[0].start, self._pieces[-1].end
        if last <= first:  # they go round already
            return last if room <= first - last else None
        if room <= self._size - last:
            return last
        return 0 if room <= first else None
