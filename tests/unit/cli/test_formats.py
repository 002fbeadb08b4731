"""Which reports are written, and what is made for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from padiff.cli.formats import Wanted

if TYPE_CHECKING:
    import pytest


def _refuse() -> NoReturn:
    raise AssertionError("nobody asked for JSON")


def test_no_json_is_made_where_only_the_text_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    Wanted().write(_refuse, lambda: "they match\n")

    assert capsys.readouterr().out == "they match\n"
