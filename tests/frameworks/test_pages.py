"""The pages for learners run as they stand, and their translations have the same commands."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.cli.main import main
from padiff.cli.output import NO_WIDTH
from tests.support.forked_workers import fork_workers
from tests.support.pages import DOCS, ELLIPSIS, blocks, commands, run_page

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
PAGES = (
    "start",
    "audit",
    "executed",
    "guides/cnn",
    "guides/llm",
    "guides/training",
    "guides/onnx",
    "guides/coming-from",
)
SPLIT = """
import torch

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (
            torch.nn.Linear(8, size, bias=False) for size in (8, 4, 4)
        )

    def forward(self, x):
        return x + self.q_proj(x) * torch.cat([self.k_proj(x), self.v_proj(x)], -1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.ModuleDict({"attn": Attention()}) for _ in "ab")

    def forward(self, x):
        for layer in self.layers:
            x = layer["attn"](x)
        return x
"""
FUSED = """
import paddle

class Attention(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.qkv_proj = paddle.nn.Linear(8, 16, bias_attr=False)

    def forward(self, x):
        groups = self.qkv_proj(x).reshape([0, 0, 2, 8]).split([4, 2, 2], axis=-1)
        q, k, v = (part.flatten(2) for part in groups)
        return x + q * paddle.concat([k, v], -1)

class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        blocks = [paddle.nn.LayerDict({"attn": Attention()}) for _ in "ab"]
        self.layers = paddle.nn.LayerList(blocks)

    def forward(self, x):
        for layer in self.layers:
            x = layer["attn"](x)
        return x
"""
SCRIPT = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--lr", type=float)
options = parser.parse_args()
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), options.lr)
for _ in range(options.epochs):
    for _ in range(2):
        model(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
EXPORTED = """
import torch

def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))

def inputs():
    return {"input": torch.linspace(-1, 1, 40).reshape(5, 8)}
