"""What is wrong in a plan of weights or within one dump: where, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Origin:
    """A weight or a record that is wrong by itself, and no consequence of another."""

    where: str
    """``reference fc.weight`` of a plan, ``step 0 fc output`` of a dump."""
    module: str
    """Path of its module, empty for the root."""
    cause: str
    """What is wrong with it, a clause."""
    source: str = ""
    """``file:line`` of the call that made it; empty if there is none."""

    def __repr__(self) -> str:
        """Return one line: where, and why."""
        return f"<Origin: {self.where}: {self.cause}>"
