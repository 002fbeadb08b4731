"""Settings that differ where nothing diverged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.facts import attributes
from padiff.comparer.facts.attributes import attribute_differences
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from padiff.dumpfile import ModuleInfo

X = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)


def net(path: Path, *, eps: list[float], off: int | None = None, **extra: Any) -> Path:  # noqa: ANN401
    """Write norms with an epsilon each, of which one gives something else."""
    built = DumpBuilder().module("", "Net", attributes=extra)
    for place, number in enumerate(eps):
        built.module(
            f"norm{place}", "LayerNorm", class_path="torch.nn.modules.normalization.LayerNorm",
            attributes={"eps": number, "normalized_shape": [4]},
        )  # fmt: skip
    built.enter("", inputs=[X])
    hidden = X
    for place in range(len(eps)):
        made = hidden * np.float32(2 if place == off else 1.5)
        built.call(f"norm{place}", inputs=[hidden], outputs=[made])
        hidden = made
    return built.leave(outputs=[hidden]).write(path)


def notes(found: Comparison) -> list[str]:
    return [note for note in found.steps[0].notes if note.startswith("attribute")]


def test_a_setting_that_differs_is_told_though_all_agrees(tmp_path: Path) -> None:
    known = net(tmp_path / "known", eps=[1e-5] * 5)

    found = compare(known, net(tmp_path / "found", eps=[1e-6] * 5), CompareSettings())

    assert found.verdict is Verdict.MATCH
    said = "in norm0, norm1, norm2 and 2 more modules, which are no origin"
    assert notes(found) == [
        f"attribute eps: 1e-05 on the reference, 1e-06 on the candidate: {said}"
    ]


def test_an_origin_is_left_out_of_the_others(tmp_path: Path) -> None:
    known = net(tmp_path / "known", eps=[1e-5] * 3)

    found = compare(
        known, net(tmp_path / "found", eps=[1e-5, 1e-3, 1e-3], off=1), CompareSettings()
    )

    assert found.origins[0].evidence[0].startswith("attribute eps")
    (line,) = notes(found)
    assert line.endswith("in norm2, which is no origin")


def test_equal_settings_give_no_note_and_many_are_counted(tmp_path: Path) -> None:
    known = net(tmp_path / "known", eps=[1e-5] * 9)

    same = compare(known, known, CompareSettings())
    found = compare(
        known, net(tmp_path / "found", eps=[10.0**-place for place in range(9)]), CompareSettings()
    )

    assert notes(same) == []
    assert len(notes(found)) == 6
    assert "2 more attributes differ elsewhere" in found.steps[0].notes


def test_modules_that_are_set_alike_are_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    def counting(known: ModuleInfo, found: ModuleInfo, **named: Any) -> Any:  # noqa: ANN401
        looked_at.append(known.path)
        return attribute_differences(known, found, **named)

    monkeypatch.setattr(attributes, "attribute_differences", counting)
    known = net(tmp_path / "known", eps=[1e-5] * 20 + [1e-4])

    found = compare(known, net(tmp_path / "found", eps=[1e-6] * 21), CompareSettings())

    assert len(notes(found)) == 2
    assert looked_at == ["", "norm0", "norm20"]
