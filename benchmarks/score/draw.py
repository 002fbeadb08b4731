"""Draw the planted faults by seed, keep those above noise: ``python -m benchmarks.score.draw``."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import warnings
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch

from .architectures import ARCHITECTURES
from .faults import KINDS
from .noise import ABOVE, Results, exceeds, run_in
from .operators import sites
from .planted import ROWS, TOGETHER, Planted, plant_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


EACH = 8
"""Faults of each kind, in different models as far as there are any."""
GRADED = 14
"""Faults of each kind that has sizes."""
AT_ONCE = (2, 3)
"""How many faults are planted into one model at once."""
TRIES = 20
"""Draws of several faults, of which one has to stand apart and above noise."""
SMALL = 0.6
"""Share of those that are as small as they can be and still stand above noise."""


def main() -> None:
    """Draw and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.score.draw", description=__doc__)
    parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    drawer = _Drawer()
    rows = [row for kind in KINDS for row in drawer.draw(kind)]
    rows.sort(key=lambda row: list(ARCHITECTURES).index(row.architecture))
    ROWS.write_text("[\n" + ",\n".join(json.dumps(_plain(row)) for row in rows) + "\n]\n")
    print(f"{len(rows)} faults of {len({row.kind for row in rows})} kinds in {ROWS}")
    draw_together(rows)


def draw_together(rows: Sequence[Planted]) -> None:
    """Draw two and three faults of each model in different modules, each above noise."""
    found = []
    for name in ARCHITECTURES:
        own = [row for row in rows if row.architecture == name]
        chance = random.Random(f"{name}, several")
        for count in AT_ONCE:
            if len(own) >= count:
                tries = (chance.sample(own, count) for _ in range(TRIES))
                those = next(filter(_are_above, filter(_are_apart, tries)), ())
                found += [sorted(row.name for row in those)] if those else []
    lines = ",\n".join(map(json.dumps, found))
    TOGETHER.write_text(f"[\n{lines}\n]\n")
    print(f"{len(found)} models with several faults in {TOGETHER}")


def _are_apart(rows: Sequence[Planted]) -> bool:
    """Return whether faults are of different kinds, in modules of which none is in another."""
    paths = [f"{row.module}." for row in rows]
    return len({row.kind for row in rows}) == len(rows) and not any(
        one.startswith(two) for one, two in itertools.permutations(paths, 2)
    )


def _are_above(rows: Sequence[Planted]) -> bool:
    """Return whether each fault moves the result of the model that has all others."""
    architecture = ARCHITECTURES[rows[0].architecture]
    inputs = architecture.inputs()
    for row in rows:
        others = [one for one in rows if one is not row]
        results = []
        for dtype, planted in (
            (torch.float64, others),
            (torch.float32, others),
            (torch.float64, rows),
        ):
            model = plant_all(planted, architecture.build())
            is_backward = KINDS[row.kind].backward
            results.append(run_in(dtype, model, inputs, is_backward=is_backward))
        if exceeds(right=results[0], rounded=results[1], faulty=results[2]) < ABOVE:
            return False
    return True


class _Drawer:
    """Knows where each kind can be, and what each model computes without a fault."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, list[Planted]]] = {kind: {} for kind in KINDS}
        self.right: dict[tuple[str, bool], tuple[Results, Results]] = {}
        for name in ARCHITECTURES:
            for kind, place in _places(name):
                self.places[kind].setdefault(name, []).append(place)

    def draw(self, kind: str) -> Iterator[Planted]:
        """Draw faults of one kind, one model after the other."""
        chance = random.Random(kind)
        count = GRADED if isinstance(KINDS[kind].sizes[-1], float) else EACH
        names = sorted(self.places[kind])
        chance.shuffle(names)
        drawn: set[Planted] = set()
        for _ in range(3):
            for name in names:
                row = self._fault(name, kind, chance)
                if row is None or replace(row, ratio=0.0) in drawn:
                    continue
                drawn.add(replace(row, ratio=0.0))
                yield row
                if len(drawn) == count:
                    return

    def _fault(self, name: str, kind: str, chance: random.Random) -> Planted | None:
        """Draw a place and a size, and a larger one while the effect is below noise."""
        sizes = KINDS[kind].sizes
        place = chance.choice(self.places[kind][name])
        is_graded = isinstance(sizes[-1], float)
        is_small = is_graded and chance.random() < SMALL
        at = len(sizes) - 1 if is_small else chance.randrange(len(sizes))
        for size in sizes[at::-1] if is_graded else (sizes[at],):
            row = replace(place, size=size)
            ratio = self._ratio(row)
            print(f"{row.name}: {ratio:.3g}", file=sys.stderr)
            if ratio >= ABOVE:
                return replace(row, ratio=float(f"{ratio:.2g}"))
        return None

    def _ratio(self, row: Planted) -> float:
        architecture, is_backward = ARCHITECTURES[row.architecture], KINDS[row.kind].backward
        key = row.architecture, is_backward
        if key not in self.right:
            self.right[key] = (
                _run(row.architecture, torch.float64, is_backward=is_backward),
                _run(row.architecture, torch.float32, is_backward=is_backward),
            )
        right, rounded = self.right[key]
        model = architecture.build()
        row.plant(model)
        try:
            faulty = run_in(torch.float64, model, architecture.inputs(), is_backward=is_backward)
        except (RuntimeError, ValueError, TypeError) as error:
            print(f"{row.name}: {error}", file=sys.stderr)
            return 0.0
        return exceeds(right=right, rounded=rounded, faulty=faulty)


def _run(name: str, dtype: torch.dtype, *, is_backward: bool) -> Results:
    architecture = ARCHITECTURES[name]
    return run_in(dtype, architecture.build(), architecture.inputs(), is_backward=is_backward)


def _places(name: str) -> Iterator[tuple[str, Planted]]:
    """List where each kind of fault can be in a model."""
    architecture = ARCHITECTURES[name]
    model = architecture.build()
    inputs = architecture.inputs()
    found = sites(model, lambda: model(**inputs))
    for name_of_kind, kind in KINDS.items():
        for site, args, options in found:
            if site.operator in kind.operators and kind.applies(args, options):
                yield name_of_kind, Planted(
                    architecture=name, kind=name_of_kind, module=site.module,
                    operator=site.operator, nth=site.nth,
                )  # fmt: skip
        if not kind.operators:
            for path, module in model.named_modules():
                if kind.applies(module):
                    yield name_of_kind, Planted(architecture=name, kind=name_of_kind, module=path)


def _plain(row: Planted) -> dict[str, Any]:
    ratio = row.ratio if row.ratio < float("inf") else 1e9
    return asdict(replace(row, ratio=ratio))


if __name__ == "__main__":
    main()
