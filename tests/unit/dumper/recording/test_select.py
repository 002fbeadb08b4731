"""Which modules the include and exclude patterns choose."""

from __future__ import annotations

import pytest

from padiff.dumper.recording.select import ModuleName, Pattern, Reach, Selection
from padiff.dumpfile import ConfigError

MODULES = [
    ModuleName(path="", classes=("my.Model", "fw.Module")),
    ModuleName(path="encoder", classes=("my.Encoder", "fw.Module")),
    ModuleName(path="encoder.0", classes=("my.Block", "fw.Module")),
    ModuleName(path="encoder.0.linear", classes=("fw.Special", "fw.Linear", "fw.Module")),
    ModuleName(path="head", classes=("fw.Linear", "fw.Module")),
]


def chosen(include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> set[str]:
    return set(Selection.parse(include=include, exclude=exclude).select(MODULES))


def test_without_patterns_everything_is_chosen() -> None:
    assert chosen() == {module.path for module in MODULES}


def test_include_reaches_below_and_keeps_the_root() -> None:
    assert chosen(("encoder.0",)) == {"", "encoder.0", "encoder.0.linear"}


def test_reach_self_and_sublayers() -> None:
    assert chosen(("encoder@self",)) == {"", "encoder"}
    assert chosen(("encoder@sublayers",)) == {"", "encoder.0", "encoder.0.linear"}


def test_type_matches_short_full_and_base_class() -> None:
    assert chosen(("type:Linear@self",)) == {"", "encoder.0.linear", "head"}
    assert chosen(("type:fw.Special",)) == {"", "encoder.0.linear"}
    assert chosen(("type:Enc*@self",)) == {"", "encoder"}


def test_exclude_wins() -> None:
    assert chosen(("encoder",), ("type:Linear",)) == {"", "encoder", "encoder.0"}
    assert chosen((), ("(root)@self",)) == {m.path for m in MODULES} - {""}


def test_pattern_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no module path matches"):
        chosen(("encodr",))


@pytest.mark.parametrize("text", ["", "@self", "type:", "a@below"])
def test_wrong_pattern_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read module pattern"):
        Pattern.parse(text)


def test_pattern_text_is_read() -> None:
    assert Pattern.parse("type:Linear@self") == Pattern(
        glob="Linear", by_class=True, reach=Reach.SELF
    )


def test_depth_counts_from_the_root() -> None:
    selection = Selection(depth=1)

    assert [selection.is_within_depth(m.path) for m in MODULES] == [True, True, False, False, True]
    with pytest.raises(ConfigError):
        Selection(depth=-1)
