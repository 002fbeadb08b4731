"""A command whose help has options in groups, further pages where they are many, and examples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import cloup
from cloup.formatting import ensure_is_cloup_formatter

Decorated = TypeVar("Decorated", bound="Callable[..., Any]")

_WIDEST = 100
"""Columns of a help page in a terminal that has more."""
_FORMATTER = cloup.HelpFormatter.settings(
    max_width=_WIDEST, col1_max_width=24, col2_min_width=30, col_spacing=2
)


class Command(cloup.Command):
    """A command whose help ends with examples."""

    def __init__(
        self,
        *words: Any,  # noqa: ANN401 -- as click takes them
        examples: str = "",
        pages: Mapping[str, Sequence[str]] | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        """Add an option ``--help-PAGE`` for each further page.

        Args:
            words: As for click's commands.
            examples: Lines that are printed as they are.
            pages: The groups of options that only a further page shows, by its name.
            settings: As for cloup's commands.
        """
        self._examples = inspect.cleandoc(examples)
        self._pages = dict(pages or {})
        further = [_page_option(*page) for page in self._pages.items()]
        settings["params"] = [*settings.get("params", ()), *further]
        super().__init__(*words, formatter_settings=_FORMATTER, **settings)

    def format_params(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups that no further page shows, and the options without a group."""
        elsewhere = {title for titles in self._pages.values() for title in titles}
        groups = [group for group in self.option_groups if group.title not in elsewhere]
        is_only = not self.option_groups
        rest = self.get_default_option_group(ctx, is_the_only_visible_option_group=is_only)
        self._write(ctx, formatter, [*groups, rest])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        del ctx
        if self._examples:
            with formatter.section("Examples"):
                for line in self._examples.splitlines():
                    formatter.write(f"  {line}".rstrip() + "\n")

    def page(self, ctx: click.Context, name: str) -> str:
        """Return the help of one further page."""
        formatter = ctx.make_formatter()
        titles = self._pages[name]
        self.format_usage(ctx, formatter)
        self._write(ctx, formatter, [one for one in self.option_groups if one.title in titles])
        return formatter.getvalue().rstrip("\n")

    def _write(
        self,
        ctx: click.Context,
        formatter: click.HelpFormatter,
        groups: Sequence[cloup.OptionGroup],
    ) -> None:
        """Write groups of options, aligned with each other."""
        sections = [self.make_option_group_help_section(group, ctx) for group in groups]
        ensure_is_cloup_formatter(formatter).write_many_sections(sections)


def _page_option(name: str, titles: Sequence[str]) -> click.Option:
    """Return the option that prints a further page of the help."""

    def show(ctx: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
        if is_wanted and not ctx.resilient_parsing and isinstance(ctx.command, Command):
            click.echo(ctx.command.page(ctx, name))
            ctx.exit()

    return click.Option(
        [f"--help-{name}"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help=f"Show the options about {' and '.join(titles).lower()}.",
    )


def command(
    name: str | None = None,
    *,
    examples: str = "",
    pages: Mapping[str, Sequence[str]] | None = None,
) -> Callable[[Callable[..., Any]], Command]:
    """Return a decorator that makes a command.

    Args:
        name: Of the command; by default the function's.
        examples: Lines that end the help.
        pages: The groups of options that only a further page of the help shows, by its name.
    """
    return cloup.command(name, cls=Command, examples=examples, pages=pages)


def option_group(
    name: str, make: Callable[..., Any], groups: Mapping[str, Sequence[Callable[..., Any]]]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds options to a command.

    Args:
        name: The parameter of the command that takes what is made.
        make: Makes it; its keyword parameters are those of the options.
        groups: Click's decorators by the title that they have in the help, in its order.
    """
    names = list(inspect.signature(make).parameters)

    def grouped(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_group(**given: Any) -> int:  # noqa: ANN401 -- whatever click hands on
            made = make(**{each: given.pop(each) for each in names})
            return command(**{name: made}, **given)

        made: Callable[..., int] = with_group
        for title, options in reversed(tuple(groups.items())):
            made = cloup.option_group(title, *options)(made)
        return made

    return grouped


which_step = click.option(
    "--step", type=click.IntRange(min=0), default=0, show_default=True, help="Which step."
)
which_rank = click.option(
    "--rank", type=click.IntRange(min=0), default=0, show_default=True, help="Which rank."
)
map_option = click.option(
    "--map",
    "map_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Map file (TOML) that says which module is which.",
)


def both_sides(command: Decorated) -> Decorated:
    """Add the arguments REFERENCE and CANDIDATE."""
    for name in ("candidate", "reference"):
        command = click.argument(name, type=click.Path(path_type=Path))(command)
    return command
