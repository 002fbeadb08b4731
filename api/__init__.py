"""padiff: find the first module where two forms of one model diverge.

Importing this package imports nothing else: every public name is loaded when it is first
used, so that a script without h5py or a framework at hand still starts fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from padiff.comparing import Comparison, audit, compare
    from padiff.dumper import Recorder, record
    from padiff.dumper.recording.named import save
    from padiff.dumper.runs.seeding import seed_everything
    from padiff.dumpfile import Dump, PadiffError, open_dump, validate
    from padiff.inprocess import assign_weight, auto_diff, check_dataloader, create_model
    from padiff.layermap import LayerMap

    __version__: str

__all__ = [
    "Comparison",
    "Dump",
    "LayerMap",
    "PadiffError",
    "Recorder",
    "__version__",
    "assign_weight",
    "audit",
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
    "Comparison": "padiff.comparing",
    "Dump": "padiff.dumpfile",
    "LayerMap": "padiff.layermap",
    "PadiffError": "padiff.dumpfile",
    "Recorder": "padiff.dumper",
    "assign_weight": "padiff.inprocess",
    "audit": "padiff.comparing",
    "auto_diff": "padiff.inprocess",
    "check_dataloader": "padiff.inprocess",
    "compare": "padiff.comparing",
    "create_model": "padiff.inprocess",
    "open_dump": "padiff.dumpfile",
    "record": "padiff.dumper",
    "save": "padiff.dumper.recording.named",
    "seed_everything": "padiff.dumper.runs.seeding",
    "validate": "padiff.dumpfile",
}


_GONE = {
    "add_special_init": "layouts of classes of your own: [[rule]] in a map file, docs/map.md",
    "check_grads": "padiff.auto_diff, or padiff.record and padiff.compare",
    "check_params": "padiff.auto_diff, or padiff.record and padiff.compare",
    "check_report": "padiff.compare, or `padiff compare REFERENCE CANDIDATE`",
    "check_weights": "`padiff weights`, or padiff.compare",
}
"""Names that PaDiff had, and what does the same here."""


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load a public name when it is first used."""
    if name in _GONE:  # an ImportError, since `from padiff import …` would hide another's text
        raise ImportError(f"padiff has no {name!r}; use {_GONE[name]}")
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
