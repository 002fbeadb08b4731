"""Run the benchmarks: ``python -m benchmarks [--quick] [PART ...]``."""

from __future__ import annotations

import argparse
import importlib
import os
import platform

from .figure import print_figures
from .scale import Scale

MODULES = {"scale": "manyranks"}
"""Where a part is no module of its name."""
PARTS = {
    "dumping": "RECORDING against a plain forward + backward and numpy.save of the same bytes",
    "between": "TRAINING under padiff in the steps that are not recorded",
    "comparing": "MEASURING a pair, one thread, against numpy.allclose and memcpy",
    "opening": "OPENING a dump of many records",
    "whole": "COMPARING whole dumps",
    "commands": "WHOLE COMMANDS on real dumps of a GPT and its port",
    "diverging": "COMPARING what diverges against what matches",
    "executing": "EXECUTING both programs of a comparison",
    "auditing": "AUDITING models that are right, operator by operator",
    "pairing": "PAIRING large trees",
    "growth": "GROWING: ten times the calls, bytes or depth, ten times the processor time",
    "scale": "SIMULATING many ranks: indexes without elements, tasks on two processes",
    "startup": "STARTING",
    "localisation": "LOCALISING planted faults, and alarms on correct forms",
}


def main() -> None:
    """Run the parts that were named, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    chosen = parser.parse_args()
    unknown = set(chosen.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    scale = Scale.QUICK if chosen.quick else Scale.FULL
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {load} when it began")
    for name in chosen.parts or PARTS:
        module = importlib.import_module(f"benchmarks.{MODULES.get(name, name)}")
        print_figures(PARTS[name], module.figures(scale=scale))


if __name__ == "__main__":
    main()
