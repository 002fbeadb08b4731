"""Models that others wrote anew, most of them in Paddle: right ports, and ports with a fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import padiff
from padiff.comparer import CompareSettings
from padiff.dumper.adapters import load
from padiff.dumper.runs.rehearsal import rehearse
from padiff.dumper.weights.weights import assign_weight, load_weights
from tests.frameworks import test_met_in_ports as met
from tests.frameworks import test_ports as ports
from tests.frameworks import test_real_cnns as cnns
from tests.frameworks import test_rewritten_models as rewritten
from tests.support import authors
from tests.support.ports import met_paddle, met_torch

from .case import DIFFERENT, SAME, Case, Expected, Family, Group

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["cases"]

SETTINGS = CompareSettings(atol=1e-4)
"""What the tests of these ports allow between two frameworks."""
FAMILIES = {
    "bert": Family.ENCODER, "gpt2": Family.DECODER, "vit": Family.VISION, "llama": Family.DECODER
}  # fmt: skip


def cases() -> Iterator[Case]:
    """List the rewritten models as cases."""
    for name in ports.FAULTS:
        yield _port(name)
        yield _port(name, fault=ports.FAULTS[name])
    for name in cnns.FAULTS:
        yield _cnn(name)
        yield _cnn(name, fault=cnns.FAULTS[name])
    for name in rewritten.PAIRS:
        yield _rewritten(name, is_forward=True)
        yield _rewritten(name, is_forward=False)
    for name, case in met.CASES.items():
        yield _met(name, case)
        yield _met(name, case, fault=case.fault)


def _expected(fault: str, *, words: str) -> Expected:
    if not fault:
        return Expected(verdicts=SAME)
    return Expected(verdicts=DIFFERENT, origins=(fault,), words=words)


EPSILON = r"\beps|epsilon"
TIMES = r"1\.25|times|factor"


def _port(name: str, *, fault: str = "") -> Case:
    """Take a port that has a target of its own, run as by ``padiff dump``."""

    def reference(out: Path) -> Path:
        return ports.dump("reference_torch", name, out, ports.write_inputs(name, out))

    def candidate(out: Path, known: Path) -> Path:
        target = f"faulty_{name}" if fault else name
        inputs = ports.write_inputs(name, out)
        return ports.dump("candidate_paddle", target, out, inputs, weights=known)

    return Case(
        group=Group.REWRITTEN,
        name=f"{name} in Paddle" + (", another epsilon" if fault else ""),
        family=FAMILIES[name],
        chunk="ports",
        reference=reference,
        reference_key=name,
        candidate=candidate,
        expected=_expected(fault, words=EPSILON),
        settings=SETTINGS,
    )


def _cnn(name: str, *, fault: str = "") -> Case:
    import paddle  # noqa: PLC0415 - slow, and this needs it alone

    image = 0.5 * np.random.default_rng(0).normal(size=(2, 3, 32, 32)).astype(np.float32)

    def source() -> Any:  # noqa: ANN401 - untyped library
        model = authors.REFERENCES[name]()
        authors.spread(model)
        return model.eval()

    def reference(out: Path) -> Path:
        model = source()
        with padiff.record(model, name="reference", out=out) as recorder:
            model(pixel_values=torch.tensor(image)).logits.mean().backward()
        return recorder.path

    def candidate(out: Path, _: Path) -> Path:
        model = authors.CANDIDATES[name](num_classes=10)
        model.eval()
        assign_weight(source(), model)
        if fault:
            dict(model.named_sublayers())[fault]._epsilon = 1e-2
        with padiff.record(model, name="candidate", out=out) as recorder:
            model(paddle.to_tensor(image)).mean().backward()
        return recorder.path

    return Case(
        group=Group.REWRITTEN,
        name=f"{name} of paddle.vision" + (", another epsilon" if fault else ""),
        family=Family.CNN,
        chunk=f"cnn {name}",
        reference=reference,
        reference_key=name,
        candidate=candidate,
        expected=_expected(fault, words=EPSILON),
        settings=SETTINGS,
    )


def _rewritten(name: str, *, is_forward: bool) -> Case:
    def models() -> tuple[Any, Any]:
        made = rewritten._made(name)
        return made if is_forward else made[::-1]

    def record(model: Any, out: Path, side: str) -> Path:  # noqa: ANN401 - untyped library
        with padiff.record(model, name=side, out=out) as recorder:
            made = model(rewritten.TOKENS)
            made = made if torch.is_tensor(made) else next(iter(made.values()))
            made.square().mean().backward()
        return recorder.path

    def candidate(out: Path, known: Path) -> Path:
        model, adapter = models()[1], load("torch")
        load_weights(
            model,
            adapter,
            known,
            rehearsal=lambda: rehearse(model, adapter, lambda: rewritten._output(model)),
        )
        return record(model, out, "candidate")

    return Case(
        group=Group.REWRITTEN,
        name=f"{name} rewritten" + ("" if is_forward else ", the other way round"),
        family=FAMILIES[name],
        chunk="rewritten",
        reference=lambda out: record(models()[0], out, "reference"),
        reference_key=f"{name} {is_forward}",
        candidate=candidate,
        expected=Expected(verdicts=SAME),
    )


def _met(name: str, case: met.Case, *, fault: str = "") -> Case:
    import paddle  # noqa: PLC0415 - slow, and this needs it alone

    data = case.inputs()

    def source() -> Any:  # noqa: ANN401 - untyped library
        model = getattr(met_torch, case.reference)()
        met_torch.spread(model)
        return model.eval()

    def factors(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        return np.cos(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)

    def reference(out: Path) -> Path:
        model = source()
        with padiff.record(model, name="reference", out=out) as recorder:
            made = model(torch.tensor(data))
            made = made if torch.is_tensor(made) else made.logits
            (made * torch.from_numpy(factors(tuple(made.shape)))).sum().backward()
        return recorder.path

    def candidate(out: Path, _: Path) -> Path:
        model = getattr(met_paddle, case.candidate)()
        model.eval()
        assign_weight(source(), model)
        if fault:
            met._plant(dict(model.named_sublayers())[case.fault])
        with padiff.record(model, name="candidate", out=out) as recorder:
            made = model(paddle.to_tensor(data))
            made = made if paddle.is_tensor(made) else made[0]
            (made * paddle.to_tensor(factors(tuple(made.shape)))).sum().backward()
        return recorder.path

    return Case(
        group=Group.REWRITTEN,
        name=name + (", a layer gives too much" if fault else ""),
        chunk="met",
        reference=reference,
        reference_key=name,
        candidate=candidate,
        expected=_expected(fault, words=TIMES),
        settings=SETTINGS,
    )
