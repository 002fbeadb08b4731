"""Settings of all tests."""

from __future__ import annotations

import signal

import hypothesis

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
