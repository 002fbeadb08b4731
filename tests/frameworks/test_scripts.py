"""Recording scripts that know nothing of padiff."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.comparer.auditing import Soundness, audit_dump
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import evidence_of
from padiff.dumpfile import ConfigError, LeafKind, Phase, RecordError, Role, open_dump
from padiff.program import read_program
from tests.support.recording import Recorded
from tests.support.scripts import FRAMEWORKS, recorded, script

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.parametrize("framework", FRAMEWORKS)

LOOP = """
model = Net()
optimizer = sgd(model)
for step in range(3):
    loss = model(ones(4, 3) * (step + 1)).mean()
    loss.backward()
    optimizer.step()
    clear(optimizer)
"""


def test_each_update_ends_a_step(tmp_path: Path, framework: str) -> None:
    path = recorded(script(tmp_path, framework, LOOP))

    dump = open_dump(path)
    assert [info.step for info in dump.files] == [0, 1, 2]
    assert dump.manifest.phase is Phase.UPDATE
    assert dump.manifest.model == f"train_{framework}.py"
    assert not list(dump.problems())
    for number in range(3):
        got = Recorded.read(path, number)
        assert got.calls() == ["#0", "a#0", "b#0"]
        assert got.array(Role.LR) == pytest.approx(0.1)
        assert np.all(got.array(Role.INPUT, "", "[0]") == number + 1)
        output = got.array(Role.OUTPUT)
        assert got.array(Role.LOSS) == pytest.approx(output.mean(), rel=1e-5)
        assert got.array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)


def test_dump_is_that_of_a_recorder_in_the_script(tmp_path: Path, framework: str) -> None:
    lines = LOOP.replace("\n", "\n    ").splitlines()
    start = lines.index("    for step in range(3):")
    place = f"name='own', out={str(tmp_path)!r}, optimizer=optimizer"
    lines.insert(start, f"with padiff.record(model, {place}) as recorder:")
    inside = [line.removeprefix("    ") for line in lines[:start]] + lines[start:]
    body = "\n".join(["import padiff", *inside, "        recorder.step(loss=loss)"])
    own = script(tmp_path, framework, body)
    exec(compile(own.read_text(), own, "exec"), {"__name__": "__main__"})

    path = recorded(script(tmp_path, framework, LOOP))

    comparison = compare(tmp_path / "own", path, CompareSettings())
    assert comparison.verdict is Verdict.MATCH, comparison.reasons
    for step in comparison.steps:
        for coverage in (step.coverage_reference, step.coverage_candidate):
            assert coverage.fraction == 1.0


@pytest.mark.parametrize("place", ["first", "before backward", "last"])
def test_place_of_zero_grad_does_not_matter(tmp_path: Path, framework: str, place: str) -> None:
    clear = {"first": (1, 0, 0), "before backward": (0, 1, 0), "last": (0, 0, 1)}[place]
    lines = ["    clear(optimizer)\n" if wanted else "" for wanted in clear]
    body = (
        "model = Net()\noptimizer = sgd(model)\nfor step in range(2):\n"
        f"{lines[0]}    loss = model(ones(4, 3)).mean()\n{lines[1]}    loss.backward()\n"
        f"    optimizer.step()\n{lines[2]}"
    )

    path = recorded(script(tmp_path, framework, body))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    assert Recorded.read(path, 1).array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)
    assert not any("before recording began" in note for note in open_dump(path).manifest.notes)


def test_gradients_that_accumulate_are_one_step(tmp_path: Path, framework: str) -> None:
    body = """
model = Net()
optimizer = sgd(model)
for step in range(4):
    (model(ones(4, 3)).mean() / 2).backward()
    if step % 2:
        optimizer.step()
        clear(optimizer)
"""
    path = recorded(script(tmp_path, framework, body))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    got = Recorded.read(path, 0)
    assert got.calls() == ["#0", "a#0", "b#0", "#1", "a#1", "b#1"]
    assert got.array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)
    losses = [record for record in got.index.records if record.role is Role.LOSS]
    assert [record.slot for record in losses] == ["[0]", "[1]"]


PARTS = """
model = Net()
optimizer = sgd(model)
for step in range(2):
    for part in range(3):
        loss = model(ones(4, 3) * (part + 0.7)).mean()
        (LOSS).backward()
        BETWEEN
    AFTER
    optimizer.step()
    clear(optimizer)
