"""ONNX Runtime: runs a graph and shows all of its values."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from padiff.dumper.graphs.graph import Array, Optimization
from padiff.dumper.runs.target import near_names
from padiff.dumpfile import ConfigError, RecordError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LEVELS = {
    Optimization.NONE: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    Optimization.BASIC: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    Optimization.ALL: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_FOLDER = "session.model_external_initializers_file_folder_path"
_ERRORS_ALONE = 3
_REFUSALS = tuple(
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)
)
"""What ONNX Runtime raises; the classes have no base of their own."""


class OnnxRuntime:
    """Runs files of ONNX."""

    def version(self) -> str:
        """Return the runtime's name and version."""
        return f"onnxruntime {onnxruntime.__version__}"

    def run(
        self,
        path: Path,
        wanted: Sequence[str],
        feeds: Mapping[str, Array],
        *,
        optimization: Optimization,
        providers: Sequence[str],
    ) -> Mapping[str, Array]:
        """Run a file once; see ``Runtime``."""
        chosen = list(providers) or ["CPUExecutionProvider"]
        with tempfile.TemporaryDirectory(prefix="padiff-") as folder:
            model = onnx.load(path, load_external_data=False)
            if optimization is not Optimization.NONE:
                # Outputs of its own would keep the runtime from fusing what lies between them.
                rewritten = Path(folder) / "optimized.onnx"
                options = _options(optimization, path)
                options.optimized_model_filepath = str(rewritten)
                _session(str(path), options, chosen, path)
                model = onnx.load(rewritten, load_external_data=False)
            names = _observable(model, wanted)
            known = {info.name for info in model.graph.output}
            for name in names:
                if name not in known:
                    model.graph.output.append(helper.make_empty_tensor_value_info(name))
            session = _session(
                model.SerializeToString(), _options(Optimization.NONE, path), chosen, path
            )
            try:
                found = session.run(names, dict(feeds))
            except _REFUSALS as error:
                raise RecordError(
                    f"cannot run model {str(path)!r}: {_first_line(error)}",
                    hint="--no-run records it without a runtime",
                ) from error
        both = zip(names, found, strict=True)
        return {name: array for name, array in both if isinstance(array, np.ndarray)}


def _observable(model: Any, wanted: Sequence[str]) -> list[str]:  # noqa: ANN401
    made = {name for node in model.graph.node for name in node.output}
    return [name for name in wanted if name in made]


def _options(optimization: Optimization, path: Path) -> Any:  # noqa: ANN401
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = _LEVELS[optimization]
    options.log_severity_level = _ERRORS_ALONE
    options.add_session_config_entry(_FOLDER, str(path.parent.absolute()))
    return options


def _session(model: str | bytes, options: Any, providers: list[str], path: Path) -> Any:  # noqa: ANN401
    known = onnxruntime.get_available_providers()
    wrong = [name for name in providers if name not in known]
    if wrong:
        raise ConfigError(
            f"cannot run model {str(path)!r}: this ONNX Runtime has no provider {wrong[0]!r}",
            hint=near_names(wrong[0], known),
        )
    try:
        return onnxruntime.InferenceSession(model, options, providers=providers)
    except _REFUSALS as error:
        raise ConfigError(
            f"cannot run model {str(path)!r}: ONNX Runtime refuses it: {_first_line(error)}",
            hint="--no-run records it without a runtime",
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
