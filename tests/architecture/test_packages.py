"""The unusual packaging: folder ``X`` is package ``padiff.X``, ``api`` is ``padiff``, by links."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from padiff.dumpfile import VERSION

ROOT = Path(__file__).parents[2]
LINKS = ROOT / "src" / "padiff"
EXTRA = re.compile(r"(?<![\w/])(padiff(?:-\w+)?)\[([a-z{}\w,]+)\]")
NOT_PACKED = {"api", "benchmarks", "tests"}
FOLDERS = sorted({init.parent.name for init in ROOT.glob("*/__init__.py")} - NOT_PACKED)


def expected_links() -> dict[str, str]:
    """Return what has to be linked below ``src/padiff``, with the targets of the links."""
    files = [path.name for path in (ROOT / "api").iterdir() if path.is_file()]
    return {
        **{name: f"../../api/{name}" for name in files},
        **{name: f"../../{name}" for name in FOLDERS},
    }


def test_every_package_and_every_file_of_the_api_has_its_link() -> None:
    assert len(FOLDERS) > 4

    found = {
        path.name: str(path.readlink()) if path.is_symlink() else "no link"
        for path in LINKS.iterdir()
        if path.name != "__pycache__"
    }

    assert found == expected_links()


def test_every_folder_with_code_is_a_package() -> None:
    folders = {file.parent for name in FOLDERS for file in (ROOT / name).rglob("*.py")}

    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_there_is_no_folder_that_would_shadow_the_package() -> None:
    assert not (ROOT / "padiff").exists()


def test_the_editable_install_is_found_from_above_a_clone_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "padiff" / "dumper").mkdir(parents=True)

    done = subprocess.run(
        [sys.executable, "-c", "import padiff; print(callable(padiff.record))"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.strip() == "True", done.stderr


def test_a_type_checker_in_another_project_finds_the_types(tmp_path: Path) -> None:
    script = tmp_path / "port.py"
    script.write_text("import padiff\n\nreveal_type(padiff.record)\n")
    parts = {
        "padiff.*": "skip",
        "numpy.*": "skip",
        "padiff": "normal",
        "padiff.recorders": "normal",
    }
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n"  # what padiff.recorders imports, all of padiff, would take half a minute
        + "".join(f"[mypy-{name}]\nfollow_imports = {how}\n" for name, how in parts.items())
    )

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", script.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert "padiff.recorders.Recorder" in done.stdout


def build_wheel(source: Path, out: Path, *options: str) -> zipfile.ZipFile:
    """Build a wheel of a source folder or archive."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", *options]
    subprocess.run([*command, "--wheel-dir", str(out), str(source)], check=True)
    return zipfile.ZipFile(next(out.glob("*.whl")))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # setuptools would pack what it left
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def test_wheel_holds_every_source_file_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    expected = {f"padiff/{path.name}" for path in (ROOT / "api").iterdir() if path.is_file()}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            expected.add(f"padiff/{path.relative_to(ROOT).as_posix()}")
    page = ROOT / "comparer" / "report" / "page"
    assert (page / "uPlot.LICENSE.txt").is_file()
    expected |= {f"padiff/{path.relative_to(ROOT).as_posix()}" for path in page.iterdir()}

    packed = sorted(name for name in wheel.namelist() if ".dist-info/" not in name)

    assert packed == sorted(expected)


def test_source_archive_holds_no_links_and_makes_the_same_wheel(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "build",
        "--sdist",
        "--no-isolation",
        "--outdir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    archive = next(tmp_path.glob("*.tar.gz"))

    again = build_wheel(archive, tmp_path / "wheel", "--no-build-isolation")

    with tarfile.open(archive) as members:
        assert [item.name for item in members if item.issym() or item.islnk()] == []
    assert {item.filename: item.CRC for item in again.infolist() if ".py" in item.filename} == {
        item.filename: item.CRC for item in wheel.infolist() if ".py" in item.filename
    }


def test_wheel_requires_no_framework(wheel: zipfile.ZipFile) -> None:
    metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    lines = wheel.read(metadata).decode().splitlines()
    requirements = [line for line in lines if line.startswith("Requires-Dist:")]
    required = [line for line in requirements if "extra ==" not in line]

    assert required
    assert not [line for line in required if "torch" in line or "paddle" in line]


def test_wheel_has_a_name_of_its_own_and_the_version_of_the_code(wheel: zipfile.ZipFile) -> None:
    metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    lines = wheel.read(metadata).decode().splitlines()

    assert {"Name: padiff-align", f"Version: {VERSION}"} <= set(lines)


def test_every_extra_that_is_named_is_one_of_the_distribution() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    files = [file for name in (*FOLDERS, "api", "docs") for file in (ROOT / name).rglob("*.*")]
    texts = [file.read_text() for file in files if file.suffix in {".py", ".md", ".html"}]

    named = {match for text in texts for match in EXTRA.findall(text)}

    assert {name for name, _ in named} == {"padiff-align"}
    wanted = {one for _, words in named for one in words.split(",") if "{" not in one}
    assert wanted - {*extras} == set()
