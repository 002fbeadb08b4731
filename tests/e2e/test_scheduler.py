"""`padiff compare --scheduler`: the same report from a cluster, whatever happens to its workers."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from distributed import Client, LocalCluster, get_task_stream
from distributed.security import Security

from padiff.cli.main import main
from padiff.comparer import CompareSettings, compare, executors, tasks
from padiff.comparer.judging import measured
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import CompareError, ConfigError
from tests.support.command import run_padiff
from tests.support.large_layers import write_large
from tests.support.many_ranks import write_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Cluster = Any
"""A ``LocalCluster``, which has no types."""
RUNS = """
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
def threads(count):
    return ThreadPoolExecutor(int(count))
class Lost(ThreadPoolExecutor):
    def submit(self, *args):
        lost = Future()
        lost.set_exception(BrokenExecutor("all workers are gone"))
        return lost
def lost(address):
    return Lost(1)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    start: Any = LocalCluster
    with start(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_ranks(tmp_path / "known")
    write_ranks(tmp_path / "found", "paddle", faulty=(1,))
    return tmp_path


@pytest.fixture
def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run ``padiff compare`` in this process, which has imported ``distributed``."""
    monkeypatch.chdir(folder)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["compare", *words])
        return code, *capsys.readouterr()

    return run


def test_reports_are_equal_byte_for_byte_wherever_ranks_are_compared(
    folder: Path, cluster: Cluster, run: Callable[..., tuple[int, str, str]]
) -> None:
    (folder / "scheduler.json").write_text(json.dumps(cluster.scheduler.identity()))

    def reports(*options: str) -> tuple[str, bytes]:
        code, out, err = run("known", "found", *options, "--json", "report.json")
        assert (code, err) == (1, "")
        return out, (folder / "report.json").read_bytes()

    one = reports("--jobs", "1")

    assert one == reports("--jobs", "2")
    assert one == reports("--scheduler", cluster.scheduler_address)
    assert one == reports("--scheduler", "scheduler.json")


def test_an_executor_of_another_package_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "runs.py").write_text(RUNS)
    about = folder / "runs-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: runs\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[padiff.executors]\nthreads = runs:threads\nlost = runs:lost\n"
    )
    monkeypatch.syspath_prepend(folder)
    paths = folder / "known", folder / "found"

    found = compare(*paths, CompareSettings(scheduler="threads:2"))

    assert to_json(found) == to_json(compare(*paths))
    with pytest.raises(ConfigError) as error:
        compare(*paths, CompareSettings(scheduler="treads:2"))
    assert "threads" in str(error.value)
    with pytest.raises(CompareError, match=r"cannot compare on lost: .* all workers are gone"):
        compare(*paths, CompareSettings(scheduler="lost"))
    del sys.modules["runs"]


def test_the_python_of_the_page_runs(
    folder: Path,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Borrowed:
        """Stands for a cluster of SLURM or Kubernetes, which no test has."""

        scheduler_address = cluster.scheduler_address

        def __init__(self, **_: object) -> None: ...

        def __enter__(self) -> Borrowed:
            return self

        def __exit__(self, *_: object) -> None: ...

        def scale(self, *, jobs: int) -> None: ...

    for name, member, value in (
        ("dask_jobqueue", "SLURMCluster", Borrowed),
        ("dask_kubernetes", "operator", None),
        ("dask_kubernetes.operator", "KubeCluster", Borrowed),
        ("mpi4py", "futures", None),
        ("mpi4py.futures", "MPIPoolExecutor", ThreadPoolExecutor),
    ):
        module = ModuleType(name)
        setattr(module, member, value)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(folder)
    text = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    for place in ("/shared/", "/mnt/"):
        text = text.replace(f"{place}old", "known").replace(f"{place}new", "found")
    slurm, kubernetes, mpi = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    known: dict[str, Any] = {}

    for code in (slurm, kubernetes):
        known.pop("found", None)
        exec(code, known)
        assert known["found"].verdict == "diverged"
    exec(mpi, known)

    assert capsys.readouterr().out.startswith("DIVERGED")
    with known["mpi"]("") as executor:
        assert executor.submit(int, "1").result() == 1


def test_an_encrypted_scheduler_is_used_with_certificates_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start: Any = LocalCluster
    certificates: Any = Security
    one = run_padiff("compare", "known", "found", "--jobs", "1", cwd=folder)
    pem = certificates.temporary()
    names = {"CA_FILE": "ca_file", "CLIENT__CERT": "client_cert", "CLIENT__KEY": "client_key"}

    with start(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", security=pem
    ) as made:
        address = made.scheduler_address
        without = run_padiff("compare", "known", "found", "--scheduler", address, cwd=folder)
        for name, attribute in names.items():
            file = folder / f"{attribute}.pem"
            file.write_text(getattr(pem, f"tls_{attribute}"))
            monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{name}", str(file))
        encrypted = run_padiff("compare", "known", "found", "--scheduler", address, cwd=folder)

    assert address.startswith("tls://")
    assert without.returncode == 2
    assert "expected certificates for TLS" in without.stderr
    assert one.returncode == 1
    for member in ("returncode", "stdout", "stderr"):
        assert getattr(encrypted, member) == getattr(one, member)


@pytest.fixture
def giant(tmp_path: Path, cluster: Cluster) -> Iterator[tuple[Path, Path]]:
    """Write one step of large layers, which is worth the cluster's while."""
    connect: Any = Client
    with connect(cluster, set_as_default=False) as client:
        client.run(setattr, measured, "WORTH_BYTES", 0)
        yield write_large(tmp_path / "known", 0.0), write_large(tmp_path / "found", 1e-3)
        client.run(setattr, measured, "WORTH_BYTES", measured.WORTH_BYTES)


def shares(stream: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Return the tasks that measured a share of a step."""
    return [task for task in stream.data if task["key"].startswith("measure_share")]


def test_a_giant_step_is_measured_by_several_workers(
    giant: tuple[Path, Path], cluster: Cluster
) -> None:
    connect: Any = Client
    stream_of: Any = get_task_stream
    settings = CompareSettings(scheduler=cluster.scheduler_address)

    with connect(cluster, set_as_default=False) as client, stream_of(client) as stream:
        found = compare(*giant, settings)

    assert to_json(found) == to_json(compare(*giant))
    (share,) = shares(stream)
    assert share["status"] == "OK"
    (whole,) = (task for task in stream.data if task["key"].startswith("compare"))
    assert share["worker"] != whole["worker"]


def test_steps_of_few_elements_and_of_as_many_ranks_as_workers_stay_whole(
    giant: tuple[Path, Path], cluster: Cluster, tmp_path: Path
) -> None:
    connect: Any = Client
    stream_of: Any = get_task_stream
    settings = CompareSettings(scheduler=cluster.scheduler_address)
    ranks = (
        write_large(tmp_path / "two", 0.0, ranks=2),
        write_large(tmp_path / "other", 1e-3, ranks=2),
    )
    few = write_ranks(tmp_path / "few"), write_ranks(tmp_path / "off", faulty=range(3))

    with connect(cluster, set_as_default=False) as client, stream_of(client) as stream:
        compare(*ranks, settings)
        compare(*few, settings)

    assert shares(stream) == []


def kill(share: object, version: str) -> None:
    """End the process that measures a share."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail(share: object, version: str) -> None:
    """Fail to read a share."""
    raise OSError("no such file here")


def measure_by(measuring: object) -> None:
    """Let a worker measure shares by another function, or as it did before."""
    usual = vars(measured).setdefault("usual_share", measured.measure_share)
    setattr(measured, "measure_share", measuring or usual)  # noqa: B010 - not of its type


@pytest.mark.parametrize("measuring", [fail, kill])
def test_a_share_that_gets_lost_is_measured_by_who_asked(
    giant: tuple[Path, Path], cluster: Cluster, measuring: object
) -> None:
    connect: Any = Client

    with connect(cluster, set_as_default=False) as client:
        client.run(measure_by, measuring)
        found = compare(*giant, CompareSettings(scheduler=cluster.scheduler_address))
        client.wait_for_workers(2)
        client.run(measure_by, None)

    assert to_json(found) == to_json(compare(*giant))


class Killer:
    """Kills a process when the first task is done."""

    def __init__(self, pid: int) -> None:
        self.pid: int | None = pid

    def begin(self, steps: int) -> None:
        pass

    def advance(self, steps: int) -> None:
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            self.pid = None

    def note(self, text: str) -> None:
        raise AssertionError(text)


def test_a_killed_worker_loses_nothing(
    folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "STEPS_A_TASK", 1)
    paths = folder / "known", folder / "found"
    connect: Any = Client
    with connect(cluster, set_as_default=False) as client:
        pids = list(client.run(os.getpid).values())
    settings = CompareSettings(scheduler=cluster.scheduler_address)

    found = compare(*paths, settings, watch=Killer(pids[0]))

    assert len(pids) == 2
    assert to_json(found) == to_json(compare(*paths))


def test_a_scheduler_that_is_not_there_is_waited_for_in_bounds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "CONNECT_S", 0.5)
    settings = CompareSettings(scheduler="tcp://127.0.0.1:9")

    with pytest.raises(CompareError, match="cannot reach the Dask scheduler") as error:
        compare(folder / "known", folder / "found", settings)

    assert error.value.hint is not None


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:9", "nowhere", "no/such/scheduler.json", "udp://x:1", "the cluster"],
)
def test_trouble_with_a_scheduler_ends_with_code_2_and_writes_nothing(
    folder: Path,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    address: str,
) -> None:
    told = address
    monkeypatch.setattr(executors, "CONNECT_S", 0.5)
    if address == "the cluster":
        address, told = cluster.scheduler_address, "expected padiff 0.0.9, found"
        monkeypatch.setattr(executors, "CONNECT_S", 30.0)
        monkeypatch.setattr(executors, "own_version", lambda: "0.0.9")
    report = folder / "report.json"
    words = ["compare", str(folder / "known"), str(folder / "found"), "--scheduler", address]

    code = main([*words, "--json", str(report)])

    said = capsys.readouterr()
    assert code == 2
    assert said.out == ""
    assert told in said.err
    assert "hint:" in said.err
    assert not report.exists()
    assert not list(folder.glob(".padiff-scratch-*"))


def test_ranks_that_lack_are_named(
    folder: Path, cluster: Cluster, run: Callable[..., tuple[int, str, str]]
) -> None:
    write_ranks(folder / "two", ranks=2)

    assert run("known", "two", "--scheduler", cluster.scheduler_address) == run("known", "two")
