"""Maps, policies, arrays, reports and logs from somebody who means harm.

Each function writes a file, and gives the command line that meets it; ``good`` is a dump there.
"""

from __future__ import annotations

import json
import os
import zipfile
from typing import TYPE_CHECKING

import numpy as np

from padiff.cli.main import main
from tests.support.hostile_dumps import Cases

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = Cases()


def map_of(folder: Path, content: str) -> list[str]:
    (folder / "map.toml").write_text(content, encoding="utf-8")
    return ["compare", "good", "good", "--map", "map.toml"]


def policy_of(folder: Path, content: str) -> list[str]:
    (folder / "policy.toml").write_text(content, encoding="utf-8")
    return ["compare", "good", "good", "--policy", "policy.toml"]


@TEXTS.refused("nested too deeply")
def deep_map(folder: Path) -> list[str]:
    return map_of(folder, "pair = " + "[" * 100_000)


@TEXTS.refused("a key has more than 32 parts")
def map_of_a_key_that_takes_for_ever(folder: Path) -> list[str]:
    return map_of(folder, "a" + ".a" * 100_000 + " = 1")


@TEXTS.refused("Exceeds the limit (4300 digits)")
def map_of_a_long_number(folder: Path) -> list[str]:
    return map_of(folder, "pair = " + "9" * 1_000_000)


@TEXTS.refused("larger than 16777216 bytes")
def map_beyond_all_size(folder: Path) -> list[str]:
    words = map_of(folder, "")
    with (folder / "map.toml").open("r+b") as file:
        file.truncate(10 << 30)  # sparse
    return words


@TEXTS.refused("nested too deeply")
def deep_policy(folder: Path) -> list[str]:
    return policy_of(folder, "atol = " + "{a=" * 100_000)


@TEXTS.refused("expected a number, found")
def policy_of_an_odd_number(folder: Path) -> list[str]:
    return policy_of(folder, 'atol = [["x"]]')


# -- arrays


def array(folder: Path, header: str, data: bytes = b"") -> list[str]:
    text = header.encode().ljust(118) + b"\n"
    (folder / "x.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data
    )
    return ["compare", "x.npy", "x.npy"]


def described(kind: str, shape: str) -> str:
    return f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}}}"


@TEXTS.refused("it wants to load os.system")
def array_of_objects(folder: Path) -> list[str]:
    return array(folder, described("|O", "(1,)"), b"cos\nsystem\n(S'touch executed'\ntR.")


@TEXTS.refused("expected 4503599627370496 bytes of data")
def array_of_a_huge_shape(folder: Path) -> list[str]:
    return array(folder, described("<f4", f"({2**50},)"))


@TEXTS.refused("malformed node or string")
def array_of_a_header_that_calls(folder: Path) -> list[str]:
    return array(folder, "__import__('os').system('touch executed')")


@TEXTS.refused("cannot read the arrays of")
def array_of_a_deep_header(folder: Path) -> list[str]:
    return array(folder, "(" * 9_000)


@TEXTS.refused("in an archive of")
def arrays_of_packed_zeros(folder: Path) -> list[str]:
    """Hold a little more than 1 GiB of zeros in 5 MB."""
    with zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        zeros = bytes(64 << 20)
        with archive.open("x.npy", "w", force_zip64=True) as member:
            for _ in range(17):
                member.write(zeros)
    return ["compare", "x.npz", "x.npz"]


@TEXTS.refused("'x.npy' is compressed by bzip2: expected a stored or deflated member")
def arrays_of_bzip2(folder: Path) -> list[str]:
    return arrays_packed_by(zipfile.ZIP_BZIP2, folder)


@TEXTS.refused("'x.npy' is compressed by lzma: expected a stored or deflated member")
def arrays_of_lzma(folder: Path) -> list[str]:
    return arrays_packed_by(zipfile.ZIP_LZMA, folder)


def arrays_packed_by(method: int, folder: Path) -> list[str]:
    """Hold 64 MiB of zeros, all of which appear when the first byte is asked for."""
    with zipfile.ZipFile(folder / "x.npz", "w", method) as archive:
        archive.writestr("x.npy", bytes(64 << 20))
    return ["compare", "x.npz", "x.npz"]


@TEXTS.refused("cannot read the arrays of")
def arrays_of_damaged_lzma(folder: Path) -> list[str]:
    words = arrays_of_lzma(folder)
    data = bytearray((folder / "x.npz").read_bytes())
    middle = len(data) // 2
    data[middle : middle + 20] = b"\x5a" * 20
    (folder / "x.npz").write_bytes(data)
    return words


