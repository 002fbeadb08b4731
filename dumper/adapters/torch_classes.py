"""Of which class a module of torch was written, whatever torch has made of it since."""

from __future__ import annotations

import sys

import torch

__all__ = ["class_of"]

_ROOT = "__torch__"
_MANGLED = "___torch_mangle_"
"""TorchScript tells classes of one name apart by a level of this name and a number."""


def class_of(module: torch.nn.Module) -> type:
    """Return the class that a scripted, traced or fully sharded module was made from.

    For any other module, and where that class is not imported, its own class. FSDP2 gives a sharded
    module a class made for it. All scripted modules are instances of one
    class, which says nothing about them.
    """
    own = type(module)
    sharded = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    if sharded is not None and isinstance(module, sharded):
        return own.__mro__[own.__mro__.index(sharded) + 1]
    if not isinstance(module, torch.jit.ScriptModule):
        return own
    levels = str(getattr(module._c._type(), "qualified_name", str)()).split(".")
    if levels[0] != _ROOT:
        return own
    *path, name = (level for level in levels[1:] if not level.startswith(_MANGLED))
    found = getattr(sys.modules.get(".".join(path)), name, None)
    return found if isinstance(found, type) and issubclass(found, torch.nn.Module) else own