"""


def in_parts(
    path: Path, framework: str, *, loss: str = "loss / 3", between: str = "", after: str = ""
) -> Path:
    """Record a training whose steps have several backward passes each."""
    path.mkdir()
    text = PARTS.replace("LOSS", loss).replace("BETWEEN", between or "pass")
    return recorded(script(path, framework, text.replace("AFTER", after or "pass")))


def test_the_loss_of_each_backward_pass_is_in_the_program(tmp_path: Path, framework: str) -> None:
    known = in_parts(tmp_path / "known", framework)
    other = in_parts(tmp_path / "other", framework, loss="loss / (3 if part != 1 else 4)")

    found = compare(known, other, CompareSettings())

    assert found.verdict is Verdict.DIVERGED
    assert found.steps[0].executed is not None
    assert found.steps[0].executed.answer is Answer.DIFFERENT
    assert "4 where the reference has 3" in evidence_of(found.origins[0])[0]


@pytest.mark.parametrize("after", ["", "model(ones(4, 3)).mean()"])
def test_what_takes_gradients_is_of_the_update(tmp_path: Path, framework: str, after: str) -> None:
    total = "total = sum((p.grad * p.grad).sum() for p in model.parameters())"
    path = in_parts(tmp_path / "dump", framework, after=f"{after}; {total}".lstrip("; "))

    with open_dump(path).open(0, 0) as file:
        found = read_program(file)

    assert found is not None
    gradients = {one.id for one in found.program.values if one.kind is LeafKind.GRADIENT}
    takers = [one for one in found.program.operators if gradients.intersection(one.taken)]
    assert takers
    assert {one.phase for one in takers} == {Phase.UPDATE}
    assert all(audit.soundness is Soundness.SOUND for audit in audit_dump(path).values())


def test_gradients_of_several_backward_passes_are_no_fault(tmp_path: Path, framework: str) -> None:
    seen = "[(p.grad * p.grad).sum() for p in model.parameters()]"
    path = in_parts(tmp_path / "dump", framework, between=seen)

    assert all(audit.soundness is Soundness.SOUND for audit in audit_dump(path).values())


@pytest.mark.parametrize("way", ["no_grad", "eval", "both"])
def test_evaluation_is_no_step(tmp_path: Path, framework: str, way: str) -> None:
    body = """
model = Net()
optimizer = sgd(model)

def evaluate():
    if WAY != "no_grad":
        model.eval()
    if WAY == "eval":
        model(ones(9, 3))
    else:
        with no_grad():
            model(ones(9, 3))
    model.train()

evaluate()
for step in range(2):
    model(ones(4, 3)).mean().backward()
    optimizer.step()
    clear(optimizer)
    evaluate()
""".replace("WAY", repr(way))
    path = recorded(script(tmp_path, framework, body))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    for number in range(2):
        got = Recorded.read(path, number)
        assert got.calls() == ["#0", "a#0", "b#0"]
        assert got.array(Role.INPUT, "", "[0]").shape == (4, 3)


def test_a_call_without_gradients_ahead_of_the_update_is_of_the_step(
    tmp_path: Path, framework: str
) -> None:
    """As the action of a double DQN, or a label that a model gives itself."""
    body = """
model = Net()
optimizer = sgd(model)
for step in range(2):
    made = model(ones(4, 3))
    with no_grad():
        label = model(ones(4, 3) * 2) + 1
    ((made - label) ** 2).mean().backward()
    optimizer.step()
    clear(optimizer)
    with no_grad():
        model(ones(9, 3))
"""

    path = recorded(script(tmp_path, framework, body))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    for number in range(2):
        assert Recorded.read(path, number).calls() == ["#0", "a#0", "b#0", "#1", "a#1", "b#1"]


def test_training_in_eval_mode_is_recorded(tmp_path: Path, framework: str) -> None:
    path = recorded(script(tmp_path, framework, LOOP.replace("Net()", "Net()\nmodel.eval()")))

    assert [info.step for info in open_dump(path).files] == [0, 1, 2]


def test_only_the_steps_asked_for_have_hooks(tmp_path: Path, framework: str) -> None:
    count = "len(model.a._forward_pre_hooks) + len(model.a._forward_post_hooks)"
    if framework == "torch":
        count = count.replace("_forward_post_hooks", "_forward_hooks")
    seen = tmp_path / "seen"
    body = LOOP + f"    note({str(seen)!r}, str({count}))\n"

    path = recorded(script(tmp_path, framework, body), steps=(1,))

    assert [info.step for info in open_dump(path).files] == [1]
    assert seen.read_text() == "030"  # before all other hooks, before the call and after it


def test_second_optimizer_of_the_model_belongs_to_the_step(tmp_path: Path, framework: str) -> None:
    body = """