@TEXTS.refused("Python objects, which are never unpickled")
def arrays_of_objects(folder: Path) -> list[str]:
    np.savez(folder / "x.npz", x=np.array([{}], dtype=object))
    return ["compare", "x.npz", "x.npz"]


# -- reports


def report(folder: Path, content: bytes, command: str) -> list[str]:
    (folder / "report.json").write_bytes(content)
    return [command, "report.json"]


@TEXTS.refused("nested too deeply")
def deep_report_to_judge(folder: Path) -> list[str]:
    return report(folder, b"[" * 1_000_000, "judge")


@TEXTS.refused("nested too deeply")
def deep_report_to_render(folder: Path) -> list[str]:
    return report(folder, b'{"schema": ' * 1_000_000, "report")


@TEXTS.refused("bare NaN is not JSON")
def report_of_a_number_that_is_none(folder: Path) -> list[str]:
    return report(folder, b'{"schema": NaN}', "judge")


@TEXTS.refused("1e999 is more than a number can be")
def report_of_a_number_beyond_all_to_judge(folder: Path) -> list[str]:
    return report(folder, b'{"schema": "padiff-report/2", "steps": [1e999]}', "judge")


@TEXTS.refused("1e999 is more than a number can be")
def report_of_a_number_beyond_all_to_render(folder: Path) -> list[str]:
    """Have it where nothing but the page looks."""
    path = folder / "report.json"
    good = str(folder / "good")
    assert main(["compare", good, good, "--quiet", "--json", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    details = '"details":{"records":[],"attributes":[],"left_out":0,"floors":[1e999]},'
    path.write_text(text.replace("{", "{" + details, 1), encoding="utf-8")
    return ["report", "report.json", "--html", "page.html"]


@TEXTS.refused("expected an integer of at most 64 bits")
def report_of_huge_numbers(folder: Path) -> list[str]:
    step = {"step": 10**400}
    return report(
        folder, json.dumps({"schema": "padiff-report/2", "steps": [step]}).encode(), "judge"
    )


def endless(folder: Path, name: str, first: bytes = b"") -> None:
    with (folder / name).open("wb") as file:
        file.write(first)
        file.truncate(10 << 30)  # sparse


@TEXTS.refused("a zero byte is no JSON")
def report_beyond_all_size_to_judge(folder: Path) -> list[str]:
    endless(folder, "report.json", b'{"schema": "padiff-report/2"}')
    return ["judge", "report.json"]


@TEXTS.refused("a zero byte is no JSON")
def report_that_never_ends(_: Path) -> list[str]:
    return ["report", "/dev/zero"]


# -- logs


@TEXTS.refused("larger than 1073741824 bytes")
def log_beyond_all_size(folder: Path) -> list[str]:
    endless(folder, "a.log", b"loss: 1\n")
    return ["compare-logs", "a.log", "a.log"]


@TEXTS.refused("captured texts are no numbers and were left out")
def log_of_steps_beyond_all_numbers(folder: Path) -> list[str]:
    (folder / "a.log").write_text("step 1 loss: 2\nstep 1e300 loss: 3\nstep nan loss: 4\n")
    pattern = r"step (?P<step>\S+) loss: (?P<loss>\S+)"
    return ["compare-logs", "a.log", "a.log", "--pattern", pattern]


@TEXTS.refused("no pattern finds a number")
def log_that_nearly_matches(folder: Path) -> list[str]:
    """Begin what the usual pattern looks for, again and again, and never end it."""
    (folder / "a.log").write_text(
        "loss " * 500_000 + "loss" + " " * 500_000 + "loss: -" + "\t" * 500_000
    )
    return ["compare-logs", "a.log", "a.log"]


# -- pipes that nobody writes to


def pipe(folder: Path, *words: str) -> list[str]:
    os.mkfifo(folder / "pipe")
    return [*words, "pipe"]


@TEXTS.refused("nobody wrote to this pipe")
def map_is_a_pipe(folder: Path) -> list[str]:
    return pipe(folder, "compare", "good", "good", "--map")


@TEXTS.refused("nobody wrote to this pipe")
def policy_is_a_pipe(folder: Path) -> list[str]:
    return pipe(folder, "compare", "good", "good", "--policy")


@TEXTS.refused("nobody wrote to this pipe")
def report_is_a_pipe(folder: Path) -> list[str]:
    return pipe(folder, "judge")


@TEXTS.refused("nobody wrote to this pipe")
def log_is_a_pipe(folder: Path) -> list[str]:
    return pipe(folder, "compare-logs", "pipe")
