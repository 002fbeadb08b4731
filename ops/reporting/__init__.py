"""What a test found, in several formats, and each finding as a program to run."""

from __future__ import annotations

from .html import to_html
from .json_report import to_json
from .junit import to_junit
from .program import array_text, call_text, literal, made_lines, program_of
from .text import described, headline, said_lines, shown, to_text

__all__ = [
    "array_text",
    "call_text",
    "described",
    "headline",
    "literal",
    "made_lines",
    "program_of",
    "said_lines",
    "shown",
    "to_html",
    "to_json",
    "to_junit",
    "to_text",
]
