"""``padiff ops`` on the command line: what it says of bad input, and its exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from padiff.cli.main import main
from tests.support.command import run_padiff
from tests.support.forked_workers import fork_workers

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., CompletedProcess[str]]

NAN = {"tensor": {"shape": [], "fill": "special", "seed": 2}}
RELU = {"operator": "relu", "arguments": {"input": NAN}, "seed": 0}
ABS = {"operator": "abs", "arguments": {"input": NAN}, "seed": 0}
INVALID = {"operator": "abs", "arguments": {"input": NAN, "colour": 3}, "seed": 0}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``padiff ops test`` in this process, with workers that are forked."""
    monkeypatch.chdir(tmp_path)
    fork_workers(monkeypatch)

    def run(*words: str | Path) -> CompletedProcess[str]:
        code = main(["ops", "test", *map(str, words)])
        said = capsys.readouterr()
        return CompletedProcess(words, code, said.out, said.err)

    return run


def stored(path: Path, *cases: object) -> Path:
    path.write_text(json.dumps({"padiff_cases": 1, "cases": cases}))
    return path


def test_the_table_is_printed_without_hypothesis_and_frameworks(tmp_path: Path) -> None:
    blocked = ("hypothesis", "torch", "paddle")

    listed = run_padiff("ops", "list", cwd=tmp_path, blocked=blocked)
    shown = run_padiff("ops", "show", "cross_entropy", cwd=tmp_path, blocked=blocked)

    assert listed.returncode == shown.returncode == 0
    assert "torch.nn.functional.relu" in listed.stdout
    assert "target -> label" in shown.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sofmax",), ("cannot find operator 'sofmax'", "softmax")),
        (("abs", "--replay", "none.json"), ("none.json",)),
        (("abs", "--replay", "text.json"), ("padiff_cases",)),
        (("abs", "--known", "none.toml"), ("none.toml",)),
        (("abs", "--known", "known.toml"), ("'operator' and 'reason' are needed",)),
        (("abs", "--python-candidate", "no/python"), ("cannot start 'no/python'",)),
        (("abs", "--candidate", "torch"), ("against itself",)),
    ],
)
def test_bad_input_is_one_error_with_a_hint(
    tmp_path: Path, words: tuple[str, ...], told: tuple[str, ...]
) -> None:
    (tmp_path / "text.json").write_text("{}")
    (tmp_path / "known.toml").write_text('[[known]]\noperator = "abs"\n')

    done = run_padiff("ops", "test", *words, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr.startswith("padiff: error: ")
    assert all(one in done.stderr for one in told)


def test_without_hypothesis_nothing_is_drawn_but_stored_cases_run(tmp_path: Path) -> None:
    cases = stored(tmp_path / "cases.json", ABS)

    drawn = run_padiff("ops", "test", "abs", cwd=tmp_path, blocked=("hypothesis",))
    run = run_padiff("ops", "test", "--replay", cases, cwd=tmp_path, blocked=("hypothesis",))

    assert drawn.returncode == 2
    assert "padiff-align[ops]" in drawn.stderr
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("AGREE: 1 operators, 1 cases")


def test_an_environment_without_the_framework_is_named(tmp_path: Path) -> None:
    done = run_padiff("ops", "test", "abs", "--examples", "1", cwd=tmp_path, blocked=("paddle",))
    # The blocker is inherited by the worker, which then lacks the framework.

    assert done.returncode == 2
    assert f"cannot run paddle in {sys.executable!r}" in done.stderr
    assert "--python-candidate" in done.stderr


def test_a_defect_is_exit_1_with_reports_and_0_once_it_is_known(run: Run, tmp_path: Path) -> None:
    cases = stored(tmp_path / "cases.json", RELU)
    (tmp_path / "known.toml").write_text(
        '[[known]]\noperator = "relu"\nplace = "output[0]"\nreason = "relu of nan"\n'
    )
    files = ("--json", "r.json", "--junit", "r.xml", "--html", "r.html", "--programs", "found")

    new = run("--replay", cases, *files)
    known = run("--replay", cases, "--known", "known.toml")

    assert new.returncode == 1, new.stderr
    assert "relu: candidate wrong output[0]" in new.stdout
    assert ET.parse(tmp_path / "r.xml").getroot().get("failures") == "1"
    [operator] = json.loads((tmp_path / "r.json").read_text())["operators"]
    assert operator["findings"][0]["case"] == RELU
    assert "relu: candidate wrong" in (tmp_path / "r.html").read_text()
    names = {path.name for path in (tmp_path / "found").iterdir()}
    assert names == {"relu_0.py", "relu_0_torch.py", "relu_0_paddle.py"}
    assert known.returncode == 0, known.stderr
    assert "known: relu of nan" in known.stdout


def test_cases_that_nobody_takes_are_an_error_with_their_share(run: Run, tmp_path: Path) -> None:
    cases = stored(tmp_path / "cases.json", INVALID)

    done = run("--replay", cases)

    assert done.returncode == 2
    assert "refuse 100 % of the cases" in done.stderr


SLEEPING = """
import time

from padiff.ops import operator, unary


def asleep(x):
    time.sleep(1000)


def awake(x):
    return x + 1


strategy = unary(name="x")
OPERATORS = [operator("{torch}", torch={torch}, paddle=asleep, strategy=strategy)]
"""


@pytest.mark.parametrize(
    ("torch", "code", "told"),
    [("awake", 1, "awake: candidate time limit"), ("asleep", 2, "or do not end")],
)
def test_a_call_that_does_not_end_is_a_finding_or_cannot_be_tested(
    run: Run, tmp_path: Path, torch: str, code: int, told: str
) -> None:
    (tmp_path / "own.py").write_text(SLEEPING.format(torch=torch))
    words = ("--operators", "own.py", "--examples", "1", "--time-limit", "3")

    done = run(*words)

    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr


def test_what_is_found_does_not_depend_on_the_number_of_processes(run: Run, tmp_path: Path) -> None:
    words = ("prod", "sum", "--examples", "60", "--json")

    one = run(*words, "1.json")
    two = run_padiff("ops", "test", *words, "2.json", "--jobs", "2", cwd=tmp_path)

    found = [json.loads((tmp_path / f"{jobs}.json").read_text()) for jobs in (1, 2)]
    assert one.returncode == two.returncode == 1
    assert found[0]["operators"] == found[1]["operators"]
    assert [each["operator"] for each in found[0]["operators"]] == ["prod", "sum"]


def test_both_frameworks_are_timed(run: Run, tmp_path: Path) -> None:
    cases = stored(tmp_path / "cases.json", ABS)
    files = ("--json", "r.json")

    done = run("--replay", cases, "--profile", "5", *files)

    assert "us of a call, median: torch, paddle, ratio" in done.stdout
    [operator] = json.loads((tmp_path / "r.json").read_text())["operators"]
    assert min(operator["seconds"][name] for name in ("torch", "paddle")) > 0


def test_the_fixed_cases_of_all_operators_show_nothing_new(run: Run, tmp_path: Path) -> None:
    support = Path(__file__).parents[1] / "support"
    files = (
        "--replay",
        support / "operator_cases.json",
        "--known",
        support / "known_operators.toml",
    )

    done = run(*files)

    assert done.returncode == 0, done.stdout
    assert "266 operators, 266 cases" in done.stdout


def test_two_machines_find_what_one_finds(tmp_path: Path) -> None:
    none, words = ("torch", "paddle"), ("prod", "sort", "--examples", "60")
    drawn = run_padiff("ops", "generate", *words, "-o", "c.json", cwd=tmp_path, blocked=none)
    for name, other in (("torch", "paddle"), ("paddle", "torch")):
        files = ("c.json", "--framework", name, "-o", f"{name}.safetensors")
        done = run_padiff("ops", "run", *files, cwd=tmp_path, blocked=(other,))
        assert done.returncode == 0, done.stderr

    judged = run_padiff(
        "ops", "judge", "torch.safetensors", "paddle.safetensors", cwd=tmp_path,
        blocked=(*none, "hypothesis"),
    )  # fmt: skip
    same = run_padiff("ops", "judge", "torch.safetensors", "torch.safetensors", cwd=tmp_path)
    text = run_padiff("ops", "judge", "torch.safetensors", "c.json", cwd=tmp_path)

    assert drawn.stdout.startswith("120 cases of 2 operators")
    assert judged.returncode == 1, judged.stderr
    assert "prod: candidate wrong gradient[input]" in judged.stdout
    assert "sort:" not in judged.stdout
    assert same.returncode == text.returncode == 2
    assert "of two frameworks" in same.stderr
    assert "cannot read outcomes from 'c.json'" in text.stderr


def test_the_operator_of_the_page_is_tested_by_its_formula(run: Run, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    (tmp_path / "swish.py").write_text(program)
    (tmp_path / "none.py").write_text("x = 3\n")
    words = ("--examples", "40", "--operators")

    done = run(*words, "swish.py", "--programs", "found")
    none = run(*words, "none.py")

    assert done.returncode == 1, done.stderr
    assert "swish: candidate wrong output[0]" in done.stdout
    assert "beta=" in done.stdout
    assert "run_path" in (tmp_path / "found" / "swish_0.py").read_text()
    assert none.returncode == 2
    assert "expected a list OPERATORS" in none.stderr
