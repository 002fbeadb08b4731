"""padiff: find the first module where two forms of one model diverge.

Importing this package imports nothing else: every public name is loaded when it is first
used, so that a script without h5py or a framework at hand still starts fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from padiff.comparer import Comparison, compare
    from padiff.dumper import Recorder, record
    from padiff.dumper.named import save
    from padiff.dumper.seeding import seed_everything
    from padiff.dumper.weights import assign_weight
    from padiff.dumpfile import Dump, PadiffError, open_dump, validate
    from padiff.inprocess import auto_diff, check_dataloader, create_model

    __version__: str

__all__ = [
    "Comparison",
    "Dump",
    "PadiffError",
    "Recorder",
    "__version__",
    "assign_weight",
    "auto_diff",
    "check_dataloader",
    "compare",
    "create_model",
    "open_dump",
    "record",
    "save",
    "seed_everything",
    "validate",
]

_HOMES = {
    "Comparison": "padiff.comparer",
    "Dump": "padiff.dumpfile",
    "PadiffError": "padiff.dumpfile",
    "Recorder": "padiff.dumper",
    "assign_weight": "padiff.dumper.weights",
    "auto_diff": "padiff.inprocess",
    "check_dataloader": "padiff.inprocess",
    "compare": "padiff.comparer",
    "create_model": "padiff.inprocess",
    "open_dump": "padiff.dumpfile",
    "record": "padiff.dumper",
    "save": "padiff.dumper.named",
    "seed_everything": "padiff.dumper.seeding",
    "validate": "padiff.dumpfile",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load a public name when it is first used."""
    if name == "__version__":
        value = importlib.import_module("importlib.metadata").version("padiff")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'padiff' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
