"""What containers hold: as a walk outwards from each pair finds it."""

from __future__ import annotations

import random

import numpy as np

from padiff.dumpfile import ModuleInfo
from padiff.pairing.calls.confidence import Holding


def a_tree(generator: random.Random, count: int) -> tuple[ModuleInfo, ...]:
    parents = [None, *(generator.randrange(max(0, n - 4), n) for n in range(1, count))]
    return tuple(
        ModuleInfo(id=n, path=str(n), class_name="A", class_path="a.A", parent=parent)
        for n, parent in enumerate(parents)
    )


def around(modules: tuple[ModuleInfo, ...], module: int) -> list[int]:
    found, outer = [], modules[module].parent
    while outer is not None:
        found.append(outer)
        outer = modules[outer].parent
    return found


def test_numbers_of_pairs_reach_all_containers_that_hold_them() -> None:
    generator = random.Random(0)
    seen = 0
    for _ in range(300):
        sides = a_tree(generator, generator.randint(2, 25)), a_tree(generator, 25)
        partners = {
            module.id: generator.choice((module.id, generator.randrange(25)))
            for module in sides[0]
            if generator.random() < 0.8
        }
        said = [(one, two, generator.randint(1, 9)) for one, two in partners.items()]
        holding = Holding(*sides, partners)
        for join in (np.add, np.maximum):
            wanted: dict[int, float] = {}
            for one, two, number in said:
                theirs = around(sides[1], two)
                for outer in around(sides[0], one):
                    if partners.get(outer) in theirs:
                        wanted[outer] = join(wanted.get(outer, 0), number)
            assert holding.gather(said, join) == wanted
            seen += len(wanted)
    assert seen > 1000
