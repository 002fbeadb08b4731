"""The page of many steps and ranks in a real browser."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from padiff.comparer.report.overview_page import to_overview
from padiff.comparer.result import Kind, Verdict
from tests.support.browser import browser, complaints
from tests.support.comparisons import comparison, divergence, endpoint, metrics, pair, tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver.chrome.webdriver import WebDriver

    from padiff.comparer import Comparison, JudgedPair

MODULES = ["", "blocks", "blocks.0", "blocks.0.norm", "blocks.1", "head"]
FAULT = "blocks.0.norm"


def record(module: str, step: int, rank: int, *, is_bad: bool) -> JudgedPair:
    """A record that is off by 123 times what it may be from step 2 on."""
    end = endpoint(module)
    end = replace(end, address=replace(end.address, step=step, rank=rank))
    measured = replace(metrics(), needed_atol=0.0123)
    kind = Kind.ORIGIN if (module, step, rank) == (FAULT, 2, 1) else Kind.INHERITED
    if not is_bad:
        return pair(end, end, measured=metrics(1e-9))
    return pair(end, end, Verdict.DIVERGED, kind=kind, measured=measured)


def training() -> Comparison:
    """Four steps of two ranks; the norm of rank 1 is wrong from step 2 on."""
    steps = []
    for step in range(4):
        for rank in range(2):
            judged = [
                record(module, step, rank, is_bad=step >= 2 and rank == 1 and module != "blocks.1")
                for module in MODULES
                if module != "blocks"
            ]
            found = [divergence(one, "attribute eps: 1 | 2") for one in judged
                     if one.kind is Kind.ORIGIN]  # fmt: skip
            one = comparison(judged, tree(MODULES, {}), found, reasons=("diverged",))
            steps.append(replace(one.steps[0], step=step, rank=rank))
    return replace(one, steps=tuple(steps))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    path: Path = tmp_path_factory.mktemp("overview") / "overview.html"
    path.write_text(to_overview(training()), encoding="utf-8")
    with browser() as driver:
        driver.get(path.as_uri())
        WebDriverWait(driver, 30).until(
            lambda found: found.execute_script("return document.documentElement.dataset.ready")
        )
        yield driver


def cell(driver: WebDriver) -> str:
    return driver.find_element(By.ID, "cell").text


def lines(driver: WebDriver) -> list[str]:
    found: list[str] = driver.execute_script(
        "return [...document.querySelectorAll('#rows .line')].map((line) => line.title ||"
        " line.querySelector('.label').title)"
    )
    return found


def test_map_opens_at_the_origin_without_complaints(page: WebDriver) -> None:
    assert "step 2 rank 1: blocks.0.norm" in cell(page)
    assert "diverged, an origin" in cell(page)
    assert "120" in cell(page)  # times what is allowed, to two digits
    assert lines(page) == ["(root)", *MODULES[1:]]
    assert complaints(page) == []


def test_arrows_walk_over_modules_and_steps_and_enter_folds(page: WebDriver) -> None:
    where = page.find_element(By.ID, "map")
    where.send_keys("n")
    where.send_keys(Keys.ARROW_LEFT)
    assert "step 2 rank 0: blocks.0.norm" in cell(page)
    where.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ENTER)
    assert "blocks.0 and what is inside" in cell(page)
    assert "an origin" in cell(page)
    assert FAULT not in lines(page)
    where.send_keys(Keys.ENTER)
    assert FAULT in lines(page)


def test_one_rank_can_be_shown_alone(page: WebDriver) -> None:
    def width() -> Any:  # noqa: ANN401 -- of a script
        return page.execute_script(
            "return document.querySelector('#rows canvas').offsetWidth / view.width"
        )

    assert width() == 8
    Select(page.find_element(By.ID, "rank")).select_by_visible_text("1")
    assert width() == 4
    Select(page.find_element(By.ID, "rank")).select_by_visible_text("all")


def test_causes_and_counts_stand_below_the_map(page: WebDriver) -> None:
    text = page.find_element(By.TAG_NAME, "main").text

    assert "attribute eps: 1 | 2" in text
    assert "✗ 4 of 5" in text
    assert "✓ 0 of 5" in text


@pytest.mark.parametrize("width", [390, 900, 1400])
def test_page_is_never_wider_than_the_window(page: WebDriver, width: int) -> None:
    sizes = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
    wide = page.execute_script("return document.documentElement.scrollWidth")
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert wide <= width


def test_modules_below_the_room_count_in_those_that_hold_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("padiff.comparer.report.overview_page._CELLS", 8 * 5)
    text = to_overview(training())
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])

    assert [row[1] for row in data["rows"]] == [name for name in MODULES if name != FAULT]
    assert data["folded"] == 1
    origins = [
        place
        for column in data["cells"]
        for place, coded in zip(column[0][::4], column[0][1::4], strict=True)
        if coded >= len(data["severity"])
    ]
    assert origins == [MODULES.index("blocks.0")]
