"""Dumps of a chain of modules, each inside the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import CallInfo, DumpWriter, ModuleInfo, Phase, Role
from tests.support.dumps import manifest

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.dumpfile import StepWriter


def write_chain(
    place: Path, depth: int, *, change: float = 0.0, wide: int = 4, other_names: bool = False
) -> Path:
    """Write a dump of a chain whose modules all hand on what the innermost one makes.

    Args:
        place: The dump's directory.
        depth: Number of modules.
        change: Added to what the innermost one makes.
        wide: Elements of each tensor.
        other_names: Whether each module has a name and a class that no other has.
    """
    with DumpWriter(place, overwrite=True) as writer:
        with writer.step(0) as step:
            _add_modules(step, depth, other_names=other_names)
            given = np.arange(wide, dtype=np.float32)
            one, other = step.store(given), step.store(given * 2 + np.float32(change))
            for number in range(depth):
                step.add_call(
                    CallInfo(
                        id=number,
                        module=number,
                        index=0,
                        parent=number - 1 if number else None,
                        start=number,
                        end=2 * depth - 1 - number,
                    )
                )
            step.add_record(
                module=depth - 1,
                call=None,
                phase=Phase.FORWARD,
                role=Role.WEIGHT,
                slot=".weight",
                order=0,
                shape=(1, wide),
                value=step.store(given[None] + 7),
            )
            ends = [(Role.INPUT, "[0]", number, one) for number in range(depth)]
            ends += [(Role.OUTPUT, "", number, other) for number in reversed(range(depth))]
            for order, (role, slot, number, value) in enumerate(ends):
                step.add_record(
                    module=number,
                    call=number,
                    phase=Phase.FORWARD,
                    role=role,
                    slot=slot,
                    order=order,
                    shape=(wide,),
                    value=value,
                )
        return writer.commit(manifest(name=place.name))


def _add_modules(step: StepWriter, depth: int, *, other_names: bool) -> None:
    path = ""
    for number in range(depth):
        own = f"Own{_spelled(number)}" if other_names else "Wrap"
        is_last = number == depth - 1
        step.add_modules(
            [
                ModuleInfo(
                    id=number,
                    path=path,
                    class_name="Linear" if is_last else own,
                    class_path="torch.nn.modules.linear.Linear" if is_last else f"net.{own}",
                    parent=number - 1 if number else None,
                )
            ]
        )
        name = _spelled(number) if other_names else "m"
        path = f"{path}.{name}" if path else name


def _spelled(number: int) -> str:
    """Write a number in letters, as a word of its own."""
    return "q" + "".join("bcdfghjklm"[int(digit)] for digit in str(number))
