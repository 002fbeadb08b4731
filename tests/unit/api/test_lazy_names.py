"""The package ``padiff`` loads its names only when they are used."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import padiff

LAZY = ("padiff", "padiff.comparer", "padiff.dumpfile", "padiff.pairing")
SCRIPT = """
import sys, padiff, padiff.comparer, padiff.dumpfile, padiff.pairing
heavy = {"numpy", "h5py", "torch", "paddle", "click", "rich"}
print(sorted(heavy & set(sys.modules)), "record" in dir(padiff))
"""


def test_importing_padiff_imports_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[] True"


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_loads(package: str) -> None:
    module = importlib.import_module(package)

    assert [name for name in module.__all__ if getattr(module, name) is None] == []


@pytest.mark.parametrize("package", LAZY)
def test_no_public_name_is_that_of_a_module_inside(package: str) -> None:
    """Importing the module would put it in the place of what has its name."""
    module = importlib.import_module(package)

    inside = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert inside
    assert inside & set(module.__all__) == set()


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'open_dumb'"):
        _ = importlib.import_module("padiff.dumpfile").open_dumb


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'recrod'"):
        _ = padiff.recrod


def test_version_is_that_of_the_distribution() -> None:
    assert padiff.__version__[0].isdigit()
