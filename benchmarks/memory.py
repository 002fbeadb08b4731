"""The most memory that this process ever held."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

_KIB = 1024


def peak_bytes() -> int:
    """Give the peak resident size in bytes.

    Linux counts ``ru_maxrss`` on from the process that forked this one; ``VmHWM`` begins anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="ascii"))
        if found:
            return int(found[1]) * _KIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KIB
