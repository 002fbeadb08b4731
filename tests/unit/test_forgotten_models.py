"""Tests record models from files of one name: none of them may see another's."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("number", [1, 2])
def test_a_module_of_a_temporary_folder_is_forgotten(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model_of_one_name.py").write_text(f"value = {number}")
    monkeypatch.syspath_prepend(tmp_path)

    module = importlib.import_module("model_of_one_name")

    assert module.value == number
