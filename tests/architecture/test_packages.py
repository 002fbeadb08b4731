"""The unusual packaging: folder ``X`` is package ``padiff.X``, ``api`` is ``padiff``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "comparer", "dumper", "dumpfile", "pairing")


def packages_in_folders() -> set[str]:
    found = {"padiff"}
    for folder in FOLDERS:
        for init in (ROOT / folder).rglob("__init__.py"):
            found.add("padiff." + ".".join(init.parent.relative_to(ROOT).parts))
    return found


def test_every_folder_with_code_is_a_declared_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]

    assert set(declared["packages"]) == packages_in_folders()
    assert {path for path in declared["package-dir"].values() if path != "api"} == set(FOLDERS)


def test_there_is_no_folder_that_would_shadow_the_package() -> None:
    assert not (ROOT / "padiff").exists()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    out = tmp_path_factory.mktemp("wheel")
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # setuptools would pack what it left
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet"]
    subprocess.run([*command, "--wheel-dir", str(out), str(ROOT)], check=True)
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_wheel_holds_every_source_file_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    expected = {f"padiff/{path.name}" for path in (ROOT / "api").iterdir() if path.is_file()}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            expected.add(f"padiff/{path.relative_to(ROOT).as_posix()}")
    page = ROOT / "comparer" / "report" / "page"
    assert (page / "uPlot.LICENSE.txt").is_file()
    expected |= {f"padiff/{path.relative_to(ROOT).as_posix()}" for path in page.iterdir()}

    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert packed == expected


def test_wheel_requires_no_framework(wheel: zipfile.ZipFile) -> None:
    metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    lines = wheel.read(metadata).decode().splitlines()
    requirements = [line for line in lines if line.startswith("Requires-Dist:")]
    required = [line for line in requirements if "extra ==" not in line]

    assert required
    assert not [line for line in required if "torch" in line or "paddle" in line]
