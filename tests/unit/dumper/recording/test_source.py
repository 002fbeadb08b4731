"""Lines of classes and call sites."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from padiff.dumper.recording.source import Sources
from padiff.dumpfile import SourceLine


@dataclass
class Decorated:
    value: int = 0

    def method(self) -> int:
        return self.value


class Empty:
    pass


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(at for at, line in enumerate(lines, 1) if line.startswith(text))


def test_class_line_is_that_of_the_statement() -> None:
    sources = Sources("builtins")

    for kind in (Decorated, Empty):
        found = sources.of_class(kind)

        assert found is not None
        assert found.line == line_of(f"class {kind.__name__}")
        assert found.file == "tests/unit/dumper/recording/test_source.py"
        assert found.function == kind.__name__


def test_built_in_class_has_no_line() -> None:
    assert Sources("builtins").of_class(int) is None


def test_caller_is_the_innermost_user_line() -> None:
    found = Sources("builtins").of_caller(sys._getframe())

    assert found is not None
    assert found.file == "tests/unit/dumper/recording/test_source.py"
    assert found.function == "test_caller_is_the_innermost_user_line"


def test_line_of_the_call_around_is_taken_over_where_no_users_line_lies_between() -> None:
    sources = Sources("builtins")
    here = sys._getframe()
    around = SourceLine(file="model.py", line=7)

    assert sources.of_caller(here, around=here, known=around) is around


def test_users_line_before_the_call_around_is_taken() -> None:
    sources = Sources("builtins")
    around = sys._getframe()

    def inner() -> SourceLine | None:
        return sources.of_caller(sys._getframe(), around=around)

    inside = inner()
    assert inside is not None
    assert inside.function.endswith("inner")


def test_frames_of_the_standard_library_are_passed_over() -> None:
    sources = Sources("builtins")
    found: list[SourceLine | None] = []

    def note(_: re.Match[str]) -> str:
        found.append(sources.of_caller(sys._getframe(1)))
        return ""

    re.sub("a", note, "a")

    assert len(found) == 1
    assert found[0] is not None
    assert found[0].function == "test_frames_of_the_standard_library_are_passed_over"
