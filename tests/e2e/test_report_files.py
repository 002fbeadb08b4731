"""``padiff compare`` and ``padiff report`` write every format, several at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.support.command import run_padiff
from tests.support.dumps import DumpBuilder
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = {
    "html": "r.html",
    "junit": "r.xml",
    "sarif": "r.sarif",
    "markdown": "r.md",
    "csv": "r.csv",
}


def options(formats: dict[str, str]) -> list[str]:
    return [word for name, file in formats.items() for word in (f"--{name}", file)]


def test_all_formats_are_written_in_one_pass_and_again_from_the_json(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)
    done = run_padiff(
        "compare", reference, candidate, "-q", *options({"json": "r.json", **FORMATS}), cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    first = {name: (tmp_path / file).read_bytes() for name, file in FORMATS.items()}
    for dump in (reference, candidate):
        dump.rename(dump.with_name(f"{dump.name}_away"))

    again = run_padiff("report", "r.json", *options(FORMATS), cwd=tmp_path)

    assert (again.returncode, again.stdout, again.stderr) == (1, "", "")
    assert {name: (tmp_path / file).read_bytes() for name, file in FORMATS.items()} == first
    assert ET.fromstring(first["junit"]).get("failures") != "0"
    assert json.loads(first["sarif"])["version"] == "2.1.0"


def test_a_match_is_0_in_every_format(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    done = run_padiff(
        "compare", reference, candidate, "--json", "r.json", *options(FORMATS), cwd=tmp_path
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "look further" not in done.stdout
    assert ET.fromstring((tmp_path / "r.xml").read_bytes()).get("failures") == "0"
    assert json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"] == []
    text = run_padiff("report", "r.json", cwd=tmp_path).stdout
    markdown = run_padiff("report", "r.json", "--format", "markdown", cwd=tmp_path).stdout
    assert text == done.stdout
    assert markdown.startswith("## padiff: match")


def test_stdout_can_be_markdown_or_json(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)

    markdown = run_padiff("compare", reference, candidate, "--format", "markdown", cwd=tmp_path)
    data = run_padiff("compare", reference, candidate, "--format", "json", cwd=tmp_path)

    assert markdown.stdout.startswith("## padiff: DIVERGED\n")
    assert json.loads(data.stdout)["verdict"] == "diverged"


def test_report_ends_with_commands_that_work_as_they_are(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)
    done = run_padiff(
        "compare", reference, candidate, "--atol", "1e-5", "--max-rows", "9", cwd=tmp_path
    )
    lines = done.stdout.splitlines()
    commands = [line.split() for line in lines[lines.index("look further:") + 1 : -2]]

    assert len(commands) == 2
    assert lines[-1].startswith("DIVERGED at norm, forward; ")
    assert all("--atol" in words and "--max-rows" not in words for words in commands)
    for words in commands:
        again = run_padiff(*words[1:], cwd=tmp_path)
        assert (again.returncode, again.stderr) == (1, "")
    assert (tmp_path / "report.html").is_file()


def test_github_annotations_follow_a_report_in_which_commands_are_off(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)

    lines = run_padiff(
        "compare", reference, candidate, "--github", cwd=tmp_path
    ).stdout.splitlines()

    token = lines[0].removeprefix("::stop-commands::")
    assert len(token) == 32
    end = lines.index(f"::{token}::")
    assert all(line.startswith("::error ") for line in lines[end + 1 :])
    assert lines[end + 1 :]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--html", "candidate/manifest.json/r.html"], "manifest.json"),
        (["--csv", "same", "--junit", "same"], "same file"),
        (["--github", "--format", "json"], "--github"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(
    words: list[str], message: str, tmp_path: Path
) -> None:
    reference, candidate = tiny_pair(tmp_path)

    done = run_padiff("compare", reference, candidate, *words, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": "padiff-report/9"}', "nonsense"])
def test_what_is_no_result_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(content, encoding="utf-8")

    done = run_padiff("report", "r.json", "--csv", "r.csv", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.startswith("padiff: error: cannot read")
    assert not (tmp_path / "r.csv").exists()


def test_page_without_jinja2_says_what_to_install(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    done = run_padiff(
        "compare", reference, candidate, "--html", "r.html", cwd=tmp_path, blocked=["jinja2"]
    )

    assert done.returncode == 2
    assert "hint: pip install 'padiff-align[html]'" in done.stderr


def test_all_but_the_page_need_no_further_package(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)
    formats = {name: file for name, file in FORMATS.items() if name != "html"}

    done = run_padiff(
        "compare", reference, candidate, *options(formats), cwd=tmp_path,
        blocked=["jinja2", "markupsafe", "jsonschema"],
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


def test_packed_dumps_are_read_as_they_are(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)
    direct = run_padiff("compare", reference, candidate, cwd=tmp_path).stdout

    packed = run_padiff("pack", reference, "-o", "r.padiff.zip", cwd=tmp_path)
    compared = run_padiff("compare", "r.padiff.zip", candidate, cwd=tmp_path)
    checked = run_padiff("check", "--deep", "r.padiff.zip", cwd=tmp_path)
    shown = run_padiff("show", "r.padiff.zip", cwd=tmp_path)

    assert packed.stdout.startswith("packed: r.padiff.zip")
    assert compared.returncode == 1
    assert compared.stdout.partition("look")[0] == direct.partition("look")[0]
    assert (checked.returncode, checked.stderr) == (0, "")
    assert shown.stdout == run_padiff("show", reference, cwd=tmp_path).stdout


def test_accept_and_extract_work_at_the_terminal(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)

    extracted = run_padiff(
        "extract", reference, candidate, "--module", "norm", "-o", "out", cwd=tmp_path
    )
    accepted = run_padiff("accept", reference, candidate, "--reason", "eps", cwd=tmp_path)
    again = run_padiff("compare", reference, candidate, cwd=tmp_path)

    assert (extracted.returncode, extracted.stderr) == (0, "")
    files = {
        f"{side}.{kind}" for side in ("reference", "candidate") for kind in ("npz", "json", "py")
    }
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"against.npz", *files}
    assert accepted.returncode == 0
    assert "origin: " in accepted.stdout
    assert again.returncode == 0


def test_nothing_judged_of_the_result_is_2_everywhere(tmp_path: Path) -> None:
    x = np.ones(4, np.float32)
    for name in ("reference", "candidate"):
        built = DumpBuilder().module("", "Net").module("fc", "Linear").enter("", inputs=[x])
        built.call("fc", inputs=[x], outputs=[x]).leave().write(tmp_path / name)

    done = run_padiff("compare", "reference", "candidate", "--json", "r.json", cwd=tmp_path)
    again = run_padiff("report", "r.json", cwd=tmp_path)
    judged = run_padiff("judge", "r.json", "--atol", "9", cwd=tmp_path)

    assert [one.returncode for one in (done, again, judged)] == [2, 2, 2]
    assert done.stdout == again.stdout
    for one in (done, judged):
        assert one.stdout.startswith(
            "INCONCLUSIVE: nothing of what the model gives was judged\n"
            "  nothing that the model gives was recorded, and no loss\n"
        )
