"""Manifests and noise floors from somebody who means harm: each function spoils a good dump's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tests.support.hostile_dumps import Cases, edit_manifest

if TYPE_CHECKING:
    from pathlib import Path

MANIFESTS, FLOORS = Cases(), Cases()


@MANIFESTS.refused("it is a link")
def manifest_is_a_link(dump: Path) -> None:
    (dump / "manifest.json").rename(dump.parent / "elsewhere.json")
    (dump / "manifest.json").symlink_to(dump.parent / "elsewhere.json")


@MANIFESTS.refused("expected a plain file")
def manifest_is_a_pipe(dump: Path) -> None:
    (dump / "manifest.json").unlink()
    os.mkfifo(dump / "manifest.json")


@MANIFESTS.refused("expected a plain file")
def manifest_is_a_folder(dump: Path) -> None:
    (dump / "manifest.json").unlink()
    (dump / "manifest.json").mkdir()


@MANIFESTS.refused("Exceeds the limit (4300 digits)")
def manifest_with_long_number(dump: Path) -> None:
    path = dump / "manifest.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"seed": 0', '"seed": ' + "9" * 1_000_000), encoding="utf-8")


@MANIFESTS.refused("files[0].records: type: expected an integer")
def manifest_with_huge_numbers(dump: Path) -> None:
    edit_manifest(dump, lambda top: top["files"][0].update(step=10**18, records=10**30))


@MANIFESTS.refused("seed: type: expected an integer or null")
def manifest_with_infinity(dump: Path) -> None:
    path = dump / "manifest.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"seed": 0', '"seed": 1e999'), encoding="utf-8")


@MANIFESTS.refused("nested too deeply")
def deep_manifest(dump: Path) -> None:
    text = '{"format": "padiff-dump", "settings": ' + '{"a":' * 500_000
    (dump / "manifest.json").write_text(text, encoding="utf-8")


@MANIFESTS.refused("can't decode byte 0xff")
def manifest_that_is_no_text(dump: Path) -> None:
    (dump / "manifest.json").write_bytes(b'{"format": "padiff-dump\xff"}')


@MANIFESTS.refused("step_000001/rank_0000.h5: missing")
def manifest_of_many_files(dump: Path) -> None:
    def change(top: Any) -> None:  # noqa: ANN401
        first = top["files"][0]
        top["files"] += [
            first | {"step": step, "path": f"step_{step:06d}/rank_0000.h5"}
            for step in range(1, 10_000)
        ]

    edit_manifest(dump, change)


@MANIFESTS.refused("expected 'step_000000/rank_0000.h5', found '../../../etc/passwd'")
def manifest_that_leads_outside(dump: Path) -> None:
    edit_manifest(dump, lambda top: top["files"][0].update(path="../../../etc/passwd"))


@MANIFESTS.refused("too big for a manifest")
def manifest_beyond_all_size(dump: Path) -> None:
    with (dump / "manifest.json").open("r+b") as file:
        file.truncate(10 << 30)  # sparse


@FLOORS.refused("it is a link")
def floor_is_a_link(dump: Path) -> None:
    (dump.parent / "elsewhere.json").write_text("{}")
    (dump / "floor.json").symlink_to(dump.parent / "elsewhere.json")


@FLOORS.refused("expected a plain file")
def floor_is_a_pipe(dump: Path) -> None:
    os.mkfifo(dump / "floor.json")


@FLOORS.refused("expected two numbers >= 0")
def floor_of_huge_numbers(dump: Path) -> None:
    row = f"[1{'0' * 400}, 1]"
    (dump / "floor.json").write_text(
        '{"format": "padiff-floor", "format_version": 1, "repeats": 1, "perturb": "ulp", "steps": '
        f'[{{"step": 0, "rank": 0, "columns": ["max_abs", "rms"], "rows": [{row}]}}]}}'
    )


@FLOORS.refused("nested too deeply")
def deep_floor(dump: Path) -> None:
    text = '{"format": "padiff-floor", "steps": ' + "[" * 500_000
    (dump / "floor.json").write_text(text, encoding="utf-8")