model = Net()
first, second = sgd(model.a, rate=0.1), sgd(model.b, rate=0.2)
for step in range(2):
    model(ones(4, 3)).mean().backward()
    first.step()
    second.step()
    clear(first)
    clear(second)
"""
    path = recorded(script(tmp_path, framework, body))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    got = Recorded.read(path, 0)
    rates = [got.array(Role.LR, "", slot) for slot in ("[0]", "[1]")]
    assert rates == pytest.approx([0.1, 0.2])
    states = [record for record in got.index.records if record.role is Role.OPTIMIZER_STATE]
    assert {record.module for record in states} == {1, 2}


def test_optimizer_of_another_model_ends_no_step(tmp_path: Path, framework: str) -> None:
    body = """
model, judge = Net(), Other(5)
own, others = sgd(model), sgd(judge)
for step in range(2):
    made = model(ones(4, 3))
    judge(ones(4, 3)).mean().backward()
    others.step()
    clear(others)
    made.mean().backward()
    own.step()
    clear(own)
"""
    path = recorded(script(tmp_path, framework, body))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    assert Recorded.read(path, 0).calls() == ["#0", "a#0", "b#0"]
    assert open_dump(path).manifest.model_class == "__main__.Net"


JUDGED = """
class Judged(Net):
    def __init__(self):
        super().__init__()
        self.judge = Other(5)
model = Judged()
judges, own = sgd(model.judge), sgd(model.a, model.b)
for step in range(2):
    made = model(ones(4, 3) * 0.3)
    clear(judges)
    first = LOSS
    first.backward()
    judges.step()
    clear(own)
    last = made.mean() + model.judge(ones(4, 3)).mean()
    last.backward()
    own.step()
"""


def test_all_losses_of_a_step_are_results(tmp_path: Path, framework: str) -> None:
    forms = {
        "known": "(model.judge(ones(5, 3) * 0.7) ** 2).mean()",
        "right": "(model.judge(ones(5, 3) * 0.7) ** 2 / 13).mean() * 13",
        "wrong": "(model.judge(ones(5, 3) * 0.7) ** 2).mean() + 0.01",
    }
    paths = {}
    for name, form in forms.items():
        (tmp_path / name).mkdir()
        text = JUDGED.replace("LOSS", form)
        paths[name] = recorded(script(tmp_path / name, framework, text))

    right = compare(paths["known"], paths["right"], CompareSettings())
    wrong = compare(paths["known"], paths["wrong"], CompareSettings())

    assert [step.executed.answer for step in right.steps if step.executed] == [Answer.SAME] * 2
    assert wrong.verdict is Verdict.DIVERGED
    assert "0.01" in evidence_of(wrong.origins[0])[0]


TWO = """
teacher, model = Net(), Other(5)
def main():
    hidden = model
    optimizer = sgd(hidden, teacher)
    for step in range(2):
        (teacher(ones(4, 3)) + hidden(ones(4, 3))).mean().backward()
        optimizer.step()
        clear(optimizer)
main()
"""


@pytest.mark.parametrize(
    "choice", [{"class_name": "Other"}, {"variable": "model"}, {"variable": "hidden"}], ids=str
)
def test_model_is_the_one_that_was_named(
    tmp_path: Path, framework: str, choice: dict[str, Any]
) -> None:
    path = script(tmp_path, framework, TWO)

    assert open_dump(recorded(path, **choice)).manifest.model_class == "__main__.Other"
    assert open_dump(recorded(path, name="first")).manifest.model_class == "__main__.Net"


def test_model_that_is_not_there_is_an_error_with_those_that_are(
    tmp_path: Path, framework: str
) -> None:
    with pytest.raises(ConfigError, match="of class 'Missing'") as caught:
        recorded(script(tmp_path, framework, TWO), class_name="Missing")

    assert caught.value.hint == "it called Net, Other"
    assert not (tmp_path / "dumps").exists()


def test_script_without_a_model_is_an_error(tmp_path: Path, framework: str) -> None:
    with pytest.raises(ConfigError, match="called no module that is a model"):
        recorded(script(tmp_path, framework, "print('no model')\n"))


def test_script_that_never_updates_is_an_error(tmp_path: Path, framework: str) -> None:
    body = "model = Net()\nfor step in range(3):\n    model(ones(4, 3)).mean().backward()\n"

    with pytest.raises(RecordError, match="never updated it"):
        recorded(script(tmp_path, framework, body))

    assert not (tmp_path / "dumps" / "m").exists()


def test_each_call_is_a_step_if_only_forward_is_recorded(tmp_path: Path, framework: str) -> None:
    body = """
