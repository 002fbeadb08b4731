"""Make the pictures of the documentation: ``make pictures``, after the page of reports has changed.

Runs the page *Start* up to its report, and photographs that page with a headless Chromium.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1]
FILE = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ padiff (.*)$", re.MULTILINE)
SIZES = {"start": (1280, 860), "report": (1280, 2600)}
"""Width and height of each picture's window, in CSS pixels."""


def main() -> None:
    """Write all pictures into ``docs/pictures``."""
    page = (DOCS / "start.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in FILE.findall(page):
            (folder / file).write_text(text, encoding="utf-8")
        for words in map(shlex.split, COMMAND.findall(page)):
            subprocess.run([sys.executable, "-m", "padiff", *words], cwd=folder, check=False)
            if "--html" in words:
                break
        for picture, size in SIZES.items():
            photograph(folder / "report.html", DOCS / "pictures" / f"{picture}.png", size)


def photograph(page: Path, picture: Path, size: tuple[int, int]) -> None:
    """Show a page in a window of a size, and write what is seen into a PNG file."""
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=3000"]
    window = f"--window-size={size[0]},{size[1]}"
    shot = f"--screenshot={picture}"
    subprocess.run(["chromium", *options, window, shot, page.as_uri()], check=True)


if __name__ == "__main__":
    main()
