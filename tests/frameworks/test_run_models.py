"""What ``padiff dump`` does around the recorder, on real models of both frameworks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.dumper import RecordSettings
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import ConfigError, DumpExistsError, Phase, RecordError, Role
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

TORCH = """
import torch
from torch import nn
Base, cat, Conv, Norm = nn.Module, torch.cat, nn.Conv2d, nn.BatchNorm2d
argmax = torch.argmax
"""
PADDLE = """
import paddle
from paddle import nn
Base, cat, Conv, Norm = nn.Layer, paddle.concat, nn.Conv2D, nn.BatchNorm2D
argmax = paddle.argmax
"""
MODELS = """
import random
import numpy

class Net(Base):
    def __init__(self, width=4):
        super().__init__()
        self.conv, self.norm, self.drop = Conv(3, width, 3), Norm(width), nn.Dropout(0.5)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.conv(x))).mean([2, 3]))

class Tokens(Base):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 3)

    def forward(self, ids, pair, mask, scale=1.0):
        hidden = self.table(ids) * scale + pair[0] + pair[1]
        return {"hidden": hidden.masked_fill(mask, 0.0), "ids": ids}

class Feed(Base):
    def __init__(self):
        super().__init__()
        self.tokens = Tokens()

    def forward(self, ids, offsets, mask):
        return self.tokens(ids, (offsets, offsets), scale=2.0, mask=mask)

class Plain(Base):
    def forward(self, x):
        return x * 3

class Pick(Base):
    def forward(self, x):
        return argmax(x)

class Draws(Base):
    def __init__(self):
        super().__init__()
        self.python, self.numpy = random.random(), float(numpy.random.rand())

    def forward(self, x):
        return x * self.python * self.numpy

