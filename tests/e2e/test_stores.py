"""Dumps in an S3 bucket, of a server on loopback: pushed, read, and how much is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumper.recording.named import write_named
from tests.support.command import environment_for, run_padiff
from tests.support.store_trials import Store, StoreTrials

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = Path(__file__).parents[1] / "support" / "s3_server.py"
MIB = 1 << 20


@dataclass
class Bucket:
    """A bucket, and what its server was asked for."""

    folder: Path
    environment: dict[str, str]
    log: Path

    def padiff(self, *words: str, code: int = 0) -> str:
        """Run a command, check its exit code, and return what it wrote on both streams."""
        done = run_padiff(*words, cwd=self.folder, environment=self.environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def asked(self) -> list[tuple[str, str, int]]:
        """Return method, path and bytes of the answer of each request since the last time."""
        lines = map(json.loads, self.log.read_text().splitlines())
        found = [(method, path, size_bytes) for method, path, size_bytes in lines]
        self.log.write_text("")
        return found


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """Start a server, and push two dumps of 100 MiB of which one array of 4 MiB differs."""
    folder = tmp_path_factory.mktemp("s3")
    log = folder / "requests.jsonl"
    server = subprocess.Popen(
        [sys.executable, SERVER, log], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        environment = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "not-to-be-shown",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "127.0.0.1",
        }
        subprocess.run(
            [sys.executable, "-c", "import s3fs; s3fs.S3FileSystem().mkdir('bucket')"],
            env=environment_for(folder, added=environment),
            check=True,
        )
        made = Bucket(folder, environment, log)
        rows = np.random.default_rng(0).standard_normal((25, MIB)).astype(np.float32)
        arrays = {f"w{place}": row for place, row in enumerate(rows)}
        write_named(folder / "a", [arrays])
        write_named(folder / "b", [arrays | {"w7": rows[7] + 1}])
        for name in ("a", "b"):
            assert "pushed: s3://bucket/dumps/" in made.padiff(
                "push", name, f"s3://bucket/dumps/{name}"
            )
        made.asked()
        yield made
    finally:
        server.kill()
        server.communicate()


def test_equal_dumps_are_compared_by_few_requests(bucket: Bucket) -> None:
    said = bucket.padiff("compare", "s3://bucket/dumps/a", "s3://bucket/dumps/a")

    asked = bucket.asked()
    assert said.startswith("MATCH")
    assert {method for method, _, _ in asked} <= {"GET", "HEAD"}
    assert len(asked) <= 16
    assert sum(size for _, _, size in asked) <= MIB


def test_only_what_differs_is_read(bucket: Bucket) -> None:
    said = bucket.padiff("compare", "a", "s3://bucket/dumps/b", code=1)

    asked = bucket.asked()
    assert said.startswith("DIVERGED: 1 of 25 arrays")
    assert len(asked) <= 12
    assert 4 * MIB <= sum(size for _, _, size in asked) <= 6 * MIB


def test_a_deep_check_reads_all_once(bucket: Bucket) -> None:
    said = bucket.padiff("check", "--deep", "s3://bucket/dumps/a")

    assert said == "ok: s3://bucket/dumps/a is a valid dump (all elements read)\n"

    asked = bucket.asked()
    assert 100 * MIB <= sum(size for _, _, size in asked) <= 103 * MIB
    assert len(asked) <= 40


def test_a_dump_that_is_there_stays(bucket: Bucket) -> None:
    said = bucket.padiff("push", "b", "s3://bucket/dumps/a", code=2)

    assert "a dump is there already" in said
    assert "hint: --overwrite" in said
    assert all(method in {"GET", "HEAD"} for method, _, _ in bucket.asked())


@pytest.mark.parametrize(
    ("url", "changes", "words"),
    [
        ("s3://bucket/dumps/c", {}, "expected manifest.json there, found none"),
        ("s3://no-such-bucket/a", {}, "hint:"),
        ("s3://bucket/dumps/a", {"AWS_ACCESS_KEY_ID": "", "HOME": "/nonexistent"}, "hint:"),
        (
            "s3://bucket/dumps/a",
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "check its credentials",
        ),
    ],
    ids=["no dump", "no bucket", "no credentials", "no server"],
)
def test_what_is_not_there_is_said(
    bucket: Bucket, url: str, changes: dict[str, str], words: str
) -> None:
    environment = bucket.environment | changes
    done = run_padiff("check", url, cwd=bucket.folder, environment=environment)

    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert words in said
    assert "not-to-be-shown" not in said
    assert "Traceback" not in said


def test_without_the_extra_it_is_named(bucket: Bucket, tmp_path: Path) -> None:
    done = run_padiff(
        *("show", "s3://bucket/dumps/a"),
        cwd=tmp_path,
        blocked=["fsspec"],
        environment=bucket.environment,
    )

    assert done.returncode == 2
    assert "pip install 'padiff-align[remote]' s3fs" in done.stderr


@pytest.fixture(scope="module")
def store(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(
        folder=tmp_path_factory.mktemp("trials"),
        url="s3://bucket/trials",
        environment=bucket.environment,
        stranger={"AWS_ACCESS_KEY_ID": "", "HOME": "/nonexistent"},
        secrets=("not-to-be-shown",),
    )


class TestS3(StoreTrials):
    pass
