"""The planted faults as cases: each a row of ``faults.json`` that ``draw`` wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .architectures import ARCHITECTURES
from .case import DIFFERENT, Case, Expected, Group
from .dumping import dump
from .faults import KINDS
from .operators import Site, change_operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["ROWS", "TOGETHER", "Planted", "cases", "plant_all", "read_rows"]

ROWS = Path(__file__).parent / "faults.json"
TOGETHER = Path(__file__).parent / "together.json"
"""Names of faults that are planted into one model at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One fault in one module of one model."""

    architecture: str
    kind: str
    module: str
    """Path of the module whose code or attributes are changed."""
    operator: str = ""
    """Empty where the module itself is changed."""
    nth: int = 0
    size: Any = None
    ratio: float = 0.0
    """Effect on the result over float32's own rounding, as it was drawn."""

    @property
    def name(self) -> str:
        """Return a name that no other fault has."""
        place = f"{self.module or '(root)'}"
        if self.operator:
            place += f" {self.operator} {self.nth}"
        size = "" if self.size is None else f" {self.size}"
        return f"{self.architecture}: {self.kind}{size} in {place}"

    @property
    def exact(self) -> tuple[str, ...]:
        """Return the paths (as patterns) of which each is the right one."""
        kind = KINDS[self.kind]
        prefix = f"{self.module}." if self.module else ""
        return (self.module, *(prefix + name for name in kind.beside))

    def plant(self, model: Any) -> None:  # noqa: ANN401 - any module
        """Put the fault into a model."""
        change = KINDS[self.kind].change(self.size)
        if self.operator:
            site = Site(module=self.module, operator=self.operator, nth=self.nth)
            change_operator(model, site, change)
        else:
            change(model.get_submodule(self.module))


def read_rows() -> list[Planted]:
    """Read the faults that were drawn."""
    return [Planted(**row) for row in json.loads(ROWS.read_text())]


def plant_all(rows: Iterable[Planted], model: Any) -> Any:  # noqa: ANN401 - any module
    """Put faults into a model, and return it."""
    for row in rows:
        row.plant(model)
    return model


def cases() -> Iterator[Case]:
    """List the planted faults as cases, and those that are planted several at once."""
    rows = {row.name: row for row in read_rows()}
    for row in rows.values():
        yield _case(Group.FAULTS, row.name, (row,), _expected(row))
    for names in json.loads(TOGETHER.read_text()):
        those = tuple(rows[name] for name in names)
        name = "; and ".join((names[0], *(one.partition(": ")[2] for one in names[1:])))
        expected = Expected(verdicts=DIFFERENT, each=tuple(map(_expected, those)))
        yield _case(Group.TOGETHER, name, those, expected)


def _expected(row: Planted) -> Expected:
    return Expected(verdicts=DIFFERENT, origins=row.exact, words=KINDS[row.kind].words)


def _case(group: Group, name: str, rows: Sequence[Planted], expected: Expected) -> Case:
    key = rows[0].architecture
    architecture = ARCHITECTURES[key]

    def reference(out: Path) -> Path:
        return dump(architecture.build(), architecture.inputs(), out, "reference")

    def candidate(out: Path, _: Path) -> Path:
        model = plant_all(rows, architecture.build())
        return dump(model, architecture.inputs(), out, "candidate")

    return Case(
        group=group,
        name=name,
        family=architecture.family,
        chunk=key,
        reference=reference,
        reference_key=key,
        candidate=candidate,
        expected=expected,
    )
