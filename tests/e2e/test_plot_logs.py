"""The picture that ``padiff compare-logs --plot`` draws, measured."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np

from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"
LINE = re.compile(r"[ML] ([-\d.]+) ([-\d.]+)")
PATTERN = r"(?P<step>\d+): loss (?P<loss>\S+) acc (?P<acc>\S+)"


def write(folder: Path) -> None:
    steps = np.arange(50)
    losses = {"a": np.exp(-steps / 20), "b": np.exp(-steps / 20) + 0.3 * (steps > 29)}
    for name, values in losses.items():
        count = 40 if name == "b" else 50
        lines = [f"{step}: loss {values[step]:.6f} acc 0.5" for step in steps[:count]]
        (folder / f"{name}.log").write_text("\n".join(lines))


def draw(folder: Path, name: str) -> Path:
    write(folder)
    words = ("compare-logs", "a.log", "b.log", "--pattern", PATTERN, "--plot", name)
    result = run_padiff(*words, cwd=folder)
    assert result.returncode == 1, result.stderr
    return folder / name


def points(drawing: ET.Element, label: str) -> list[list[tuple[float, float]]]:
    """Give the points of each curve of that label, in the order of the series."""
    groups = [group for group in drawing.iter(f"{SVG}g") if group.get("id") == label]
    paths = [next(group.iter(f"{SVG}path")).get("d", "") for group in groups]
    return [[(float(x), float(y)) for x, y in LINE.findall(path)] for path in paths]


def test_drawing_has_both_curves_of_each_series_in_full(tmp_path: Path) -> None:
    drawing = ET.parse(draw(tmp_path, "logs.svg")).getroot()

    reference, candidate = points(drawing, "reference"), points(drawing, "candidate")
    assert len(reference) == len(candidate) == 2
    loss, other = reference[0], candidate[0]
    assert abs(loss[0][0] - other[0][0]) < 0.01  # one scale: both begin at step 0 …
    assert loss[0][1] == other[0][1]
    width = loss[-1][0] - loss[0][0]
    assert abs((other[-1][0] - other[0][0]) / width - 39 / 49) < 0.01  # … and end at their own
    assert min(y for _, y in other[-5:]) < min(y for _, y in loss[-5:])  # up is less in SVG


def test_picture_shows_two_colours_and_marks_the_first_divergence(tmp_path: Path) -> None:
    from matplotlib import colors, image  # noqa: PLC0415 -- an extra

    picture = image.imread(draw(tmp_path, "logs.png"))[..., :3]

    def columns(color: str) -> np.ndarray:
        wanted = np.array(colors.to_rgb(color))
        return np.flatnonzero((np.abs(picture - wanted).max(axis=2) < 0.15).any(axis=0))

    height, width = picture.shape[:2]
    assert (width, height) == (800, 600)
    blue, orange = columns("C0"), columns("C1")
    assert blue.size > width / 2
    assert orange.size > width / 3
    assert orange[orange < 0.9 * width].max() < blue.max()
    loss = picture[: height // 2]
    red = (np.abs(loss - np.array([1.0, 0.0, 0.0])).max(axis=2) < 0.15).sum(axis=0)
    first = blue.min() + (blue.max() - blue.min()) * 30 / 49
    assert abs(int(red.argmax()) - first) < 0.03 * width
    assert red.max() > height / 15  # dotted
