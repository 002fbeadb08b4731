"""The members that docs/python.md promises of every result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from padiff.presenting import Presented

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ask_every_member"]

MOST_LINES = 20


def ask_every_member(result: Any, folder: Path, *, is_good: bool) -> None:  # noqa: ANN401
    """Ask a result for all that docs/python.md promises of every result."""
    assert issubclass(type(result), Presented)
    assert 0 < len(repr(result).splitlines()) <= MOST_LINES
    assert "<details>" in result._repr_html_()
    assert len(result.report(max_rows=1, verbose=False, width=80)) > 0
    assert result.report() == result.report(max_rows=40)
    assert result.to_html(str(folder / "pages" / "page.html")).stat().st_size > 200
    assert result.to_json(str(folder / "pages" / "page.json")).stat().st_size > 2
    assert len(result.to_dataframe().columns) > 5

    if is_good:
        assert result.first is None
        assert result.origins == ()
    else:
        assert result.first in result.origins
        assert result.first == result.origins[0]
        for one in result.origins:
            assert "\n" not in repr(one)
            assert isinstance(one.module, str)
            assert isinstance(one.source, str)
            assert isinstance(one.cause, str)
