"""Recording against a plain run: time, memory, bytes. Every workload has processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from .figure import Figure
from .workloads import FRAMEWORKS, MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scale import Scale

_MIB = 1 << 20
_MODES = ("stats", "digest")
_OPERATOR_US = {"torch": 60, "paddle": 100}


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Measure every model in every framework."""
    for framework in FRAMEWORKS:
        for name in MODELS:
            label = f"{framework} {name}"
            timed = _in_process("time", framework, name, scale=scale)
            yield from _of_time(label, timed)
            plain = _in_process("plain", framework, name, scale=scale)["peak"]
            for mode in ("full", *_MODES):
                peak = _in_process(mode, framework, name, scale=scale)["peak"]
                yield Figure(
                    name=f"{label}: peak memory over plain, {mode}",
                    value=(peak - plain) / _MIB,
                    unit="MiB",
                    at_most=512,
                    detail=f"plain {plain / _MIB:.0f}, recording {peak / _MIB:.0f} MiB",
                )
            yield Figure(
                name=f"{label}: file / distinct bytes",
                value=timed["file"] / timed["distinct"],
                unit="x",
                at_most=1.02,
                detail=f"{timed['distinct'] / timed['met']:.0%} of what was met is distinct",
            )
            if timed["operators"]:
                yield Figure(
                    name=f"{label}: program of up to 300 operators, or for each 300",
                    value=timed["program"] / max(timed["operators"] / 300, 1) / 1024,
                    unit="KiB",
                    at_most=20,
                    detail=f"{timed['operators']} operators, {timed['program']} bytes",
                )
                if name == "gpt":
                    yield Figure(
                        name=f"{framework}: program, processor time of an operator",
                        value=timed["operator_us"]["each"],
                        unit="us",
                        at_most=_OPERATOR_US[framework],
                        detail="a tiny GPT, forward and backward, over the same without a program; "
                        f"{timed['operator_us']['slope']:.0f} us for one more operator and "
                        f"{timed['operator_us']['fixed'] / 1000:.1f} ms a step",
                    )


def _of_time(label: str, timed: dict[str, Any]) -> Iterator[Figure]:
    yield Figure(
        name=f"{label}: record / (plain + numpy.save)",
        value=timed["save"]["wall"],
        unit="x",
        at_most=1.5,
        detail=f"{timed['save']['detail']}; {timed['detail']}",
    )
    for other in timed["others"]:
        yield Figure(
            name=f"{label}: record / (plain + {other})",
            value=timed[other]["wall"],
            unit="x",
            detail=timed[other]["detail"],
        )
    for mode in _MODES:
        yield Figure(
            name=f"{label}: record {mode} only / plain",
            value=timed[mode]["wall"],
            unit="x",
            at_most=1.5,
            detail=timed[mode]["detail"],
        )
    yield Figure(
        name=f"{label}: step between recorded ones / plain",
        value=timed["between"]["wall"],
        unit="x",
        at_most=1.01,
        detail=timed["between"]["detail"],
    )


def _in_process(task: str, framework: str, name: str, *, scale: Scale) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.recordtrial", task]
    done = subprocess.run(
        [*command, framework, name, "--scale", scale],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
