"""Comparison results put together by hand, for tests of what renders them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.result import (
    Comparison,
    Coverage,
    Divergence,
    Endpoint,
    JudgedPair,
    Kind,
    Looked,
    Metrics,
    NodeRow,
    PairedModules,
    ReasonKind,
    Scope,
    StepComparison,
    Tolerance,
    Verdict,
    VerdictReason,
)
from padiff.dumpfile import Address, Manifest, Phase, Role, SourceLine, Statistics
from padiff.pairing import PairedBy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOLERANCE = Tolerance(atol=1e-4, rtol=1.3e-6)


def manifest(name: str = "resnet", framework: str = "torch") -> Manifest:
    """Describe a dump."""
    return Manifest(
        name=name,
        framework=framework,
        framework_version="2.13.0" if framework == "torch" else "3.3.1",
        padiff_version="0.1.0",
        created="2026-01-02T03:04:05Z",
        files=(),
        dtype="float32",
    )


def endpoint(
    module: str,
    class_name: str = "Linear",
    *,
    role: Role = Role.OUTPUT,
    slot: str = "",
    shape: tuple[int, ...] = (2, 3),
    phase: Phase = Phase.FORWARD,
) -> Endpoint:
    """Make one side of a pair."""
    outside = role in (Role.WEIGHT, Role.WEIGHT_GRAD, Role.BUFFER, Role.LOSS)
    return Endpoint(
        address=Address(
            step=0,
            rank=0,
            module=module,
            class_name=class_name,
            call=None if outside else 0,
            phase=phase,
            role=role,
            slot=slot,
        ),
        order=0,
        dtype="float32",
        shape=shape,
        statistics=Statistics(minimum=-1.5, maximum=2.25, mean=0.125, l2=3.5),
        module_source=SourceLine(file="models/norm.py", line=12),
        call_site=SourceLine(file="models/resnet.py", line=93, function="forward"),
        call=None if outside else 0,
        module=0,
    )


def metrics(max_abs: float = 0.0123456, *, nan_candidate: int = 0) -> Metrics:
    """Make measurements of a diverged pair of 2001 elements, one of which differs."""
    return Metrics(
        size=2001,
        mismatched=1,
        max_abs=max_abs,
        max_abs_index=(0, 2),
        max_rel=3.25,
        max_rel_index=(1, 1),
        mean_abs=1.23456e-7,
        relative_l2=4.5e-6,
        cosine=0.99999987,
        needed_atol=0.01234,
        needed_rtol=3.25,
        nan_candidate=nan_candidate,
        nonfinite_mismatched=nan_candidate,
    )


def pair(
    reference: Endpoint | None,
    candidate: Endpoint | None,
    verdict: Verdict = Verdict.MATCH,
    *,
    kind: Kind | None = None,
    measured: Metrics | None = None,
    reason: str = "",
) -> JudgedPair:
    """Make a judged pair."""
    return JudgedPair(
        reference=reference,
        candidate=candidate,
        verdict=verdict,
        kind=kind,
        metrics=measured,
        tolerance=TOLERANCE if reference and candidate else None,
        paired_by=PairedBy.NAME if reference and candidate else None,
        equal_digest=verdict is Verdict.MATCH and measured is None,
        fatal=verdict is not Verdict.MATCH,
        reason=reason,
    )


def divergence(judged: JudgedPair, *evidence: str, inputs_agree: bool | None = True) -> Divergence:
    """Make a divergence of a judged pair."""
    end = judged.reference or judged.candidate
    assert end is not None
    return Divergence(
        pair=judged,
        phase=end.address.phase,
        kind=judged.kind or Kind.ORIGIN,
        inputs_agree=inputs_agree,
        evidence=evidence,
    )


def tree(
    paths: Sequence[str | tuple[str | None, str | None]],
    worst: Mapping[str, Verdict],
    *,
    origins: Sequence[str] = (),
    inherited: Sequence[str] = (),
) -> tuple[NodeRow, ...]:
    """Make a paired tree from paths, parents first; names that are not in ``worst`` match."""
    rows: list[NodeRow] = []
    ids: dict[str, int] = {}
    for position, entry in enumerate(paths):
        reference, candidate = (entry, entry) if isinstance(entry, str) else entry
        name = reference if reference is not None else candidate
        assert name is not None
        parent = name.rpartition(".")[0]
        ids[name] = position
        one_sided = reference is None or candidate is None
        verdict = worst.get(name, Verdict.SKIPPED if one_sided else Verdict.MATCH)
        rows.append(
            NodeRow(
                id=position,
                parent=None if not name else ids[parent],
                reference=reference,
                candidate=candidate,
                reference_class=None if reference is None else _class_of(name),
                candidate_class=None if candidate is None else _class_of(name),
                paired_by=None if one_sided else PairedBy.NAME,
                worst={Phase.FORWARD: verdict, Phase.BACKWARD: verdict},
                origin=name in origins,
                inherited=name in inherited,
            )
        )
    return tuple(rows)


def _class_of(path: str) -> str:
    """Make up a class for a path."""
    return path.rpartition(".")[2].rstrip("0123456789").title() or "Block"


def comparison(
    pairs: Sequence[JudgedPair],
    rows: tuple[NodeRow, ...],
    divergences: Sequence[Divergence] = (),
    *,
    reasons: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Comparison:
    """Make the result of comparing one step."""
    return Comparison(
        verdict=Verdict.DIVERGED if divergences or reasons else Verdict.MATCH,
        reasons=tuple(VerdictReason(ReasonKind.DIVERGED, line) for line in reasons),
        scope=Scope(
            looked_at=Looked.RESULT, outputs=1, losses=1, weights=62, gradients=62, records=198
        ),
        reference=manifest("resnet", "torch"),
        candidate=manifest("resnet_paddle", "paddle"),
        steps=(
            StepComparison(
                step=0,
                rank=0,
                pairs=tuple(pairs),
                divergences=tuple(divergences),
                tree=rows,
                coverage_reference=Coverage(judged=198, total=200),
                coverage_candidate=Coverage(judged=198, total=198),
                same_structure=True,
                pairing=tuple(
                    PairedModules(
                        reference=row.reference,
                        candidate=row.candidate,
                        paired_by=row.paired_by,
                        confidence=1.0,
                    )
                    for row in rows
                    if row.reference is not None
                    and row.candidate is not None
                    and row.paired_by is not None
                ),
            ),
        ),
        settings={"mode": "strict", "atol": 1e-4, "rtol": None},
        notes=notes,
    )


def resnet_like() -> Comparison:
    """Give a diverged comparison with one forward origin, one in backward, and consequences."""
    blocks = [
        f"layer{stage}.{block}{leaf}"
        for stage in range(1, 5)
        for block in range(2)
        for leaf in ("", ".conv1", ".bn1", ".relu", ".conv2", ".bn2")
    ]
    stages = [f"layer{stage}" for stage in range(1, 5)]
    paths: list[str | tuple[str | None, str | None]] = ["", "conv1", "bn1", ("relu", None)]
    paths += [p for stage in stages for p in [stage, *(b for b in blocks if b.startswith(stage))]]
    paths += ["avgpool", "fc", (None, "head_dropout")]
    late = [p for p in blocks if p.startswith(("layer2.1", "layer3", "layer4"))]
    inherited = ["", "layer2", "layer3", "layer4", "layer2.0", *late, "avgpool", "fc"]
    inherited += ["layer2.0.relu", "layer2.0.conv2", "layer2.0.bn2"]
    worst = dict.fromkeys([*inherited, "layer2.0.bn1"], Verdict.DIVERGED)
    rows = tree(paths, worst, origins=["layer2.0.bn1"], inherited=inherited)
    origin = pair(
        endpoint("layer2.0.bn1", "BatchNorm2d", shape=(2, 128, 28, 28)),
        endpoint("layer2.0.bn1", "BatchNorm2D", shape=(2, 128, 28, 28)),
        Verdict.DIVERGED,
        kind=Kind.ORIGIN,
        measured=metrics(),
    )
    follower = pair(
        endpoint("fc"), endpoint("fc"), Verdict.DIVERGED, kind=Kind.INHERITED, measured=metrics(0.5)
    )
    weight = Role.WEIGHT_GRAD
    gradient = pair(
        endpoint("fc", role=weight, slot=".weight", phase=Phase.BACKWARD),
        endpoint("fc", role=weight, slot=".weight", phase=Phase.BACKWARD),
        Verdict.DIVERGED,
        kind=Kind.INHERITED,
        measured=metrics(2e-3),
    )
    fine = pair(endpoint("conv1"), endpoint("conv1"))
    alone = replace(
        pair(endpoint("relu"), None, Verdict.SKIPPED, reason="value judged at 'layer1' input"),
        covered=True,
        fatal=False,
    )
    return comparison(
        [fine, alone, origin, follower, gradient],
        rows,
        [
            divergence(origin, "attribute eps: 1e-05 | 0.001", "1 of 1 inputs agree"),
            divergence(follower, inputs_agree=False),
        ],
        reasons=("2 tensors diverged",),
    )
