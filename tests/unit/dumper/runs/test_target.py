"""What ``--model`` and ``--model-arg`` accept, without any framework."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from padiff.dumper.runs.target import (
    Target,
    build,
    import_target,
    near_names,
    parse_arguments,
    parse_target,
)
from padiff.dumpfile import ConfigError, RecordError

if TYPE_CHECKING:
    from pathlib import Path


class Model:
    """Stands for a framework's module."""

    def __init__(self, width: int = 1) -> None:
        self.width = width


def is_model(thing: object) -> bool:
    return isinstance(thing, Model)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_target_splits_at_the_last_colon() -> None:
    target = parse_target("C:/nets/model.py:inner.build")

    assert (target.place, target.attribute) == ("C:/nets/model.py", "inner.build")
    assert target.is_file


@pytest.mark.parametrize("text", ["model.py", "model:", ":build", "", "C:/nets/model.py"])
def test_target_without_one_half_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="MODULE:ATTR"):
        parse_target(text)


def test_arguments_are_json() -> None:
    assert parse_arguments(["n=3", 'name="a=b"', "flag=null"]) == {
        "n": 3,
        "name": "a=b",
        "flag": None,
    }


@pytest.mark.parametrize("words", [["n"], ["n=x"], ["=1"], ["n=1", "n=2"]])
def test_wrong_argument_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError):
        parse_arguments(words)


def test_file_is_imported_with_its_folder_and_the_current_one(folder: Path) -> None:
    (folder / "beside_cwd.py").write_text("A = 1\n")
    inner = folder / "inner"
    inner.mkdir()
    (inner / "beside_file.py").write_text("B = 2\n")
    (inner / "net.py").write_text(
        "from beside_cwd import A\nfrom beside_file import B\ndef build(): return A + B\n"
    )

    found = import_target(parse_target("inner/net.py:build"))

    assert found() == 3


def test_file_named_like_a_loaded_module_does_not_replace_it(folder: Path) -> None:
    (folder / "json.py").write_text("x = 5\n")
    import json  # noqa: PLC0415 - the module that must stay

    found = import_target(parse_target("json.py:x"))

    assert found == 5
    assert sys.modules["json"] is json


def test_module_in_the_current_directory_is_importable(folder: Path) -> None:
    (folder / "some_net.py").write_text("class Box:\n    thing = 7\n")

    assert import_target(parse_target("some_net:Box.thing")) == 7


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("some_nett:build", "some_net"),
        ("some_net.py:buidl", "build"),
        ("some_net:buidl", "build"),
        ("some_nett.py:build", "some_net.py"),
    ],
)
def test_wrong_name_gets_the_near_ones(folder: Path, text: str, hint: str) -> None:
    (folder / "some_net.py").write_text("def build(): ...\n")

    with pytest.raises(ConfigError) as caught:
        import_target(parse_target(text))

    assert hint in (caught.value.hint or "")
    assert "\n" not in caught.value.message


def test_missing_framework_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paddle", None)
    (folder / "needs.py").write_text(
        "try:\n    import paddle\nexcept ModuleNotFoundError as e:\n"
        "    raise ModuleNotFoundError('no', name='paddle')\n"
    )

    with pytest.raises(ConfigError) as caught:
        import_target(parse_target("needs.py:build"))

    assert caught.value.hint == "pip install 'padiff-align[paddle]'"


def test_module_that_raises_is_the_users_error_with_its_traceback(folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0\n")

    with pytest.raises(RecordError, match="ZeroDivisionError") as caught:
        import_target(parse_target("broken.py:build"))

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "broken" not in sys.modules


TARGET = Target(place="net", attribute="build")
WITH_WIDTH = Target(place="net", attribute="build", arguments={"width": 4})


def test_factory_and_class_get_the_arguments() -> None:
    def factory(width: int) -> Model:
        return Model(width)

    assert build(WITH_WIDTH, factory, is_model=is_model).width == 4
    assert build(WITH_WIDTH, Model, is_model=is_model).width == 4


def test_instance_is_taken_as_it_is_and_takes_no_arguments() -> None:
    model = Model()

    assert build(TARGET, model, is_model=is_model) is model
    with pytest.raises(ConfigError):
        build(WITH_WIDTH, model, is_model=is_model)


def test_argument_that_the_factory_lacks_gets_the_near_one() -> None:
    wrong = Target(place="net", attribute="build", arguments={"widht": 4})

    with pytest.raises(ConfigError) as caught:
        build(wrong, Model, is_model=is_model)

    assert "width" in (caught.value.hint or "")


@pytest.mark.parametrize("found", [3, None, lambda: None, lambda: 3])
def test_what_is_or_returns_no_model_is_refused(found: object) -> None:
    with pytest.raises(ConfigError, match="as a model"):
        build(TARGET, found, is_model=is_model)


def test_factory_that_raises_keeps_the_users_exception() -> None:
    def factory() -> Model:
        raise KeyError("weights")

    with pytest.raises(RecordError, match=r"net:build.*KeyError") as caught:
        build(TARGET, factory, is_model=is_model)

    assert isinstance(caught.value.__cause__, KeyError)


def test_near_names_lists_some_if_none_is_near() -> None:
    assert near_names("zzz", ["abc", "def"]) == "there is 'abc', 'def'"
    assert near_names("zzz", []) is None
