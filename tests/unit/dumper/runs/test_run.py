"""Settings of a run, what a failed run says, and inputs taken from a dump; no framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from padiff.dumper import RecordSettings
from padiff.dumper.runs.inputs import InputFile
from padiff.dumper.runs.replay import Recorded, inputs_of, parse_slot
from padiff.dumper.runs.runsettings import RunSettings
from padiff.dumper.runs.target import Target
from padiff.dumper.runs.usercode import UserCode, describe
from padiff.dumpfile import ConfigError, DumpNotFoundError, RecordError
from tests.support.dumps import DumpBuilder

IDS = np.arange(3)
MASK = np.ones((2, 2), bool)


@pytest.mark.parametrize(
    "options",
    [
        {"inputs": (InputFile(path=Path("x.npy")),), "inputs_from": Path("dump")},
        {"map_file": Path("map.json")},
        {"seed": -1},
        {"seed": 2**32},
    ],
)
def test_contradicting_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="cannot use"):
        RunSettings(
            model=Target(place="net.py", attribute="build"), record=RecordSettings(), **options
        )


# -- what the user's code raises


def test_users_exception_becomes_a_record_error_that_keeps_it() -> None:
    expected = "cannot run forward: it raised KeyError"
    with pytest.raises(RecordError, match=expected) as caught, UserCode("cannot run forward"):
        raise KeyError("x")

    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [ConfigError("wrong"), KeyboardInterrupt(), SystemExit(3)])
def test_own_errors_and_interruptions_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, UserCode("cannot run forward"):
        raise error

    assert caught.value is error


def test_translation_wins() -> None:
    better = ConfigError("better")

    with pytest.raises(ConfigError) as caught, UserCode("worse", translate=lambda _: better):
        raise ValueError

    assert caught.value is better


def test_long_message_is_told_by_its_first_line_that_says_something() -> None:
    paddle_like = ValueError(
        "\n\n--------------\nC++ Traceback\n--------------\n0 conv2d_ad_func\n"
        "(InvalidArgument) expected 4-D\n  [Hint: dims]"
    )

    assert describe(paddle_like) == "ValueError: (InvalidArgument) expected 4-D"
    assert describe(RuntimeError("one\ntwo")) == "RuntimeError: one"
    assert describe(StopIteration()) == "StopIteration"


# -- inputs taken from a dump


@pytest.mark.parametrize(
    ("slot", "parts"),
    [
        ("", ()),
        ("[0]", (0,)),
        ("['mask']", ("mask",)),
        ("[1][12]['a']", (1, 12, "a")),
        ('["it\'s"]', ("it's",)),
        (r"['a\\b']", ("a\\b",)),
    ],
)
def test_slot_is_taken_apart(slot: str, parts: tuple[int | str, ...]) -> None:
    assert parse_slot(slot) == parts


@pytest.mark.parametrize("slot", ["x", "[0", "[-1]", ".field", "['a", "[0].x"])
def test_slot_that_cannot_be_followed_is_refused(slot: str) -> None:
    with pytest.raises(ValueError, match="cannot follow"):
        parse_slot(slot)


def root_call(inputs: dict[str, Any], literals: dict[str, Any] | None = None) -> DumpBuilder:
    built = DumpBuilder().module("", "Net")
    return built.enter("", inputs=inputs, literals=literals).leave(outputs=[IDS])


def test_arguments_come_back_in_their_form(tmp_path: Path) -> None:
    built = root_call(
        {"[0]": IDS, "[1][0]": MASK, "[1][1]": IDS, "['extra']['m']": MASK},
        {"input[2]": 0.5, "input['flag']": None, "output[0]": 1},
    )

    inputs = inputs_of(built.write(tmp_path / "dump"))

    first, pair, scale = inputs.positional
    assert isinstance(first, Recorded)
    assert first.array.dtype == IDS.dtype
    assert np.array_equal(pair[0].array, MASK)
    assert scale == 0.5
    assert inputs.keywords["flag"] is None
    assert np.array_equal(inputs.keywords["extra"]["m"].array, MASK)
    assert sorted(inputs.keywords) == ["extra", "flag"]


@pytest.mark.parametrize(
    ("inputs", "literals"),
    [
        ({"[1]": IDS}, {}),
        ({"[0].field": IDS}, {}),
        ({"[0]": IDS}, {"input['cache']": "<transformers.DynamicCache>"}),
    ],
)
def test_arguments_that_a_dump_does_not_hold_are_refused(
    tmp_path: Path, inputs: dict[str, Any], literals: dict[str, Any]
) -> None:
    dump = root_call(inputs, literals).write(tmp_path / "dump")

    with pytest.raises(ConfigError, match="cannot feed the inputs"):
        inputs_of(dump)


def test_dump_without_root_call_is_refused(tmp_path: Path) -> None:
    built = DumpBuilder().module("", "Net").module("inner", "Linear")
    dump = built.call("inner", inputs=[IDS], outputs=[IDS]).write(tmp_path / "dump")

    with pytest.raises(ConfigError, match="no call of the root"):
        inputs_of(dump)


def test_missing_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpNotFoundError):
        inputs_of(tmp_path / "nothing")
