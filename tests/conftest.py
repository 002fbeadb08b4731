"""Settings of all tests."""

from __future__ import annotations

import hypothesis

# A slow machine is no wrong result: how long an example takes is never judged.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
if hypothesis.settings.get_current_profile_name() == "default":
    hypothesis.settings.load_profile("untimed")
