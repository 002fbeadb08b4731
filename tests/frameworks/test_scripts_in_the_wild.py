"""Scripts as people write them: updates by hand, models that are never called themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.dumpfile import Phase, RecordError, Role, open_dump
from tests.support.recording import Recorded
from tests.support.scripts import FRAMEWORKS, recorded, script

if TYPE_CHECKING:
    from pathlib import Path

UPDATES = {
    ("torch", "in place"): "with torch.no_grad(): p -= 0.1 * p.grad",
    ("torch", "data in place"): "p.data -= 0.1 * p.grad",
    ("torch", "data"): "p.data = p.data - 0.1 * p.grad.data",
    ("torch", "copy"): "p.data.copy_(p.detach() - 0.1 * p.grad)",
    ("paddle", "set_value"): "p.set_value(p - 0.1 * p.grad)",
    ("paddle", "in place"): "\n        with paddle.no_grad(): p.subtract_(0.1 * p.grad)",
    ("paddle", "assign"): "\n        with paddle.no_grad(): paddle.assign(p - 0.1 * p.grad, p)",
}
CLEARS = {
    "torch": {"zero": "p.grad.zero_()", "none": "p.grad = None"},
    "paddle": {"zero": "p.clear_gradient()", "none": "p.clear_gradient(False)"},
}
LOOP = """
model = Net()
for step in range(3):
    loss = model(ones(4, 3) * (step + 1)).mean()
    loss.backward()
    for p in model.parameters():
        UPDATE
        CLEAR
"""


@pytest.mark.parametrize("clear", ["zero", "none"])
@pytest.mark.parametrize(("framework", "way"), UPDATES)
def test_updates_by_hand_end_steps(tmp_path: Path, framework: str, way: str, clear: str) -> None:
    body = LOOP.replace("UPDATE", UPDATES[framework, way])
    body = body.replace("CLEAR", CLEARS[framework][clear])

    path = recorded(script(tmp_path, framework, body))

    dump = open_dump(path)
    assert [info.step for info in dump.files] == [0, 1, 2]
    assert dump.manifest.phase is Phase.UPDATE
    assert any("changed the weights itself" in note for note in dump.manifest.notes)
    for number in range(3):
        got = Recorded.read(path, number)
        assert got.calls() == ["#0", "a#0", "b#0"]
        assert got.array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)
        bias = [one for one in got.index.records if one.slot == ".bias" and one.module == 2]
        before, after = (
            got.arrays[one.id] for one in bias if one.role is Role.WEIGHT and one.id in got.arrays
        )
        assert before - after == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_gradients_that_accumulate_before_an_update_by_hand(tmp_path: Path, framework: str) -> None:
    way = {"torch": "data in place", "paddle": "set_value"}[framework]
    body = f"""
model = Net()
for step in range(4):
    (model(ones(4, 3)).mean() / 2).backward()
    for p in model.parameters() if step % 2 else ():
        {UPDATES[framework, way]}
        {CLEARS[framework]["none"]}
"""

    path = recorded(script(tmp_path, framework, body), steps=(1,))

    got = Recorded.read(path, 1)
    assert got.calls() == ["#0", "a#0", "b#0", "#1", "a#1", "b#1"]
    assert got.array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_backward_pass_without_an_update_is_no_step(tmp_path: Path, framework: str) -> None:
    body = "model = Net()\nfor step in range(3):\n    model(ones(4, 3)).mean().backward()\n"

    with pytest.raises(RecordError, match="never updated it"):
        recorded(script(tmp_path, framework, body))


FORWARD = """
model = Net()
optimizer = sgd(model)
for step in range(3):
    model.forward(ones(4, 3)).mean().backward()
    optimizer.step()
    clear(optimizer)
"""
TRAINER = """
class Module(nn.BASE):
    def __init__(self):
        super().__init__()
        self.net, self.head = Net(), nn.Linear(2, 2)

    def training_step(self, batch, number):
        return self.head(self.net(batch)).mean()

    def validation_step(self, batch, number):
        return self.head(self.net(batch)).mean()

class Trainer:
    def fit(self, module, batches):
        optimizer = sgd(module)
        for number, batch in enumerate(batches):
            loss = module.training_step(batch, number)
            clear(optimizer)
            loss.backward()
            optimizer.step()
            self.validate(module, batch)

    def validate(self, module, batch):
        with no_grad():
            module.validation_step(batch, 0)
        module.eval()
        module.validation_step(batch, 0)
        module.train()

Trainer().fit(Module(), [ones(4, 3)] * 3)
"""


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("choice", [None, "Net"])
def test_model_whose_forward_is_run_directly_is_the_root(
    tmp_path: Path, framework: str, choice: str | None
) -> None:
    path = recorded(script(tmp_path, framework, FORWARD), class_name=choice)

    dump = open_dump(path)
    assert dump.manifest.model_class == "__main__.Net"
    assert [info.step for info in dump.files] == [0, 1, 2]
    assert any("runs Net by its forward()" in note for note in dump.manifest.notes)
    for number in range(3):
        got = Recorded.read(path, number)
        assert got.calls() == ["a#0", "b#0"]
        assert got.array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_model_of_a_trainer_is_the_root(tmp_path: Path, framework: str) -> None:
    base = {"torch": "Module", "paddle": "Layer"}[framework]

    path = recorded(script(tmp_path, framework, TRAINER.replace("BASE", base)))

    dump = open_dump(path)
    assert dump.manifest.model_class == "__main__.Module"
    assert [info.step for info in dump.files] == [0, 1, 2]
    assert Recorded.read(path, 2).calls() == ["net#0", "net.a#0", "net.b#0", "head#0"]
    again = recorded(script(tmp_path, framework, TRAINER.replace("BASE", base)), class_name="Net",
                     name="inner")  # fmt: skip
    assert open_dump(again).manifest.model_class == "__main__.Net"
    assert [info.step for info in open_dump(again).files] == [0, 1, 2]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_loop_inside_a_method_of_a_module_is_no_entry(tmp_path: Path, framework: str) -> None:
    base = {"torch": "Module", "paddle": "Layer"}[framework]
    body = f"""
class Whole(nn.{base}):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def fit(self):
        optimizer = sgd(self.net)
        for step in range(3):
            self.net(ones(4, 3)).mean().backward()
            optimizer.step()
            clear(optimizer)

Whole().fit()
"""

    path = recorded(script(tmp_path, framework, body))

    assert open_dump(path).manifest.model_class == "__main__.Net"
    assert [info.step for info in open_dump(path).files] == [0, 1, 2]
