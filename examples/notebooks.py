"""Make a notebook of each story: ``python examples/notebooks.py`` after a story was changed.

A story is a script in the percent format: ``# %%`` begins a cell of code, ``# %% [markdown]`` one
of text. Notebooks are committed without outputs; the tests execute them.
"""

import json
import re
from pathlib import Path

HERE = Path(__file__).parent
STORIES = tuple(sorted(HERE.glob("*/story.py")))
BORDER = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


def notebook(story: str) -> str:
    """Return the text of the notebook that holds a story's cells."""
    _, *parts = BORDER.split(story)
    cells = [
        cell(text.strip(), is_text=mark is not None)
        for mark, text in zip(parts[::2], parts[1::2], strict=True)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": [{"id": f"cell-{index}", **one} for index, one in enumerate(cells)],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def cell(text: str, *, is_text: bool) -> dict[str, object]:
    """Return one cell, without outputs."""
    if is_text:
        source = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        return {"cell_type": "markdown", "metadata": {}, "source": source}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": text,
    }


def main() -> None:
    """Write all notebooks."""
    for story in STORIES:
        text = notebook(story.read_text(encoding="utf-8"))
        story.with_suffix(".ipynb").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
