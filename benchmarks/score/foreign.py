"""The pairs of ``../shared/pairs`` whose sides run in this environment; nothing of them is here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import padiff

from .case import SAME, Case, Expected, Group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

__all__ = ["PLACE", "cases"]

PLACE = Path(__file__).parents[3] / "shared" / "pairs"
"""Beside the checkout."""
SIDES = {"same_llama_sdpa_eagerattn": ("a_side", "b_side")}
"""Names of the two files, where they are not those of torch and Paddle."""
MODES = {
    "core_rnn": {"train": SAME},
    "core_transformer": {"eval": SAME, "train": SAME},
    "same_llama_sdpa_eagerattn": {"eval": SAME, "train": SAME},
    "hf_resnet50": {"eval": SAME, "train": SAME},
}
"""By pair and mode: whether the two sides truly agree. Those of torchvision and paddlenlp need
other environments; the running variance of hf_resnet50 in training differs by design, which is a
note (docs/differences.md)."""


def cases() -> Iterator[Case]:
    """List the pairs as cases; a pair whose folder is missing is refused."""
    for name, modes in MODES.items():
        for mode, verdicts in modes.items():
            yield _case(name, mode, verdicts)


def _case(name: str, mode: str, verdicts: frozenset[str]) -> Case:
    files = SIDES.get(name, ("torch_side", "paddle_side"))

    def reference(out: Path) -> Path:
        side = _load(name, files[0])
        return _record(side, side.factory(), name, mode, out, "reference")

    def candidate(out: Path, _: Path) -> Path:
        known, side = _load(name, files[0]), _load(name, files[1])
        source, model = known.factory(), side.factory()
        arrays = {key: tensor.numpy() for key, tensor in source.state_dict().items()}
        _assign(side, model, _load(name, "copy_weights").convert(arrays))
        return _record(side, model, name, mode, out, "candidate")

    return Case(
        group=Group.PAIRS,
        name=f"{name}, {mode}",
        chunk=f"pair {name}",
        reference=reference,
        reference_key=mode,
        candidate=candidate,
        expected=Expected(verdicts=verdicts),
    )


def _load(name: str, file: str) -> ModuleType:
    """Import a file of a pair.

    Raises:
        FileNotFoundError: The pairs do not lie beside the checkout.
    """
    path = PLACE / "cases" / name / f"{file}.py"
    if not path.exists():
        raise FileNotFoundError(
            f"cannot run the pair {name!r}: {path} is missing; --without-shared leaves it out"
        )
    common = str(PLACE / "common")
    if common not in sys.path:
        sys.path.append(common)
    spec = importlib.util.spec_from_file_location(f"pair_{name}_{file}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _assign(side: Any, model: Any, arrays: dict[str, Any]) -> None:  # noqa: ANN401
    """Put arrays into a model by name."""
    if side.FRAMEWORK == "torch":
        import torch  # noqa: PLC0415

        model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        return
    import paddle  # noqa: PLC0415

    with paddle.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.set_value(paddle.to_tensor(arrays[name]).astype(tensor.dtype))


def _record(side: Any, model: Any, name: str, mode: str, out: Path, word: str) -> Path:  # noqa: ANN401
    model.train() if mode == "train" else model.eval()
    args, options = side.make_inputs(dict(np.load(PLACE / "cases" / name / "inputs.npz")))
    with padiff.record(model, name=word, out=out) as recorder:
        results = side.outputs(model(*args, **options)).values()
        total: Any = 0.0
        for number, result in enumerate(results):
            total = total + (result * (number + 1.0)).square().mean()
        total.backward()
    return recorder.path
