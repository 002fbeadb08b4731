"""Run some of the trials, and keep their dumps: ``python -m benchmarks.localisation --help``."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.figure import print_figures
from benchmarks.scale import Scale

from .score import figures


def main() -> None:
    """Run the trials that were named, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.localisation", description=__doc__)
    parser.add_argument("only", nargs="?", default="*", metavar="PATTERN", help="'bfloat16 cnn *'")
    parser.add_argument("--quick", action="store_true", help="the middle block, one seed")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep and reuse the dumps")
    chosen = parser.parse_args()
    if chosen.keep is not None:
        chosen.keep.mkdir(parents=True, exist_ok=True)
    scale = Scale.QUICK if chosen.quick else Scale.FULL
    found = figures(scale=scale, only=chosen.only, keep=chosen.keep)
    print_figures(f"LOCALISING: {chosen.only}", found)


if __name__ == "__main__":
    main()
