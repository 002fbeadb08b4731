"""No test sees what another left: a module of the same name, or a framework's variable."""

from __future__ import annotations

import importlib
import os
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


@pytest.mark.parametrize("number", [1, 2])
def test_a_variable_that_a_framework_sets_is_forgotten(number: int) -> None:
    assert "SET_BY_A_FRAMEWORK" not in os.environ

    os.environ["SET_BY_A_FRAMEWORK"] = str(number)
