"""Walk a tree of modules of any depth, without recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from padiff.dumper.adapter import Module


def walk(
    root: Module, children: Callable[[Module], Iterable[tuple[str, Module | None]]]
) -> Iterator[tuple[str, Module]]:
    """Yield a module and what it contains, parents first, a shared one at each of its paths.

    A module that contains itself is not followed a second time.

    Args:
        root: Its path is ``""``.
        children: Gives names and modules that one module holds, in order; None is passed over.

    >>> tree = {"net": [("a", "conv"), ("b", "net"), ("c", None)], "conv": []}
    >>> list(walk("net", tree.get))
    [('', 'net'), ('a', 'conv')]
    """
    yield "", root
    around = {id(root)}
    levels = [(root, "", iter(tuple(children(root))))]
    while levels:
        module, path, rest = levels[-1]
        for name, child in rest:
            if child is None or id(child) in around:
                continue
            below = f"{path}.{name}" if path else name
            yield below, child
            around.add(id(child))
            levels.append((child, below, iter(tuple(children(child)))))
            break
        else:
            levels.pop()
            around.discard(id(module))
