"""A headless Chromium, or a reason why there is none."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from selenium import webdriver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver.chrome.webdriver import WebDriver

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--window-size=1500,1200", "--force-prefers-reduced-motion"),
)


def complaints(driver: WebDriver) -> list[str]:
    """Give what the page wrote to the console since the last call: errors, policy violations."""
    found = driver.get_log("browser")  # type: ignore[no-untyped-call]
    return [str(entry["message"]) for entry in found]


@contextmanager
def browser() -> Iterator[WebDriver]:
    """Start Chromium without a window.

    Where it is not installed the test is skipped, with the reason in the summary; where
    ``PADIFF_TEST_BROWSER=required`` says that it must be, the test fails.
    """
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if not all(programs):
        reason = "chromium and chromedriver are not installed"
        if os.environ.get("PADIFF_TEST_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    for flag in _FLAGS:
        options.add_argument(flag)
    options.binary_location = str(programs[0])
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=str(programs[1]))
    )
    try:
        yield driver
    finally:
        driver.quit()
