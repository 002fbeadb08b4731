"""Examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.architecture.test_framework_free import module_names


@pytest.mark.parametrize("name", module_names())
def test_examples_in_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
