"""The result of a test as one page without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

from .program import program_of
from .text import described, headline

if TYPE_CHECKING:
    from padiff.ops.searching import Tested
    from padiff.ops.table import Operators

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>padiff: {{ title }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
table { border-collapse: collapse } td, th { padding: .1em .8em; text-align: right }
td:first-child, th:first-child { text-align: left }
pre { background: #f4f4f4; overflow-x: auto; padding: .8em }
</style></head><body>
<h1>{{ title }}</h1>
<p>{{ sides }}</p>
{% for one in findings %}<details><summary>{{ one.name }}</summary>
<pre>{{ one.text }}</pre><pre>{{ one.program }}</pre></details>
{% endfor %}
<table><tr><th>operator</th><th>cases</th><th>refused by both</th><th>held against each other</th>
<th>largest error, roundings</th><th>findings</th></tr>
{% for one in operators %}<tr><td>{{ one.operator }}</td><td>{{ one.cases }}</td>
<td>{{ one.rejected }}</td><td>{{ one.compared }}</td><td>{{ "%.1f"|format(one.worst) }}</td>
<td>{{ one.findings|length }}</td></tr>
{% endfor %}</table></body></html>
"""


def to_html(tested: Tested, table: Operators) -> str:
    """Return the page.

    Raises:
        ConfigError: jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise ConfigError(
            "cannot write a page: expected the package jinja2, found none",
            hint="pip install 'padiff-align[html]'",
        ) from error
    frameworks = (tested.reference, tested.candidate)
    findings = [
        {
            "name": finding.bucket.name,
            "text": "\n".join(described(tested, case, finding)),
            "program": program_of(table[case.operator], case, finding, frameworks),
        }
        for one in tested.operators
        for case, finding in one.findings.values()
    ]
    sides = ", ".join(f"{one} {tested.versions.get(one, '')}" for one in frameworks)
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return page.render(
        title=headline(tested), sides=sides, findings=findings, operators=tested.operators
    )
