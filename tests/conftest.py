"""Settings of all tests."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support.long_files import LONG

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

TESTS = Path(__file__).parent
_CURRENT = "PYTEST_CURRENT_TEST"
SLOW_S = 10.0
"""A test that takes longer is named as it ends, with what it waited for its fixtures."""

# `make adapters` runs these, each folder where its framework is.
collect_ignore_glob = [
    f"adapters/{folder.name}/*"
    for folder in TESTS.glob("adapters/*/")
    if importlib.util.find_spec(folder.name) is None
]

# `make stores` runs these, which need servers of other packages.
if "PADIFF_AZURITE" not in os.environ:
    collect_ignore_glob.append("stores/*")

# A slow machine is no wrong result: how long an example takes is never judged.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
if hypothesis.settings.get_current_profile_name() == "default":
    hypothesis.settings.load_profile("untimed")

# A runner in the background or under nohup ignores these, and so would the commands that the tests
# start and signal.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def _forget_models() -> Iterator[None]:
    """Undo what running a model leaves: its module, the search path, and variables.

    The next test may write another model into a file of that name, and starts programs out of
    processes that have other variables than those that a framework sets when it compiles.
    """
    last, before, variables = next(reversed(sys.modules)), list(sys.path), os.environ.copy()
    yield
    sys.path[:] = before
    variables[_CURRENT] = os.environ[_CURRENT]
    if os.environ != variables:
        os.environ.clear()
        os.environ.update(variables)
    for name in list(takewhile(lambda name: name != last, reversed(sys.modules))):
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).absolute().is_relative_to(tempfile.gettempdir()):
            del sys.modules[name]


forget_after_test = pytest.fixture(autouse=True)(_forget_models)
forget_after_file = pytest.fixture(autouse=True, scope="module")(_forget_models)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage: of nearly a million objects, none is any."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.unfreeze()  # which moves them to the oldest generation, without a walk
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage once; pytest does so ten times more, which then walk over nothing."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let workers begin with long files, and go on from those of many tests to those of few."""
    if not hasattr(config, "workerinput"):
        return
    places = {TESTS / f"{name}.py": place for place, name in enumerate(LONG)}
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: (places.get(item.path, len(LONG)), -counts[item.path]))


class SlowTests:
    """Names slow tests as they end, those of other processes too."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._elapsed_s: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what a test's phases took, until the last one."""
        self._elapsed_s[report.nodeid] += report.duration
        if report.when != "teardown":
            return
        elapsed_s = self._elapsed_s.pop(report.nodeid)
        if elapsed_s >= SLOW_S:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{elapsed_s:.0f} s: {report.nodeid}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Watch for slow tests where results are shown."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(SlowTests(terminal))
