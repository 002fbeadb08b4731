"""The module tree of a model as the dump's table of modules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ModuleInfo

from .attributes import attributes_of, framework_names
from .select import ModuleName

if TYPE_CHECKING:
    from padiff.dumper.adapter import Adapter, Model

    from .source import Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A module object and what the dump says about it."""

    info: ModuleInfo
    module: Any

    @property
    def name(self) -> ModuleName:
        """Return what selection patterns look at."""
        return ModuleName(path=self.info.path, classes=(self.info.class_path, *self.info.bases))


def build_tree(model: Model, adapter: Adapter, sources: Sources) -> tuple[TreeNode, ...]:
    """Describe every module once, parents before children, definition order.

    A module reached by several paths is one node: the first path is its path, the others are
    its aliases.
    """
    ignored = framework_names(adapter.class_bases(model))
    nodes: list[TreeNode] = []
    by_object: dict[int, int] = {}
    by_path: dict[str, int] = {}
    aliases: dict[int, list[str]] = {}
    for path, module in adapter.named_modules(model):
        known = by_object.get(id(module))
        if known is not None:
            aliases.setdefault(known, []).append(path)
            by_path[path] = known
            continue
        kind, *bases = adapter.class_bases(module)
        info = ModuleInfo(
            id=len(nodes),
            path=path,
            class_name=kind.__name__,
            class_path=_full_name(kind),
            bases=tuple(map(_full_name, bases)),
            parent=_parent(path, by_path),
            training=adapter.is_training(module),
            attributes=attributes_of(module, ignored),
            source=sources.of_class(kind),
        )
        by_object[id(module)] = by_path[path] = info.id
        nodes.append(TreeNode(info=info, module=module))
    return tuple(
        TreeNode(
            info=replace(node.info, aliases=tuple(aliases.get(node.info.id, ()))),
            module=node.module,
        )
        for node in nodes
    )


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _parent(path: str, by_path: dict[str, int]) -> int | None:
    """Find the nearest path above; levels without a module of their own are passed over."""
    while path:
        path = path.rpartition(".")[0]
        if path in by_path:
            return by_path[path]
    return None
