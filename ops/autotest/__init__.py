"""Framework code of the user as a test: the same text runs in both frameworks."""

from __future__ import annotations

from .decorator import autotest
from .drawing import Drawing
from .proxies import Framework, nothing

__all__ = ["Drawing", "Framework", "autotest", "nothing"]
