"""Everything but the adapters imports where neither torch nor paddle exists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "comparer", "dumper", "dumpfile", "ops", "pairing", "program")

BLOCKED_IMPORTS = """
import importlib, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "paddle"}:
            raise ImportError(f"{name} is blocked in this test")

sys.meta_path.insert(0, Blocker())
for name in sys.argv[1:]:
    importlib.import_module(name)
print(sorted(name for name in ("torch", "paddle") if name in sys.modules))
"""


def module_names() -> list[str]:
    names = ["padiff"]
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_adapter = parts[:2] == ("dumper", "adapters") and parts[-1] != "__init__"
            is_worker = parts[:2] == ("ops", "workers") and parts[-1] in {
                "main",
                "on_torch",
                "on_paddle",
            }
            if not (is_adapter or is_worker) and parts[-1] != "__main__":
                names.append("padiff." + ".".join(parts).removesuffix(".__init__"))
    return names


def test_everything_but_the_adapters_imports_without_a_framework() -> None:
    names = module_names()
    assert len(names) > 20

    done = subprocess.run(
        [sys.executable, "-c", BLOCKED_IMPORTS, *names],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
