"""Names of a package are loaded when they are first used."""

from __future__ import annotations

import importlib
import sys

import pytest

from padiff.dumpfile.lazynames import lazy_names

PACKAGES = ("padiff.dumpfile", "padiff.pairing", "padiff.comparer")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_there_and_listed(name: str) -> None:
    package = importlib.import_module(name)

    assert {each for each in package.__all__ if getattr(package, each, None) is not None} == set(
        package.__all__
    )
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("name", PACKAGES)
def test_another_name_is_told_as_of_any_module(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        importlib.import_module(name).nothing  # noqa: B018 -- that it raises is the test


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    package = type(sys)("lazy_package")
    inner = type(sys)("lazy_package.inner")
    inner.__dict__["thing"] = object()
    monkeypatch.setitem(sys.modules, "lazy_package", package)
    monkeypatch.setitem(sys.modules, "lazy_package.inner", inner)
    load, names = lazy_names("lazy_package", {"inner": "thing other"})

    assert "thing" in names()
    assert "thing" not in vars(package)
    assert load("thing") is inner.__dict__["thing"]
    assert vars(package)["thing"] is inner.__dict__["thing"]
