"""Recording scripts that know nothing of padiff: what only Paddle has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.dumpfile import Phase, Role, open_dump
from tests.support.recording import Recorded
from tests.support.scripts import recorded, script

if TYPE_CHECKING:
    from pathlib import Path

FIT = """
net = Net()
model = paddle.Model(net)
model.prepare(paddle.optimizer.AdamW(0.01, parameters=net.parameters()), nn.CrossEntropyLoss())
data = paddle.io.TensorDataset([ones(6, 3), paddle.zeros([6, 1], "int64")])
model.fit(data, data, epochs=1, batch_size=2, verbose=0)
"""


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_fit_of_the_high_level_interface(tmp_path: Path) -> None:
    path = recorded(script(tmp_path, "paddle", FIT))

    assert [info.step for info in open_dump(path).files] == [0, 1, 2]
    got = Recorded.read(path, 2)
    assert got.calls() == ["#0", "a#0", "b#0"]
    assert got.array(Role.LOSS).shape == ()
    assert got.manifest.phase is Phase.UPDATE


MINIMIZE = """
model = Net()
optimizer = sgd(model)
for step in range(2):
    loss = model(ones(4, 3)).mean()
    loss.backward()
    optimizer.minimize(loss)
    model.clear_gradients()
"""


def test_minimize_is_an_update(tmp_path: Path) -> None:
    path = recorded(script(tmp_path, "paddle", MINIMIZE))

    assert [info.step for info in open_dump(path).files] == [0, 1]
    assert Recorded.read(path).array(Role.LR) == pytest.approx(0.1)


@pytest.mark.filterwarnings("ignore:Tensor do not have .place. interface")
def test_compiled_model_is_recorded_eagerly_and_runs_compiled_elsewhere(tmp_path: Path) -> None:
    body = f"""
model = paddle.jit.to_static(Net(), full_graph=True)
optimizer = sgd(model)
translator = paddle.jit.dy2static.program_translator.ProgramTranslator()
for step in range(3):
    loss = model(ones(4, 3)).mean()
    note({str(tmp_path / "seen")!r}, str(int(translator.enable_to_static)))
    loss.backward()
    optimizer.step()
    clear(optimizer)
"""
    path = recorded(script(tmp_path, "paddle", body), steps=(1,))

    assert Recorded.read(path, 1).calls() == ["#0", "a#0", "b#0"]
    assert (tmp_path / "seen").read_text() == "101"


PIPELINE = """
from paddle.distributed.fleet.meta_parallel.pipeline_parallel import PipelineParallel


class Stages(Net):  # what a PipelineLayer is to train_batch
    _loss_fn = (lambda output, label: (output - label).mean(),)


class OneProcess(PipelineParallel):
    def __init__(self, layers):
        nn.Layer.__init__(self)
        self._layers = layers

    def _prepare_training(self, data, optimizer, lr_scheduler):
        self.optimizer = optimizer
        return data

    def forward_backward_pipeline(self, data, scaler, **_):
        total = 0.0
        for inputs, labels in data:
            hidden = self._layers.a(inputs)
            loss = self._layers._loss_fn[0](self._layers.b(hidden), labels) / len(data)
            loss.backward()
            total += float(loss)
        return total

    def _optimizer_step(self):
        self.optimizer.step()
        self.optimizer.clear_grad()


model = OneProcess(Stages())
optimizer = sgd(model)
for step in range(2):
    model.train_batch([(ones(2, 3), ones(2, 2)), (ones(2, 3), ones(2, 2))], optimizer)
"""


def test_batch_of_a_pipeline_is_a_step(tmp_path: Path) -> None:
    path = recorded(script(tmp_path, "paddle", PIPELINE))

    dump = open_dump(path)
    assert [info.step for info in dump.files] == [0, 1]
    assert dump.manifest.model_class == "__main__.Stages"
    got = Recorded.read(path, 1)
    assert got.calls() == ["a#0", "b#0", "a#1", "b#1"]
    assert got.array(Role.WEIGHT_GRAD, "b", ".bias") == pytest.approx(0.5)
    assert got.manifest.phase is Phase.UPDATE
