"""padiff: find the first module where two forms of one model diverge.

Importing this package imports nothing else: every public name is loaded when it is first
used, so that a script without h5py or a framework at hand still starts fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from padiff.audits import Audits, audit
    from padiff.comparing import Comparison, Divergence, compare
    from padiff.dumper.runs.seeding import seed_everything
    from padiff.dumpfile import PadiffError, validate
    from padiff.dumps import Dump, open_dump
    from padiff.inprocess import assign_weight, auto_diff, check_dataloader, create_model
    from padiff.layermap import LayerMap
    from padiff.models import compare_models
    from padiff.ops import autotest
    from padiff.origins import Origin
    from padiff.plans import Plan, plan_weights
    from padiff.probing import probe
    from padiff.recorders import Recorder, record
    from padiff.saving import save

    __version__: str

__all__ = [
    "Audits",
    "Comparison",
    "Divergence",
    "Dump",
    "LayerMap",
    "Origin",
    "PadiffError",
    "Plan",
    "Recorder",
    "__version__",
    "assign_weight",
    "audit",
    "auto_diff",
    "autotest",
    "check_dataloader",
    "compare",
    "compare_models",
    "create_model",
    "open_dump",
    "plan_weights",
    "probe",
    "record",
    "save",
    "seed_everything",
    "validate",
]

_HOMES = {
    "Audits": "padiff.audits",
    "Comparison": "padiff.comparing",
    "Divergence": "padiff.comparing",
    "Dump": "padiff.dumps",
    "LayerMap": "padiff.layermap",
    "Origin": "padiff.origins",
    "PadiffError": "padiff.dumpfile",
    "Plan": "padiff.plans",
    "Recorder": "padiff.recorders",
    "assign_weight": "padiff.inprocess",
    "audit": "padiff.audits",
    "auto_diff": "padiff.inprocess",
    "autotest": "padiff.ops",
    "check_dataloader": "padiff.inprocess",
    "compare": "padiff.comparing",
    "compare_models": "padiff.models",
    "create_model": "padiff.inprocess",
    "open_dump": "padiff.dumps",
    "plan_weights": "padiff.plans",
    "probe": "padiff.probing",
    "record": "padiff.recorders",
    "save": "padiff.saving",
    "seed_everything": "padiff.dumper.runs.seeding",
    "validate": "padiff.dumpfile",
}


_RECORD = "padiff.record(model, name=…, out=…), which writes all of it"
_GONE = {
    "add_special_init": "layouts of classes of your own: [[rule]] in a map file, docs/map.md",
    "check_grads": "padiff.compare(reference, candidate, phase='backward') on two dumps",
    "check_params": "padiff.compare(reference, candidate) on two dumps: it compares weights, too",
    "check_report": "padiff.compare(reference, candidate) on two dumps",
    "check_weights": "`padiff weights compare`, or padiff.compare",
    "dump_grads": _RECORD,
    "dump_params": _RECORD,
    "dump_report": _RECORD,
    "dump_weights": _RECORD,
    "get_dump_root_path": "`recorder.path` of padiff.record",
    "register_hooker": _RECORD,
    "report_guard": _RECORD,
    "set_dump_root_path": "out= of padiff.record, padiff.save and padiff.auto_diff",
}
"""Names that PaDiff had, and what does the same here."""


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load a public name when it is first used."""
    if name in _GONE:  # an ImportError, since `from padiff import …` would hide another's text
        raise ImportError(f"padiff has no {name!r}; use {_GONE[name]}")
    if name == "__version__":
        value = importlib.import_module("padiff.dumpfile").VERSION
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'padiff' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
