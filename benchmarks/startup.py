"""What starting padiff costs: imported modules, which do not depend on the machine, and seconds."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

from .figure import Figure
from .rounds import take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scale import Scale

_COUNT = """
import sys
before = set(sys.modules)
{code}
print(len(set(sys.modules) - before), file=sys.stderr)
"""
COMMANDS = (
    *("dump", "compare", "compare-logs", "judge", "report", "extract"),
    *(
        "pack",
        "push",
        "accept",
        "show",
        "check",
        "weights",
        "map",
        "audit",
        "export",
        "replay",
        "ops",
    ),
)
_HELP = "import sys; sys.argv[1:] = ['--help']; from padiff.cli.main import main; main()"


def figures(*, scale: Scale) -> Iterator[Figure]:
    """Measure ``import padiff``, ``padiff --help`` and the help of every command."""
    yield Figure(name="import padiff: modules imported", value=_count("import padiff"))
    yield Figure(name="padiff --help: modules imported", value=_count(_HELP))
    rounds = scale.pick(full=9, quick=3, tiny=1)
    taken = take_turns({"bare": lambda: _run("pass"), "help": lambda: _run(_HELP)}, rounds=rounds)
    yield Figure(
        name="padiff --help: wall time",
        value=taken.median("help"),
        unit="s",
        at_most=0.2,
        detail=f"an interpreter that does nothing: {taken.median('bare'):.3f} s",
    )
    libraries = _seconds("import numpy, h5py, ml_dtypes, click", rounds)
    for command in scale.pick(full=COMMANDS, quick=COMMANDS, tiny=COMMANDS[:1]):
        code = _HELP.replace("['--help']", f"[{command!r}, '--help']")
        yield Figure(
            name=f"padiff {command} --help: processor time",
            value=_seconds(code, rounds),
            unit="s",
            at_most=0.3,
            detail=f"{_count(code)} modules imported; numpy, h5py, ml_dtypes and click alone: "
            f"{libraries:.3f} s",
        )


def _count(code: str) -> int:
    return int(_run(_COUNT.format(code=code)).splitlines()[-1])


def _seconds(code: str, rounds: int) -> float:
    """Give the processor time of a process, the best of some rounds."""
    spent = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _run(code)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr
