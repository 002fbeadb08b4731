"""Thousands of entries of a map file look at each module a few times, not once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.dumpfile import ModuleInfo
from padiff.pairing import MapFile
from padiff.pairing.maps.mapped import ModuleLookup, apply_map

if TYPE_CHECKING:
    from collections.abc import Iterator


class Counted(list[ModuleInfo]):
    """Modules that count how often one of them is looked at in a walk."""

    steps = 0

    def __iter__(self) -> Iterator[ModuleInfo]:
        for module in super().__iter__():
            self.steps += 1
            yield module


def blocks(count: int) -> Counted:
    """Give so many blocks of two layers, each block inside the one before."""
    modules = [ModuleInfo(id=0, path="", class_name="Net", class_path="user.Net", parent=None)]
    outer, path = 0, ""
    for number in range(count):
        path = f"{path}.b{number}".lstrip(".")
        block = len(modules)
        for name, parent in ((path, outer), (f"{path}.one", block), (f"{path}.two", block)):
            info = ModuleInfo(
                id=len(modules), path=name, class_name="M", class_path="user.M", parent=parent
            )
            modules.append(info)
        outer = block
    return Counted(modules)


def entries(modules: Counted, kind: str) -> MapFile:
    """Name every block in an entry of its own, the innermost first."""
    paths = [
        path for path in (module.path for module in modules) if path.rpartition(".")[2][:1] == "b"
    ]
    texts = {
        "pair": '[[pair]]\nreference = "{0}"\ncandidate = "{0}"\nchildren = false\n',
        "ignore": '[[ignore]]\nreference = "{0}"\ncandidate = "{0}"\nreason = "why {0}"\n',
    }
    return MapFile.parse("".join(texts[kind].format(path) for path in reversed(paths)))


@pytest.mark.parametrize("kind", ["pair", "ignore"])
def test_many_entries_walk_the_modules_a_few_times(kind: str) -> None:
    sides = blocks(40), blocks(40)
    map_file = entries(sides[0], kind)
    before = sides[0].steps

    apply_map(map_file, *sides)

    assert sides[0].steps - before <= 4 * len(sides[0])


def test_what_is_inside_several_closed_pairs_names_the_innermost() -> None:
    sides = blocks(3), blocks(3)

    found = apply_map(entries(sides[0], "pair"), *sides)

    whole = {module.id: module.path for module in sides[0]}
    inside = {whole[one]: reason for one, reason in found.inside[0].items()}
    assert inside == {
        path: f"inside {path.rpartition('.')[0]!r}, paired as a whole"
        for path in whole.values()
        if "." in path
    }


def test_the_first_entry_that_ignores_a_module_has_the_say() -> None:
    sides = blocks(3), blocks(3)

    found = apply_map(entries(sides[0], "ignore"), *sides)

    paths = {module.id: module.path for module in sides[0]}
    assert {reason for one, reason in found.ignored[0].items() if "b2" in paths[one]} == {
        "why b0.b1.b2"
    }
    assert len(found.ignored[0]) == len(sides[0]) - 1
    assert not found.means.keys() - {name for name, (mine, _) in found.means.items() if mine}


def test_what_is_known_is_left_out_with_all_that_is_inside() -> None:
    lookup = ModuleLookup(blocks(3))

    known = lookup.with_inside([4], ())

    assert known == [4, 5, 6, 7, 8, 9]
    assert lookup.with_inside([1], known) == [1, 2, 3]
