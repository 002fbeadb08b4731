"""How much of each value a dump keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from .errors import ConfigError
from .sampling import DEFAULT_SAMPLE, LARGEST_SAMPLE
from .schema import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What is written of every value, and of how many positions if only some."""

    content: Content = Content.FULL
    operators: bool = False
    """Whether every operator's outcome is kept as much as the tensors that modules take and give;
    else digest and statistics of it are."""
    program: bool = False
    """Whether the elements of what no candidate has are kept beside a content that keeps none: of
    inputs, constants and drawn numbers. With the program all others can be computed again."""
    sample: int = DEFAULT_SAMPLE
    """Positions that content ``sample`` draws of either family, see ``sampling.py``."""

    def __post_init__(self) -> None:
        """Refuse a number of positions that no reader takes.

        Raises:
            ConfigError: It is below 1, or too large.
        """
        if not 1 <= self.sample <= LARGEST_SAMPLE:
            raise ConfigError(
                f"cannot sample {self.sample} elements: expected 1 to {LARGEST_SAMPLE}",
                hint="a larger sample is no saving: record with `--content full`",
            )

    def for_replica(self, *, has_program: bool) -> Keep:
        """Return what is kept by a process whose elements another one keeps.

        Digests, statistics, and elements of what its program began with; activations follow from
        these and the weights.
        """
        content = min(self.content, Content.STATS, key=lambda one: one.rank)
        return Keep(content=content, program=has_program and content is Content.STATS)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what ``--content`` takes: a level of ``Content``, ``operators`` or ``program``.

        A sample may have its size, as in ``sample=4096``. ``operators`` is ``full`` for every
        operator's outcome, too; ``program`` is ``stats`` with elements of what no candidate has.

        Raises:
            ConfigError: It is none of these.

        >>> Keep.parse("sample=256").sample
        256
        """
        if text == "operators":
            return cls(operators=True)
        if text == "program":
            return cls(content=Content.STATS, program=True)
        word, equals, number = text.partition("=")
        is_number = number.isascii() and number.isdigit()
        if word not in tuple(Content) or (equals and (word != Content.SAMPLE or not is_number)):
            raise ConfigError(
                f"cannot keep {text!r}: expected operators, full, sample=NUMBER, program, stats "
                "or digest"
            )
        return cls(content=Content(word), sample=int(number) if equals else DEFAULT_SAMPLE)

    def __str__(self) -> str:
        """Return the text form; ``Keep.parse`` reads it back."""
        if self.operators:
            return "operators"
        if self.program:
            return "program"
        is_sample = self.content is Content.SAMPLE
        return f"{self.content}={self.sample}" if is_sample else str(self.content)
