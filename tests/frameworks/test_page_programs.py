"""The programs on the page: slices beside each other, and what a module ran, in a real browser."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import torch
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from torch import nn
from torch.nn import functional

import padiff
from padiff.comparer.detail import look_closer
from padiff.comparer.report.fault_words import worded_call
from padiff.comparer.report.html import to_html
from padiff.comparer.report.json_report import to_json
from tests.frameworks.test_influences import SCHEMA
from tests.support.browser import browser, complaints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from selenium.webdriver.chrome.webdriver import WebDriver

    from padiff.comparer import Comparison


X = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))
HOSTILE = "<img src=x onerror=\"document['title']='owned'\">"
LIMIT_BYTES = 500 * 1024


class _Block(nn.Module):
    def __init__(self, scale: float, act: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(32), nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.scale, self.act = scale, act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        mixed = torch.softmax((q @ k.mT) * self.scale, -1) @ v
        return x + self.act(self.out(mixed))


def net(scale: float = 0.25, act: Any = functional.gelu, name: str = "middle") -> nn.Module:  # noqa: ANN401
    """Return three blocks, of which the last two can be other ones."""
    torch.manual_seed(0)
    blocks = (_Block(0.25, functional.gelu), _Block(scale, functional.gelu), _Block(0.25, act))
    model = nn.Sequential()
    for label, block in zip(("first", name, "last"), blocks, strict=True):
        model.add_module(label, block)
    return model.eval()


def report(folder: Path, reference: nn.Module, candidate: nn.Module) -> Comparison:
    """Record and compare two models, forward and backward, with all that a page shows."""
    paths = []
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(model, name=name, out=folder) as recorder:
            model(X).square().mean().backward()
        assert recorder.path is not None
        paths.append(recorder.path)
    result = padiff.compare(paths[0], paths[1])
    return replace(result, details=look_closer(paths[0], paths[1], result))


@pytest.fixture(scope="module")
def two_faults(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = tmp_path_factory.mktemp("two")
    return report(folder, net(), net(scale=0.3, act=functional.relu))


@pytest.fixture(scope="module")
def chromium() -> Iterator[WebDriver]:
    with browser() as driver:
        yield driver


def show(driver: WebDriver, folder: Path, result: Comparison) -> None:
    path = folder / "report.html"
    path.write_text(to_html(result), encoding="utf-8")
    complaints(driver)  # what earlier pages said
    driver.get(path.as_uri())
    WebDriverWait(driver, 30).until(
        lambda found: found.execute_script("return document.documentElement.dataset.ready")
    )


def texts(driver: WebDriver, selector: str) -> list[str]:
    return [one.text for one in driver.find_elements(By.CSS_SELECTOR, selector)]


def test_each_fault_has_both_slices_with_values_and_lines(
    chromium: WebDriver, tmp_path: Path, two_faults: Comparison
) -> None:
    show(chromium, tmp_path, two_faults)

    assert texts(chromium, ".fault h3") == [
        "proved: other of mul: 0.3 where the reference has 0.25",
        "proved: relu where the reference has gelu",
    ]
    assert all(
        one.startswith("alone it moves the result by") for one in texts(chromium, ".fault > p")
    )
    calls = texts(chromium, ".fault .program code")
    assert [one.partition(" = ")[2].partition("(")[0] for one in calls] == [
        "mul", "mul", "gelu", "relu",
    ]  # fmt: skip
    assert calls[0].endswith(", 0.25)")
    assert calls[1].endswith(", 0.3)")
    rows = texts(chromium, ".fault .program li")
    assert all("test_page_programs.py:" in row for row in rows)
    assert all("float32 (2, 8, " in row and "mean" in row and "max" in row for row in rows)
    sides = chromium.find_elements(By.CSS_SELECTOR, ".fault .both > section")
    assert sides[0].location["y"] == sides[1].location["y"]
    assert sides[0].location["x"] < sides[1].location["x"]
    assert complaints(chromium) == []


def test_a_module_shows_what_it_ran_on_both_sides(
    chromium: WebDriver, tmp_path: Path, two_faults: Comparison
) -> None:
    show(chromium, tmp_path, two_faults)

    button = chromium.find_element(By.CSS_SELECTOR, ".fault button.module")
    button.send_keys(Keys.ENTER)

    assert chromium.find_element(By.CSS_SELECTOR, "#panel h2").text == "middle"
    assert texts(chromium, ".ran h4") == ["reference: 11 operators", "candidate: 11 operators"]
    found = texts(chromium, ".ran li.faulty code")
    assert [one.rpartition(", ")[2] for one in found] == ["0.25)", "0.3)"]
    summary = chromium.find_element(By.CSS_SELECTOR, ".ran summary")
    summary.send_keys(Keys.ENTER)
    assert texts(chromium, ".ran li.faulty code") == ["", ""]

    chromium.execute_script("select(steps[0].sides[0].get('first.qkv'))")
    assert [one.partition(" = ")[2] for one in texts(chromium, ".ran code")] == [
        "linear(%0, first.qkv.weight, bias=first.qkv.bias)"
    ] * 2


def test_slices_stand_below_each_other_on_a_phone(
    chromium: WebDriver, tmp_path: Path, two_faults: Comparison
) -> None:
    show(chromium, tmp_path, two_faults)
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        WebDriverWait(chromium, 10).until(  # the plot is drawn anew a moment later
            lambda found: found.execute_script("return main.plot.width < 390")
        )
        sides = chromium.find_elements(By.CSS_SELECTOR, ".fault .both > section")
        wide = chromium.execute_script("return document.documentElement.scrollWidth")
        places = [one.location for one in sides[:2]]
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert wide <= 390
    assert places[0]["x"] == places[1]["x"]
    assert places[0]["y"] < places[1]["y"]


def test_names_of_a_program_stay_text(chromium: WebDriver, tmp_path: Path) -> None:
    models = net(name=HOSTILE), net(scale=0.3, name=HOSTILE)

    show(chromium, tmp_path, report(tmp_path, *models))
    chromium.find_element(By.CSS_SELECTOR, ".fault button.module").send_keys(Keys.ENTER)

    assert HOSTILE in chromium.find_element(By.CSS_SELECTOR, "#panel").text
    assert any(HOSTILE in one for one in texts(chromium, ".ran code"))
    assert chromium.title.startswith("padiff")
    assert chromium.find_elements(By.TAG_NAME, "img") == []


def test_where_nothing_is_proved_the_slices_stand_all_the_same(
    chromium: WebDriver, tmp_path: Path
) -> None:
    result = report(tmp_path, net(), net(act=functional.relu))
    (step,) = result.steps
    assert step.executed is not None
    function = replace(step.executed.function, edits=())
    executed = replace(step.executed, function=function)

    show(chromium, tmp_path, replace(result, steps=(replace(step, executed=executed),)))

    assert texts(chromium, ".fault h3") == [
        "the programs part here; no edit was found that proves why"
    ]
    calls = texts(chromium, ".fault .program code")
    assert [one.partition(" = ")[2].partition("(")[0] for one in calls] == [
        "gelu", "add", "relu", "add",
    ]  # fmt: skip


def test_page_and_details_stay_small_and_follow_the_schema(two_faults: Comparison) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(to_json(two_faults))

    assert len(to_html(two_faults).encode()) < LIMIT_BYTES


def test_of_a_long_program_only_what_differs_is_listed(tmp_path: Path) -> None:
    class Long(nn.Module):
        def __init__(self, last: float) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer, self.last = nn.Linear(32, 32), last

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.layer(x)
            for _ in range(3000):
                y = y + 1e-3
            return y * self.last

    details = report(tmp_path, Long(0.5), Long(0.6)).details

    assert details is not None
    (programs,) = details.programs
    for listing, number in ((programs.reference, "0.5"), (programs.candidate, "0.6")):
        (operator,) = listing.operators
        assert worded_call(operator).startswith("mul(%")
        assert number in worded_call(operator)
        assert listing.left_out > 3000