model = Net()
for step in range(3):
    with no_grad():
        model(ones(4, 3))
"""

    path = recorded(script(tmp_path, framework, body), phase=Phase.FORWARD)

    assert [info.step for info in open_dump(path).files] == [0, 1, 2]
    assert Recorded.read(path, 2).calls() == ["#0", "a#0", "b#0"]


def test_script_runs_as_python_would_run_it(tmp_path: Path, framework: str) -> None:
    (tmp_path / "besides.py").write_text("VALUE = 7\n")
    body = """
import sys, besides
assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals()
assert sys.argv == [ARGV0, "--lr", "0.5"] and besides.VALUE == 7
assert sys.path[0] == FOLDER and __file__ == ARGV0
import pickle
pickle.loads(pickle.dumps(Net))
"""
    path = script(tmp_path, framework, "")
    body = body.replace("ARGV0", repr(str(path))).replace("FOLDER", repr(str(tmp_path.resolve())))
    script(tmp_path, framework, body + LOOP)
    before = sys.modules["__main__"], sys.argv[:], sys.path[:]

    recorded(path, "--lr", "0.5")

    assert before == (sys.modules["__main__"], sys.argv, sys.path)
    sys.modules.pop("besides")


def test_script_stops_after_the_last_step_recorded(tmp_path: Path, framework: str) -> None:
    seen = tmp_path / "seen"
    body = LOOP.replace("range(3)", "range(1000)") + f"    note({str(seen)!r}, '.')\n"

    path = recorded(script(tmp_path, framework, body), steps=(0, 2), stop=True)

    assert [info.step for info in open_dump(path).files] == [0, 2]
    assert seen.read_text() == "..."


def test_error_of_the_script_is_its_own_and_whole_steps_are_kept(
    tmp_path: Path, framework: str
) -> None:
    with pytest.raises(RecordError, match="raised ZeroDivisionError") as caught:
        recorded(script(tmp_path, framework, LOOP + "1 / 0\n"))

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert not (tmp_path / "dumps" / "m").exists()
    kept = open_dump(tmp_path / "dumps" / "m.incomplete")
    assert [info.step for info in kept.files] == [0, 1, 2]


@pytest.mark.parametrize("status", ["0", "None", "", "3", "'no data'"])
def test_exit_status_of_the_script(tmp_path: Path, framework: str, status: str) -> None:
    path = script(tmp_path, framework, f"{LOOP}import sys\nsys.exit({status})\n")

    if status in ("0", "None", ""):
        assert len(open_dump(recorded(path)).files) == 3
    else:
        with pytest.raises(RecordError, match=f"exit status {status}"):
            recorded(path)


def test_nothing_of_the_watch_is_left(tmp_path: Path, framework: str) -> None:
    def found() -> list[object]:
        return [
            torch.nn.Module.__call__, torch.autograd.backward, torch.amp.GradScaler.step,
            paddle.nn.Layer.__call__, paddle.Tensor.backward, paddle.optimizer.Adam.step,
            paddle.optimizer.Optimizer.__init__, paddle.amp.GradScaler.step,
            len(sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks), sys.meta_path[:],
        ]  # fmt: skip

    before = found()

    recorded(script(tmp_path, framework, LOOP))

    assert found() == before


def test_dropout_can_be_switched_off(tmp_path: Path, framework: str) -> None:
    body = LOOP.replace("model = Net()", "model = Net()\nmodel.drop = nn.Dropout(0.5)")

    path = recorded(script(tmp_path, framework, body), no_dropout=True)

    assert any("dropout was switched off in 1" in note for note in open_dump(path).manifest.notes)