"""
RECORD = "dump --model torch_net.py:Net --inputs auto:2x3x8 --name torch"
USED_AS = {"build": "CNN", "optimizer": "sgd", "schedule": "warmup_cosine"}
"""Names in the commands of docs/training.md, and what tests/support/ports calls the same."""
TRANSLATIONS = [ROOT / "README.zh-CN.md", *sorted(DOCS.rglob("*.zh.md"))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(NO_WIDTH))  # pages show what goes into a pipe
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


@pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_does_what_the_page_says(
    page: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run_page(DOCS / f"{page}.md", folder, capsys)

    assert {"padiff compare", "padiff audit"} & ran


def weights(folder: Path) -> dict[str, str]:
    """Write a split and a fused attention of two groups, and record the split one."""
    (folder / "torch_net.py").write_text(SPLIT, encoding="utf-8")
    (folder / "paddle_net.py").write_text(FUSED, encoding="utf-8")
    assert main(RECORD.split()) == 0
    again = "--model torch_net.py:Net --inputs-from padiff_dump/torch --name again --weights-from"
    return {
        "[-o plan.toml]": "-o plan.toml",
        "--no-run --model net.py:Net": "--no-run --model torch_net.py:Net --name bare",
        "net.py:Net": "torch_net.py:Net",
        "torch_torch_net": "torch_net",
        "paddle_torch_net": "paddle_net",
        "padiff dump --weights-from": f"padiff dump {again}",
        "[--map plan.toml]": "",
        "SIDE [SIDE]": "padiff_dump/torch padiff_dump/torch",
        "--to DEST": "--to moved.safetensors --overwrite",
        **dict.fromkeys(("REFERENCE", "CANDIDATE", "SOURCE", "TARGET"), "padiff_dump/torch"),
    }


def training(folder: Path) -> dict[str, str]:
    """Write the trainings of two models, a script, and five batches."""
    for framework in ("torch", "paddle"):
        code = (ROOT / "tests" / "support" / "ports" / f"training_{framework}.py").read_text()
        names = "".join(f"{name} = {known}\n" for name, known in USED_AS.items())
        (folder / f"{framework}_model.py").write_text(code + names, encoding="utf-8")
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    random = np.random.default_rng(0)
    for step in range(5):
        np.save(f"batch{step}.npy", random.standard_normal((6, 3, 8, 8), np.float32))
        np.save(f"label{step}.npy", random.integers(0, 5, 6))
    return {}


def operators(folder: Path) -> dict[str, str]:
    """Record a model, and test fewer operators with fewer cases than the page does."""
    (folder / "torch_net.py").write_text(SPLIT, encoding="utf-8")
    assert main(RECORD.split()) == 0
    return {
        "--examples 200": "--examples 2",
        "ops generate": "ops generate abs",
        "ops test --python": "ops test abs --examples 2 --python",
        "~/paddle/bin/python": sys.executable,
        "--profile 20": "--profile 1",
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(weights, id="weights"),
        pytest.param(training, id="training"),
        pytest.param(operators, id="operators"),
    ],
)
def test_every_command_of_a_reference_page_works(
    page: Callable[[Path], dict[str, str]],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork_workers(monkeypatch)
    ran = run_page(DOCS / f"{page.__name__}.md", folder, capsys, changed=page(folder))

    assert {"padiff compare", "padiff weights", "padiff replay"} & ran


@pytest.mark.filterwarnings("ignore")
def test_every_command_of_the_readme_prints_what_stands_there(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (folder / "net.py").write_text(EXPORTED, encoding="utf-8")
    np.savez("x.npz", input=np.linspace(-1, 1, 40, dtype=np.float32).reshape(5, 8))

    ran = run_page(ROOT / "README.md", folder, capsys)

    assert ran == {"padiff dump", "padiff compare", "padiff audit", "python -c"}


def test_the_demo_runs_the_commands_of_the_readme() -> None:
    demo = (ROOT / "examples" / "demo.sh").read_text(encoding="utf-8").replace('"', "")
    demo = re.sub(r"\s*\\\n\s*", " ", demo).replace("$out", "padiff_dump")
    ran = re.findall(r"^run \.venv/demo-\w+/bin/(padiff .*)$", demo, flags=re.MULTILINE)
    for words in (" --out padiff_dump", " --overwrite", " || status=$?"):
        ran = [line.replace(words, "") for line in ran]

    shown = [
        line
        for kind, _, text in blocks(ROOT / "README.md")
        for line, _ in commands(kind, text, is_plain_run=False)
    ]

    assert len(ran) == 5
    assert shown[:5] == ran


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_translation_has_the_commands_and_files_of_its_page(page: Path) -> None:
    original = blocks(page.with_name(page.name.replace(".zh.md", ".md").replace(".zh-CN", "")))

    translated = blocks(page)

    assert translated or not original
    assert [block for block in translated if not has_block(original, block)] == []


def has_block(original: list[tuple[str, str, str]], block: tuple[str, str, str]) -> bool:
    """Return whether a page has a block, or one of which it shows only some parts (``…``)."""
    kind, name, text = block
    if kind == "sh":  # lines, whose comments are translated
        lines = {line for one in original if one[0] == "sh" for line in without_comments(one[2])}
        return set(without_comments(text)) <= lines
    if block in original:
        return True
    shown = list(commands(kind, text, is_plain_run=False))
    known = [
        pair for one in original if one[:2] == (kind, name)
        for pair in commands(kind, one[2], is_plain_run=False)
    ]  # fmt: skip
    return bool(shown) and all(
        any(line == other and is_part(part, whole) for other, whole in known)
        for line, part in shown
    )


def without_comments(text: str) -> list[str]:
    """Return the lines of a shell script without what is said about them."""
    return [line.partition(" #")[0].rstrip() for line in text.splitlines()]


def is_part(part: str, whole: str) -> bool:
    """Return whether lines are in a text, in their order; a line ``…`` stands for any."""
    position = 0
    for piece in ELLIPSIS.split(part):
        position = whole.find(piece.rstrip(), position)
        if position < 0:
            return False
    return True
