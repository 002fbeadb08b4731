"""``padiff compare`` in a process of its own: exit codes, streams, files."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command import command, environment_for, run_padiff
from tests.support.dumps import DumpBuilder, write_dump
from tests.support.tiny_net import tiny_net, tiny_pair

FRAMEWORKS = ("torch", "paddle", "mindspore", "tensorflow")


def test_match_is_0_without_any_framework(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    done = run_padiff("compare", reference, candidate, cwd=tmp_path, blocked=FRAMEWORKS)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("MATCH")
    assert "HERE" not in done.stdout
    assert "100 %" in done.stdout


@pytest.mark.parametrize(
    ("fault", "where", "phase"),
    [
        ({"eps": 1e-2}, "norm", "forward"),
        ({"weight_change": 0.1}, "fc1", "forward"),
        ({"gradient_change": 0.5}, "norm", "backward"),
    ],
)
def test_fault_is_1_and_located(
    fault: dict[str, float], where: str, phase: str, tmp_path: Path
) -> None:
    reference, candidate = tiny_pair(tmp_path, **fault)

    done = run_padiff("compare", reference, candidate, cwd=tmp_path, blocked=FRAMEWORKS)

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("DIVERGED")
    assert f"FIRST ORIGIN  {phase}" in done.stdout
    marked = [line for line in done.stdout.splitlines() if line.endswith("<--- HERE")]
    assert len(marked) == 1
    assert f"- {where}  " in marked[0]


def test_output_without_a_terminal_is_plain_ascii(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)

    done = run_padiff("compare", reference, candidate, "--verbose", cwd=tmp_path)

    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout


def test_width_follows_columns(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=0.5)

    done = run_padiff("compare", reference, candidate, cwd=tmp_path, environment={"COLUMNS": "60"})

    report, _, _commands_to_copy = done.stdout.partition("look further:")
    assert max(map(len, report.splitlines())) <= 60


def test_moved_dumps_give_the_same_report(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path / "here", eps=1e-2)
    before = run_padiff("compare", reference, candidate, cwd=tmp_path)
    elsewhere = tmp_path / "else where"
    shutil.move(tmp_path / "here", elsewhere)

    after = run_padiff("compare", "reference", "candidate", cwd=elsewhere)

    reports = [done.stdout.partition("look further:")[0] for done in (before, after)]
    assert reports[0] == reports[1]
    assert after.returncode == 1


def test_a_dump_compared_with_itself_matches(tmp_path: Path) -> None:
    reference, _ = tiny_pair(tmp_path)

    assert run_padiff("compare", reference, reference, cwd=tmp_path).returncode == 0


def test_a_large_tolerance_turns_the_verdict(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=1e-2)

    done = run_padiff("compare", reference, candidate, "--atol", "1", cwd=tmp_path)

    assert done.returncode == 0


def test_second_step_is_judged_too(tmp_path: Path) -> None:
    reference = write_dump(tmp_path / "r", tiny_net(), tiny_net(step=1))
    candidate = write_dump(tmp_path / "c", tiny_net("paddle"), tiny_net("paddle", step=1, eps=0.1))

    both = run_padiff("compare", reference, candidate, cwd=tmp_path)
    first = run_padiff("compare", reference, candidate, "--step", "0", cwd=tmp_path)

    assert both.returncode == 1
    assert "step 1" in both.stdout
    assert first.returncode == 0


def test_json_is_strict_and_agrees_with_the_exit_code(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=1e-2)
    path = tmp_path / "report.json"

    done = run_padiff("compare", reference, candidate, "--json", path, cwd=tmp_path)

    report = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert done.returncode == 1
    assert report["schema"] == "padiff-report/2"
    assert report["verdict"] == "diverged"
    assert report["origins"][0]["pair"]["reference"]["address"]["module"] == "norm"
    assert {"reference", "candidate", "counts", "steps"} <= set(report)
    assert done.stdout.startswith("DIVERGED")
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_json_to_stdout_replaces_the_report(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    done = run_padiff("compare", reference, candidate, "--json", "-", cwd=tmp_path)

    assert json.loads(done.stdout)["verdict"] == "match"
    assert done.returncode == 0


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=1e-2)

    done = run_padiff("compare", reference, candidate, "--quiet", cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_explain_pairing_lists_every_module(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    done = run_padiff("compare", reference, candidate, "--explain-pairing", cwd=tmp_path)

    table = done.stdout.partition("PAIRING OF MODULES")[2]
    for name in ("(root)", "fc1", "norm", "fc2"):
        assert f"  {name} " in table
    assert "transpose" in done.stdout.partition("PAIRING OF TENSORS")[2]


def test_map_file_is_obeyed_and_a_wrong_one_is_trouble(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)
    path = tmp_path / "map.toml"

    path.write_text('[[pair]]\nreference = "norm"\ncandidate = "norm"\n', encoding="utf-8")
    good = run_padiff(
        "compare", reference, candidate, "--map", path, "--explain-pairing", cwd=tmp_path
    )
    path.write_text('[[pair]]\nreference = "nrom"\ncandidate = "norm"\n', encoding="utf-8")
    bad = run_padiff("compare", reference, candidate, "--map", path, cwd=tmp_path)

    assert good.returncode == 0, good.stderr
    assert "MATCH" in good.stdout
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "nrom" in bad.stderr


def test_a_reader_that_leaves_early_changes_no_exit_code(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=1e-2)

    process = subprocess.Popen(
        command("compare", reference, candidate),
        cwd=tmp_path,
        env=environment_for(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()

    assert process.wait(timeout=300) == 1
    assert stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_report_that_cannot_be_written_is_trouble(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    with Path("/dev/full").open("w", encoding="ascii") as full:
        done = subprocess.run(
            command("compare", reference, candidate),
            cwd=tmp_path,
            env=environment_for(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=300,
        )

    assert done.returncode == 2
    assert done.stderr.startswith("padiff: error: ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--atoll", "1"], "--atoll"),
        (["--atol", "-1"], "atol"),
        (["--atol", "nan"], "atol"),
        (["--rule", "norm"], "norm"),
        (["--rule", "norm:atoll=1"], "atoll"),
        (["--phase", "sideways"], "sideways"),
        (["--mode", "lenient"], "lenient"),
        (["--min-coverage", "2"], "2"),
        (["--step", "9"], "step"),
        (["--json", "reference/manifest.json/r.json"], "manifest.json"),
        (["--map", "absent.toml"], "absent.toml"),
    ],
)
def test_wrong_options_are_2_and_named(options: list[str], says: str, tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path)

    done = run_padiff("compare", reference, candidate, *options, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("padiff: error: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_names_from_a_dump_cannot_drive_the_terminal(tmp_path: Path) -> None:
    evil = "fc\x1b[2J\x1b]0;owned\x07\n<--- HERE"
    paths = []
    for side in ("reference", "candidate"):
        built = DumpBuilder().module("", "Net").module(evil, "[blink]L\x9b31m[/blink]")
        paths.append(built.write(tmp_path / side))

    done = run_padiff("compare", *paths, "--verbose", "--explain-pairing", cwd=tmp_path)

    assert done.stdout.isascii()
    assert all(char.isprintable() or char == "\n" for char in done.stdout)
    assert "\n<--- HERE" not in done.stdout
