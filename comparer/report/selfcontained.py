"""A page that loads nothing: its parts put into one file, which runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

from .escape import printable
from .numbers import count, number, share
from .wording import describe_dump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.dumpfile import JSON

__all__ = ["render_page", "shown"]

_CELL = 300
"""Characters of a name."""


def render_page(
    template: str,
    *,
    scripts: Sequence[str],
    styles: Sequence[str],
    data: Mapping[str, JSON],
    filters: Mapping[str, Callable[..., object]],
    **facts: object,
) -> str:
    """Return the page: all text is escaped by the template, or set as text by the script.

    Args:
        template: Name of the file below ``page/``; so are those of scripts and styles.
        scripts: Run in their order.
        styles: Later ones win.
        data: What the scripts work on.
        filters: For the template, by name.
        facts: For the template.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    try:
        from jinja2 import (  # noqa: PLC0415 -- an optional dependency
            Environment,
            FunctionLoader,
            StrictUndefined,
        )
    except ImportError as error:
        raise ConfigError(
            "an HTML report needs Jinja2, which is not installed",
            hint="pip install 'padiff-align[html]'",
        ) from error
    from markupsafe import Markup  # noqa: PLC0415 -- comes with jinja2

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        loader=FunctionLoader(_resource),
    )
    environment.filters |= {"shown": shown, "dump": describe_dump, "grouped": count}
    environment.filters |= {"number": number, **filters}
    environment.globals["share"] = share
    script = "\n".join(map(_resource, scripts))
    style = "\n".join(map(_resource, styles))
    return environment.get_template(template).render(
        policy=_policy(script, style),
        style=Markup(style),
        script=Markup(script),
        data=Markup(_embedded(data)),
        **facts,
    )


def shown(text: str) -> str:
    """Return text of a dump as it may stand on a page: harmless, and not too long."""
    found = printable(text, ascii_only=False)
    return found if len(found) <= _CELL else f"{found[:_CELL]}... ({len(found)} characters)"


def _embedded(data: Mapping[str, JSON]) -> str:
    """Give the data as JSON that can stand inside a script element."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _policy(script: str, style: str) -> str:
    """Forbid everything but the one script and the one style sheet of the page."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}'",
            f"style-src '{_digest(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _resource(name: str) -> str:
    place = resources.files("padiff.comparer.report").joinpath("page", name)
    return place.read_text(encoding="utf-8")
