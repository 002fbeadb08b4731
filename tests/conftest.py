"""Settings of all tests."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

import hypothesis

# `make adapters` runs these, each folder where its framework is.
collect_ignore_glob = [
    f"adapters/{folder.name}/*"
    for folder in Path(__file__).parent.glob("adapters/*/")
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
