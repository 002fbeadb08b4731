"""The module tree of a model as the dump's table of modules.

A module's configuration (eps, stride, approximate, momentum, p, num_heads) is plain JSON. What it
is is decided without knowing any framework: a scalar, string, dtype, short sequence of these or a
function that the instance holds, and that an empty instance of the framework's base class does not
hold. A leading underscore is taken off (Paddle keeps ``_epsilon`` and ``_stride``) unless the
public name is there too.
"""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ModuleInfo

from .nested import literal
from .select import ModuleName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumper.adapter import Adapter, Model
    from padiff.dumpfile import JSON

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


MAX_ATTRIBUTES = 64
"""Attributes kept of one module."""
MAX_ITEMS = 16
"""Longest sequence that still counts as configuration."""

_SCALARS = (bool, int, float, str)
_OPTIONAL_TENSORS = ("weight", "bias")
"""Tensors that a module may lack by choice; kept as whether they are there."""
_STORES = ("_parameters", "_buffers")
"""Where both frameworks keep a module's tensors by name."""
_MISSING = object()


def attributes_of(module: object, ignored: frozenset[str]) -> dict[str, JSON]:
    """Collect the configuration that the instance itself holds, in definition order.

    Args:
        module: Any framework's module.
        ignored: Names that belong to the framework, see ``framework_names``.
    """
    held: Mapping[str, Any] = getattr(module, "__dict__", {})
    found: dict[str, JSON] = {}
    for name, value in held.items():
        public = name.lstrip("_")
        if name in ignored or not public or (public != name and public in held):
            continue
        if _is_configuration(value) and len(found) < MAX_ATTRIBUTES:
            found[public] = literal(value)
    _note_weight_norm(found, module)
    for name in _OPTIONAL_TENSORS:
        if found.get(name) is None:
            _note_presence(found, module, name)
    return found


def framework_names(bases: Sequence[type]) -> frozenset[str]:
    """Name what every module of the framework holds, so that it is no configuration.

    Args:
        bases: The classes of a module up to the framework's base class, which comes last.
    """
    try:
        empty = bases[-1]()
    except TypeError:
        return frozenset({"training"})
    return frozenset(vars(empty)) | {"training"}


def _note_weight_norm(found: dict[str, JSON], module: object) -> None:
    """Return the axis along which weight_norm runs: both frameworks keep it in their hook."""
    hooks = getattr(module, "_forward_pre_hooks", None)
    for hook in getattr(hooks, "values", tuple)():
        if type(hook).__name__ == "WeightNorm" and isinstance(getattr(hook, "dim", None), int):
            found["weight_norm_dim"] = hook.dim


def _is_configuration(value: object) -> bool:
    if isinstance(value, tuple | list):
        return len(value) <= MAX_ITEMS and all(_is_scalar(item) for item in value)
    return _is_scalar(value) or (callable(value) and _is_plain_function(value))


def _is_scalar(value: object) -> bool:
    if value is None or isinstance(value, (*_SCALARS, enum.Enum)):
        return True
    return type(value).__name__.lower() in ("dtype", "vartype", "datatype")


def _is_plain_function(value: object) -> bool:
    return hasattr(value, "__qualname__") and not isinstance(value, type)


def _note_presence(found: dict[str, JSON], module: object, name: str) -> None:
    """Note whether an optional tensor is there; frameworks keep an absent one as None."""
    value = _stored(module, name)
    if value is None:
        found[name] = False
    elif hasattr(type(value), "shape") or _is_parametrized(module, name):
        found[name] = True


def _stored(module: object, name: str) -> object:
    """Return what a module holds under a name, or the property that would compute it.

    A property is never read: spectral norm moves its vectors whenever the weight is computed, and
    a parametrization of a user's own may draw numbers or count.
    """
    held = getattr(module, "__dict__", {})
    for store in (held, *(held.get(one, {}) for one in _STORES)):
        if name in store:
            value: object = store[name]
            return value
    return inspect.getattr_static(type(module), name, _MISSING)


def _is_parametrized(module: object, name: str) -> bool:
    """Return whether torch computes the tensor of this name from others, when it is read."""
    made = getattr(module, "__dict__", {}).get("_modules", {})
    if "parametrizations" not in made:
        return False
    return name in getattr(made["parametrizations"], "_modules", {})
