"""The package ``padiff`` loads its names only when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import padiff

SCRIPT = """
import sys, padiff
heavy = {"numpy", "h5py", "torch", "paddle", "click", "rich"}
print(sorted(heavy & set(sys.modules)), "record" in dir(padiff))
"""


def test_importing_padiff_imports_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[] True"


@pytest.mark.parametrize("name", padiff.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(padiff, name) is not None


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'recrod'"):
        _ = padiff.recrod


def test_version_is_that_of_the_distribution() -> None:
    assert padiff.__version__[0].isdigit()
