"""What starting padiff costs: imported modules, which do not depend on the machine, and seconds."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from .figure import Figure
from .rounds import take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNT = """
import sys
before = set(sys.modules)
{code}
print(len(set(sys.modules) - before), file=sys.stderr)
"""
_HELP = "import sys; sys.argv[1:] = ['--help']; from padiff.cli.main import main; main()"


def figures(*, quick: bool) -> Iterator[Figure]:
    """Measure ``import padiff``, ``padiff --help`` and ``padiff compare --help``."""
    for name, code in {
        "import padiff": "import padiff",
        "padiff --help": _HELP,
        "padiff compare --help": _HELP.replace("['--help']", "['compare', '--help']"),
    }.items():
        modules = int(_run(_COUNT.format(code=code)).splitlines()[-1])
        yield Figure(name=f"{name}: modules imported", value=modules)
    taken = take_turns(
        {"bare": lambda: _run("pass"), "help": lambda: _run(_HELP)}, rounds=3 if quick else 9
    )
    yield Figure(
        name="padiff --help: wall time",
        value=taken.median("help"),
        unit="s",
        at_most=0.2,
        detail=f"an interpreter that does nothing: {taken.median('bare'):.3f} s",
    )


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr
