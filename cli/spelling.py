"""How a program's values, operators, arguments and source lines are written.

All text that comes out of a dump is cut to a length and made printable here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from padiff.comparer.report.escape import printable
from padiff.program import TABLES, Dtype, LeafKind, Opaque, Slice, ValueRef

from .show_text import shape_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.dumpfile import SourceLine
    from padiff.program import Argument, Operator, RecordedProgram, Site


READ_OUT = "->"
"""Keyword of a number that was read out of a tensor."""
MOST_TEXT = 160
"""Characters of the arguments of one operator, or of one name; the rest is left out."""
_SHORT = {"nn.functional.": "F.", "_C_ops.": ""}
"""Parts of names behind the framework's, and how they are written."""
_WORDS = {LeafKind.PARAMETER: "weight"}
"""Words for leaves other than their kind's own."""


class Spelling:
    """Writes the parts of one program."""

    def __init__(self, recorded: RecordedProgram, *, plain: bool) -> None:
        """Prepare for a program."""
        self._recorded, self._plain = recorded, plain
        self._program = recorded.program
        self._table = TABLES.get(self._program.framework)
        self._specs: dict[tuple[str, tuple[int, ...]], str] = {}
        self._operators: dict[str, str] = {}

    def safe(self, text: str) -> str:
        """Return text of a dump, printable and of bounded length."""
        cut = text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + "..."
        return printable(cut, ascii_only=self._plain)

    def value(self, id_: int, module: str = "") -> str:
        """Return the name of a value: that of a leaf, ``%12`` of what an operator made.

        Args:
            id_: Of the value.
            module: Path of the module that reads it: names of its own leaves begin with a dot.
        """
        value = self._program.values[id_]
        if value.kind in {None, LeafKind.RANDOM}:
            return f"%{id_}"
        word = _WORDS.get(value.kind, str(value.kind))
        if value.name:
            path, _, last = value.name.rpartition(".")
            return self.safe(f"{word} {f'.{last}' if module and path == module else value.name}")
        record = self._recorded.records.get(id_)
        is_input = value.kind is LeafKind.INPUT and record is not None and record.role == "input"
        if is_input and record is not None and not record.module:
            return self.safe(f"input{record.slot}")
        return f"{word} %{id_}"

    def spec(self, id_: int) -> str:
        """Return dtype and shape of a value."""
        value = self._program.values[id_]
        key = (value.dtype, value.shape)
        if key not in self._specs:
            self._specs[key] = f"{self.safe(value.dtype)} {shape_text(value.shape)}"
        return self._specs[key]

    def values(self, ids: Sequence[int], module: str = "") -> str:
        """Return the names of values; of very many the first ones."""
        return self._joined(_separated(self.value(id_, module) for id_ in ids))

    def specs(self, ids: Sequence[int]) -> str:
        """Return dtype and shape of each value; of very many of the first ones."""
        return self._joined(_separated(map(self.spec, ids)))

    def operator(self, operator: Operator) -> str:
        """Return the name of an operator without that of the framework."""
        if operator.name not in self._operators:
            self._operators[operator.name] = self._short(operator.name)
        return self._operators[operator.name]

    def _short(self, name: str) -> str:
        framework = f"{self._program.framework}."
        if name.startswith(framework):
            name = name.removeprefix(framework)
            for long, short in _SHORT.items():
                if name.startswith(long):
                    name = short + name.removeprefix(long)
        return self.safe(name)

    def arguments(self, operator: Operator, module: str = "") -> str:
        """Return the arguments of an operator that differ from its defaults."""
        keywords = {key: one for key, one in operator.keywords.items() if key != READ_OUT}
        arguments: list[tuple[str | None, Argument]]
        if self._table is None:
            arguments = [*((None, one) for one in operator.positional), *keywords.items()]
        else:
            arguments = self._table.distinct(operator.name, operator.positional, keywords)
        return self._joined(self._listed(arguments, module))

    def read_out(self, operator: Operator) -> str:
        """Return the number that an operator read out of a tensor, empty if none."""
        if READ_OUT not in operator.keywords:
            return ""
        return self._joined(self._tokens(operator.keywords[READ_OUT], ""))

    def site(self, site: Site | SourceLine | None) -> str:
        """Return a line of the user's code: as much of the file's path as tells it from others."""
        if site is None:
            return ""
        return self.safe(f"{self._files.get(site.file, site.file)}:{site.line}")

    @cached_property
    def _files(self) -> dict[str, str]:
        """The shortest ends of the paths of files that are different."""
        files = {one.site.file for one in self._program.operators if one.site is not None}
        files |= {one.site.file for one in self._recorded.index.calls if one.site is not None}
        ends = Counter(file.rpartition("/")[2] for file in files)
        longer = Counter("/".join(file.split("/")[-2:]) for file in files)
        found = {}
        for file in files:
            last, two = file.rpartition("/")[2], "/".join(file.split("/")[-2:])
            found[file] = last if ends[last] == 1 else two if longer[two] == 1 else file
        return found

    @staticmethod
    def _joined(tokens: Iterator[str]) -> str:
        """Join tokens up to a length; no more of them are made."""
        text = ""
        for token in tokens:
            text += token
            if len(text) > MOST_TEXT:
                return text[:MOST_TEXT] + "..."
        return text

    def _listed(
        self, arguments: Sequence[tuple[str | None, Argument]], module: str
    ) -> Iterator[str]:
        for position, (key, argument) in enumerate(arguments):
            if position:
                yield ", "
            if key is not None:
                yield f"{self.safe(key)}="
            yield from self._tokens(argument, module)

    def _tokens(self, argument: Argument, module: str) -> Iterator[str]:
        """Yield the parts of an argument; they may be very many, and nested up to a limit."""
        if isinstance(argument, tuple):
            yield "("
            yield from self._listed([(None, part) for part in argument[:MOST_TEXT]], module)
            yield ",)" if len(argument) == 1 else ")"
        elif isinstance(argument, Slice):
            yield from self._slice(argument, module)
        elif isinstance(argument, Mapping):
            yield "{"
            yield from self._listed(list(argument.items())[:MOST_TEXT], module)
            yield "}"
        else:
            yield self._single(argument, module)

    def _slice(self, argument: Slice, module: str) -> Iterator[str]:
        parts = [argument.start, argument.stop]
        if argument.step is not None:
            parts.append(argument.step)
        for position, part in enumerate(parts):
            if position:
                yield ":"
            if part is not None:
                yield from self._tokens(part, module)

    def _single(self, argument: Argument, module: str) -> str:
        if isinstance(argument, ValueRef):
            return self.value(argument.id, module)
        if isinstance(argument, Dtype):
            return self.safe(argument.name)
        if isinstance(argument, Opaque):
            return self.safe(argument.text)
        if isinstance(argument, str):
            return self.safe(repr(argument[: MOST_TEXT + 1]))
        return "..." if argument is ... else repr(argument)


def _separated(words: Iterable[str]) -> Iterator[str]:
    for position, word in enumerate(words):
        yield f", {word}" if position else word
