"""Score the corpus, and hold it against the baseline: ``python -m benchmarks.score --help``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from . import baseline
from .case import VerdictRank
from .pool import run_all
from .table import count, printed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Case, Outcome

BASELINE = Path(__file__).parent / "baseline.json"
OTHER_KERNELS = {"ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41"}
"""What lets torch round otherwise on the same processor."""


def main() -> None:
    """Run the cases, print the table, and exit with 1 if a line fell."""
    chosen = _parser().parse_args()
    cases = _cases(chosen.only, with_shared=not chosen.without_shared)
    outcomes = _run(cases, chosen.jobs)
    _print(outcomes)
    if chosen.json is not None:
        _write_json(chosen.json, outcomes)
    if chosen.write_baseline:
        os.environ.update(OTHER_KERNELS)
        edges = baseline.edges_between(outcomes, _run(cases, chosen.jobs))
        stored = baseline.read(BASELINE) if BASELINE.exists() and chosen.only != "*" else {}
        kept = {name: one for name, one in stored.items() if name not in {o.case for o in outcomes}}
        baseline.write(
            BASELINE,
            [*outcomes, *(one.outcome for one in kept.values())],
            edges=edges | {name for name, one in kept.items() if one.is_edge},
        )
        print(f"\n{len(outcomes)} outcomes stored; {len(edges)} depend on rounding")
    elif BASELINE.exists():
        sys.exit(_hold(outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.score", description=__doc__)
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="of '<group>: <case>', such as '*llama*'"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write counts and outcomes")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument(
        "--write-baseline", action="store_true", help="store the outcomes; runs everything twice"
    )
    parser.add_argument(
        "--without-shared", action="store_true", help="leave out the pairs of ../shared"
    )
    return parser


def _cases(pattern: str, *, with_shared: bool) -> list[Case]:
    """List the cases that were asked for."""
    from .corpus import corpus  # noqa: PLC0415 - loads torch, which --help does not need

    found = corpus(with_shared=with_shared)
    chosen = [case for case in found if fnmatchcase(f"{case.group}: {case.name}", pattern)]
    if not chosen:
        sys.exit(f"no case is called {pattern!r}")
    return chosen


def _run(cases: Sequence[Case], jobs: int) -> list[Outcome]:
    """Run cases and say on stderr how far it is, and what was not right."""
    outcomes = []
    for number, one in enumerate(run_all(cases, jobs=jobs), start=1):
        outcomes.append(one)
        line = f"{number}/{len(cases)} {one.cpu_s:.1f} s  {one.group}: {one.case}: {one.ranks}"
        print(f"{line}  ({one.detail})", file=sys.stderr, flush=True)
    order = {case.name: number for number, case in enumerate(cases)}
    return sorted(outcomes, key=lambda one: order[one.case])


def _print(outcomes: Sequence[Outcome]) -> None:
    for line in printed(count(outcomes)):
        print(line)
    for rank in VerdictRank:
        found = [one for one in outcomes if one.verdict is rank and rank is not VerdictRank.RIGHT]
        if found:
            print(f"\n{rank}:")
            for one in found:
                print(f"  {one.group}: {one.case}  ({one.detail})")


def _write_json(path: Path, outcomes: Sequence[Outcome]) -> None:
    lines = [asdict(line) for line in count(outcomes)]
    cases = [asdict(one) for one in outcomes]
    path.write_text(json.dumps({"lines": lines, "cases": cases}, indent=1) + "\n")


def _hold(outcomes: Sequence[Outcome]) -> int:
    """Print what changed since the baseline, and return 1 if a line fell."""
    stored = baseline.read(BASELINE)
    changes = baseline.compare_with(stored, outcomes)
    for title, wanted in (
        ("fell", [one for one in changes if one.is_worse and not one.is_edge]),
        ("rose", [one for one in changes if not one.is_worse and not one.is_edge]),
        ("changed, but depend on rounding", [one for one in changes if one.is_edge]),
    ):
        if wanted:
            print(f"\n{len(wanted)} {title}:")
        for one in wanted:
            print(f"  {one.case}: {one.before} → {one.after}  ({one.detail})")
    new = sum(one.case not in stored for one in outcomes)
    edges = sum(one.case in stored and stored[one.case].is_edge for one in outcomes)
    print(f"\n{len(outcomes)} cases: {new} not in the baseline, {edges} depend on rounding")
    fallen = baseline.fallen_lines(stored, outcomes)
    if fallen:
        print("\nlower than the baseline:")
        for line in fallen:
            print(f"  {line}")
    return 1 if fallen else 0


if __name__ == "__main__":
    main()