instance = Net()
"""


@pytest.fixture(params=["torch", "paddle"])
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a current directory with a model file of each framework."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "torch_net.py").write_text(TORCH + MODELS)
    (tmp_path / "paddle_net.py").write_text(PADDLE + MODELS)
    np.save(tmp_path / "image.npy", np.random.default_rng(0).random((2, 3, 6, 6)))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.endswith("_net"):
            del sys.modules[name]


def dump(kind: str, attribute: str, *inputs: str, **options: Any) -> Recorded:  # noqa: ANN401
    return Recorded.read(run(settings(kind, attribute, *inputs, **options)))


def settings(kind: str, attribute: str, *inputs: str, **options: Any) -> RunSettings:  # noqa: ANN401
    record = {key: options.pop(key) for key in ("name", "phase", "overwrite") if key in options}
    record.setdefault("name", f"{kind}_{len(list(Path.cwd().glob('dumps/*')))}")
    return RunSettings(
        model=parse_target(f"{kind}_net.py:{attribute}", options.pop("arguments", None)),
        inputs=tuple(parse_input(text) for text in inputs),
        record=RecordSettings(out=Path("dumps"), **record),
        **options,
    )


def test_manifest_says_what_ran(framework: str) -> None:
    manifest = dump(framework, "Net", "image.npy", command=("padiff", "dump")).manifest

    assert (manifest.framework, manifest.seed, manifest.training) == (framework, 0, False)
    assert (manifest.phase, manifest.model) == (Phase.BACKWARD, f"{framework}_net.py:Net")
    assert manifest.command == ("padiff", "dump")
    assert [(item.name, item.dtype, item.shape) for item in manifest.inputs] == [
        ("[0]", "float64", (2, 3, 6, 6))
    ]


def test_equal_seeds_give_equal_weights_and_others_do_not(framework: str) -> None:
    first, second = dump(framework, "Net", "image.npy"), dump(framework, "Net", "image.npy")
    third = dump(framework, "Net", "image.npy", seed=1)

    weights = [
        got.array(Role.WEIGHT, "conv", ".weight").tobytes() for got in (first, second, third)
    ]
    assert weights[0] == weights[1] != weights[2]


def test_seed_reaches_python_and_numpy(framework: str) -> None:
    first, second = dump(framework, "Draws", "image.npy"), dump(framework, "Draws", "image.npy")

    assert first.array(Role.OUTPUT).tobytes() == second.array(Role.OUTPUT).tobytes()


# Paddle says so at each training-mode BatchNorm whose track_running_stats was never named.
@pytest.mark.filterwarnings("ignore:When training, we now always track")
def test_dropout_is_off_unless_train_is_asked_for(framework: str) -> None:
    plain = dump(framework, "Net", "image.npy")
    train = dump(framework, "Net", "image.npy", training=True)

    for got, same in ((plain, True), (train, False)):
        dropped = got.array(Role.OUTPUT, "drop")
        assert np.array_equal(dropped, got.array(Role.INPUT, "drop", "[0]")) is same
    assert train.manifest.training


def test_factory_gets_its_arguments_and_an_instance_works(framework: str) -> None:
    wide = dump(framework, "Net", "image.npy", arguments={"width": 6})
    ready = dump(framework, "instance", "image.npy")

    assert wide.array(Role.OUTPUT, "conv").shape[1] == 6
    assert ready.array(Role.OUTPUT, "conv").shape[1] == 4


def test_floats_take_the_models_dtype(framework: str) -> None:
    single = dump(framework, "Net", "image.npy")
    double = dump(framework, "Net", "image.npy", dtype="float64")

    assert single.array(Role.INPUT, "", "[0]").dtype == np.float32
    assert double.array(Role.OUTPUT).dtype == np.float64
    assert double.manifest.dtype == "float64"


def test_keep_dtype_feeds_floats_as_they_are(framework: str) -> None:
    kept = dump(framework, "Plain", "image.npy", keep_dtype=True)

    assert kept.array(Role.INPUT, "", "[0]").dtype == np.float64


def test_loss_is_the_mean_of_the_outputs_means(framework: str) -> None:
    got = dump(framework, "Net", "image.npy")

    output = got.array(Role.OUTPUT)
    assert got.array(Role.LOSS).dtype == np.float32
    assert got.array(Role.LOSS) == pytest.approx(output.astype(np.float64).mean(), rel=1e-6)
    assert np.allclose(got.array(Role.GRAD_OUTPUT), 1 / output.size)


def feed_inputs() -> tuple[str, str]:
    np.savez("named.npz", ids=np.array([[1, 2]]), offsets=np.ones((1, 2, 3)))
    np.save("mask.npy", np.array([[[1], [0]]], bool))
    return "named.npz", "mask=mask.npy"


def test_npz_and_named_files_go_by_keyword_and_integers_stay(framework: str) -> None:
    named, mask = feed_inputs()

    got = dump(framework, "Feed", named, mask)

    assert got.array(Role.INPUT, "", "['ids']").dtype == np.int64
    assert got.array(Role.INPUT, "", "['offsets']").dtype == np.float32
    assert got.array(Role.INPUT, "", "['mask']").dtype == np.bool_


def test_other_framework_can_be_fed_from_a_dump_alone(framework: str) -> None:
    named, mask = feed_inputs()
    other = {"torch": "paddle", "paddle": "torch"}[framework]
    reference = dump(other, "Feed", named, mask, name="reference")

    got = dump(framework, "Feed", inputs_from=Path("dumps/reference"))

    for slot in ("['ids']", "['offsets']", "['mask']"):
        fed, recorded = got.array(Role.INPUT, "", slot), reference.array(Role.INPUT, "", slot)
        assert (fed.dtype, fed.tobytes()) == (recorded.dtype, recorded.tobytes())


def test_model_without_weights_has_gradients_of_its_inputs(framework: str) -> None:
    got = dump(framework, "Plain", "image.npy")

    assert np.allclose(got.array(Role.GRAD_INPUT, "", "[0]"), 3 / (2 * 3 * 6 * 6))


def test_model_without_floating_output_has_no_backward_and_says_so(framework: str) -> None:
    got = dump(framework, "Pick", "image.npy")

    assert got.manifest.phase is Phase.FORWARD
    assert any("no floating output" in note for note in got.manifest.notes)


def test_phase_forward_has_a_loss_and_no_gradient(framework: str) -> None:
    got = dump(framework, "Net", "image.npy", phase=Phase.FORWARD)

    roles = {record.role for record in got.index.records}
    assert Role.LOSS in roles
    assert not roles & {Role.GRAD_INPUT, Role.GRAD_OUTPUT, Role.WEIGHT_GRAD}


def test_wrong_shape_names_the_module_and_leaves_nothing(framework: str) -> None:
    np.save("wrong.npy", np.zeros((2, 5, 6, 6)))

    with pytest.raises(RecordError, match=r"module 'conv' \(Conv2[dD]\)") as caught:
        dump(framework, "Net", "wrong.npy")

    assert "\n" not in caught.value.message
    assert caught.value.__cause__ is not None
    assert not Path("dumps").exists()


def test_missing_argument_is_an_error_of_the_root(framework: str) -> None:
    with pytest.raises(RecordError, match=r"module '\(root\)' \(Net\).*'x'") as caught:
        dump(framework, "Net")

    assert caught.value.hint == "no --inputs were given"


def test_existing_dump_stays_without_overwrite(framework: str) -> None:
    dump(framework, "Net", "image.npy", name="one")

    with pytest.raises(DumpExistsError):
        dump(framework, "Net", "image.npy", name="one", seed=5)
    assert (
        dump(framework, "Net", "image.npy", name="one", seed=5, overwrite=True).manifest.seed == 5
    )


def test_other_framework_than_asked_for_is_refused(framework: str) -> None:
    other = {"torch": "paddle", "paddle": "torch"}[framework]

    with pytest.raises(ConfigError, match=f"expected a model of {other}, found one of {framework}"):
        dump(framework, "Net", "image.npy", framework=other)


@pytest.mark.parametrize("name", ["y=image.npy", "missing.npy"])
def test_wrong_input_is_refused_before_anything_is_written(framework: str, name: str) -> None:
    with pytest.raises(ConfigError):
        dump(framework, "Net", name)

    assert not Path("dumps").exists()
