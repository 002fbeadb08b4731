"""What audits of models that are right measure, and how complete their programs are."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import padiff
from padiff.comparer.auditing import Check, Soundness
from padiff.dumpfile import LeafKind
from tests.support.clean_models import PADDLE, record_paddle, record_torch
from tests.support.oracles import PaddleOracle, TorchOracle
from tests.support.programs import Recorded

from .figure import Figure
from .score.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.comparer.auditing import Audit

    from .scale import Scale

SOUND_UP_TO = 8
"""Units of rounding; ``docs/audit.md`` says how a value is judged."""


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Record every model in evaluation mode, count what its program lacks, and audit it."""
    few = scale.pick(full=None, quick=8, tiny=1)
    torch_names, paddle_names = list(ARCHITECTURES)[:few], list(PADDLE)[:few]
    with tempfile.TemporaryDirectory(prefix="padiff-auditing-") as made:
        folder = Path(made)
        yield from _completeness(folder, "torch", torch_names)
        yield from _completeness(folder, "paddle", paddle_names)
        for label, names in (
            ("torch float32", torch_names),
            ("torch bfloat16", torch_names),
            ("paddle float32", paddle_names),
        ):
            yield from _errors(label, [_audit(folder, label, name) for name in names])


def _completeness(folder: Path, framework: str, names: list[str]) -> Iterator[Figure]:
    """Count what is computed outside of recorded operators, and values from nowhere."""
    operators = seen = missed = holes = 0
    for name in names:
        out = folder / f"{framework} {name}"
        if framework == "torch":
            watching = TorchOracle()
            found = Recorded.read(record_torch(name, out, content="full", oracle=watching))
            seen, missed = seen + watching.seen, missed + len(watching.missed)
        else:
            looking = PaddleOracle()
            found = Recorded.read(record_paddle(name, out, content="full", oracle=looking))
            seen, missed = seen + len(looking.known), missed + len(looking.missed)
        operators += len(found.names)
        holes += len(found.leaves(LeafKind.HOLE))
    looked_at = "computations of ATen" if framework == "torch" else "nodes of the graph"
    detail = f"{operators} operators of {len(names)} models"
    yield Figure(
        name=f"{framework}: computed outside of the program",
        value=missed,
        at_most=0,
        detail=f"{detail}, {seen} {looked_at}",
    )
    yield Figure(name=f"{framework}: holes", value=holes, at_most=0, detail=detail)


def _audit(folder: Path, label: str, name: str) -> Audit:
    framework, _, dtype = label.partition(" ")
    out = folder / f"{label} {name}"
    if framework == "torch":
        path = record_torch(name, out, dtype=dtype)
    else:
        path = record_paddle(name, out)
    return padiff.audit(path)["step 0"]


def _errors(label: str, audits: list[Audit]) -> Iterator[Figure]:
    """Summarise audits: what is unsound, and the largest error of each kind of operator."""
    errors = defaultdict(list)
    answers = [one for audit in audits for one in audit.values]
    for one in answers:
        if one.check is Check.FORWARD and one.error is not None:
            errors[one.operator.rpartition(".")[2]].append(one.error)
    asked = sum(one.soundness in {Soundness.SOUND, Soundness.UNSOUND} for one in answers)
    yield Figure(
        name=f"{label}: unsound",
        value=sum(one.soundness is Soundness.UNSOUND for one in answers),
        at_most=0,
        detail=f"{asked} values and gradients of {len(audits)} models; {len(answers) - asked} not "
        f"audited, {sum(sum(audit.opaque.values()) for audit in audits)} operators without a rule",
    )
    for kind, found in sorted(errors.items(), key=lambda item: -max(item[1])):
        yield Figure(
            name=f"{label}: {kind}",
            value=max(found),
            unit="units",
            at_most=SOUND_UP_TO,
            detail=f"the largest of {len(found)} values",
        )
