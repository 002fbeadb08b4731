"""Where the tasks of a comparison run: in processes of this machine, on Dask, or on what is named.

All of them are a ``concurrent.futures.Executor``, of which only ``submit`` is used.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import VERSION, CompareError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor
    from importlib.metadata import EntryPoint

EXECUTOR_GROUP = "padiff.executors"
"""Entry-point group by which another package adds an executor.

The entry point's name is the first word of ``--scheduler NAME`` or ``--scheduler NAME:ADDRESS``; it
points to what takes the address (empty without one) and returns an ``Executor``.
"""
MOST_JOBS = 4
"""More processes than that wait for memory, not for each other."""
CONNECT_S = 30.0
"""How long a scheduler may take to answer, in seconds: Dask's own default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """An executor, and how much of it there is."""

    executor: Executor
    width: int
    """How many tasks it runs at once; 1 where a task cannot share its work with others."""


def default_jobs() -> int:
    """Return the processor's cores, at most ``MOST_JOBS``."""
    return min(MOST_JOBS, os.cpu_count() or 1)


@contextmanager
def local_pool(count: int) -> Iterator[Executor]:
    """Open a pool of processes of this machine; they end with the context, or with this process."""
    from .processes import pool_of  # noqa: PLC0415 -- few comparisons need what it imports

    with pool_of(count) as pool:
        yield pool


@contextmanager
def on_scheduler(address: str) -> Iterator[Workers]:
    """Open an executor by its address.

    Args:
        address: Of a Dask scheduler: ``tcp://HOST:PORT``, ``tls://HOST:PORT``, or the file that it
            wrote. Or ``NAME`` or ``NAME:ADDRESS`` of an entry point.

    Raises:
        ConfigError: It is not the address of an executor, or what it needs is not there.
        CompareError: Nobody answers there, or workers have another version of padiff.
    """
    name, _, rest = address.partition(":")
    found = _installed().get(name)
    if found is not None:
        with found.load()(rest) as executor:
            yield Workers(executor=executor, width=1)
        return
    with _dask(address) as workers:
        yield workers


@contextmanager
def beside_this_task(scheduler: str | None, count: int) -> Iterator[Executor]:
    """Open an executor to which a task gives parts of its work; what is left of it ends with it.

    Args:
        scheduler: None where the task runs in a process of this machine; else it is one of a Dask
            worker, and other workers of the same scheduler do the parts.
        count: How many parts there are.
    """
    if scheduler is None:
        with local_pool(count) as pool:
            yield pool
        return
    distributed: Any = importlib.import_module("distributed")
    # The task leaves its place to others while it waits: no worker waits for itself.
    with distributed.worker_client() as client:
        here = distributed.get_worker().address
        others = [address for address in client.nthreads() if address != here]
        executor = client.get_executor(pure=False, workers=others, allow_other_workers=True)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)


@contextmanager
def _dask(address: str) -> Iterator[Workers]:
    """Connect to a Dask scheduler."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise ConfigError(
            f"cannot use --scheduler {address}: distributed is not installed",
            hint="pip install 'padiff-align[distributed]', here and where the workers run",
        ) from None
    if "://" in address:
        where: dict[str, Any] = {"address": address}
    elif Path(address).is_file():
        where = {"scheduler_file": address}
    else:
        raise ConfigError(
            f"cannot use --scheduler {address}: expected tcp://HOST:PORT, tls://HOST:PORT, a "
            "scheduler file or the name of an executor, found none of these",
            hint=f"executors that are installed: {', '.join(sorted(_installed())) or 'none'}",
        )
    try:
        client = distributed.Client(**where, timeout=CONNECT_S, set_as_default=False)
    except TypeError as error:  # what Dask raises where it has no certificates
        raise ConfigError(
            f"cannot use --scheduler {address}: expected certificates for TLS, found {error}",
            hint="Dask takes them from DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT and "
            "…__CLIENT__KEY",
        ) from None
    except (OSError, ValueError) as error:
        raise CompareError(
            f"cannot reach the Dask scheduler at {address}: expected an answer within "
            f"{CONNECT_S:g} s, found {error}",
            hint="`dask scheduler` prints its address; `dask worker ADDRESS` adds workers",
        ) from None
    with client:
        # A name of the standard library, so that a worker without padiff answers too.
        there = client.run(pkgutil.resolve_name, "padiff.dumpfile:VERSION", on_error="return")
        for worker, found in sorted(there.items()):
            check_version(found, f"the worker {worker}")
        width = max(1, sum(client.nthreads().values()))
        yield Workers(executor=client.get_executor(pure=False), width=width)


def _installed() -> dict[str, EntryPoint]:
    """Return the executors of other packages by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 -- takes 20 ms

    return {one.name: one for one in entry_points(group=EXECUTOR_GROUP)}


def own_version() -> str:
    """Return the version of padiff in this process."""
    return VERSION


def check_version(found: object, where: str) -> None:
    """Refuse to work together with another version of padiff.

    Raises:
        CompareError: It is another.
    """
    if found != own_version():
        raise CompareError(
            f"cannot compare together with {where}: expected padiff {own_version()}, found "
            f"{found if isinstance(found, str) else 'none'}",
            hint="install the same version of padiff where the workers run",
        )
