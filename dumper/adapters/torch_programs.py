"""Models of torch that are no modules: exported, scripted and compiled programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import torch

from padiff.dumper.adapter import Keywords
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from padiff.dumper.adapter import Model

_COMPILED = (
    ("torch.export.pt2_archive._package", "AOTICompiledModel"),
    ("torch._inductor.package.package", "AOTICompiledModel"),
)
"""Where versions of torch have the class of what AOTInductor compiled."""


def opened(thing: object) -> Model | None:
    """Return the tree of modules that an exported program was made of; None for other things.

    Raises:
        ConfigError: It is a program whose inside cannot be seen.
    """
    if isinstance(thing, torch.export.ExportedProgram):
        return torch.export.unflatten(thing)
    if any(isinstance(thing, kind) for kind in _compiled_classes()):
        raise ConfigError(
            "cannot record a program that AOTInductor compiled: it is machine code, in which no "
            "call of a module and no operator can be seen",
            hint="record the torch.export.ExportedProgram that it was made of; to judge the "
            "compiled code, save its outputs and those of the model with numpy.savez, and compare "
            "the two files by padiff compare",
        )
    if isinstance(thing, torch.jit.ScriptFunction):
        raise ConfigError(
            "cannot record a scripted function: it is no module, and runs without Python",
            hint="call it in the forward of a torch.nn.Module, where it is recorded as one "
            "operator; or record the function that was scripted",
        )
    return None


def parameters_of(model: torch.nn.Module) -> Keywords | None:
    """Return what an exported program takes; None for other models.

    It takes each argument as it was exported with: by its place, or by its name.
    """
    graph = getattr(model, "module_call_graph", ())
    signature = graph[0].signature if graph else None
    names = getattr(signature, "forward_arg_names", None)
    spec = getattr(signature, "in_spec", None)
    if spec is None and isinstance(model, torch.fx.GraphModule):
        spec = getattr(model, "_in_spec", None)
        info = getattr(model.graph._codegen, "pytree_info", None)
        names = getattr(info, "orig_args", None)
    if spec is None or names is None:
        return None
    inner = spec.children() if hasattr(spec, "children") else spec.children_specs
    placed = tuple(names[: inner[0].num_children])
    return Keywords(names=tuple(names), takes_any=False, placed=placed)


def _compiled_classes() -> list[type]:
    modules = ((sys.modules.get(path), name) for path, name in _COMPILED)
    found = (getattr(module, name, None) for module, name in modules)
    return [kind for kind in found if isinstance(kind, type)]
