"""``padiff.save``: named arrays as a dump, numbered where they are saved again and again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path

from padiff.dumper.recording.named import arrays_of, write_named
from padiff.dumpfile import DumpExistsError

NUMBER = "{n}"
"""What the first free number stands for in a name."""


def save(
    name: str,
    values: Mapping[str, object],
    *,
    out: str | Path = "padiff_dump",
    overwrite: bool = False,
) -> Path:
    """Save named tensors, arrays and numbers as a dump, to be compared like any other.

    ::

        padiff.save("forward_torch", {"logits": logits, "accuracy": 0.761})
        padiff.save("batch_{n}", {"image": image})  # batch_0, batch_1, …

    Args:
        name: Name of the dump; ``{n}`` in it is the first number of which there is no dump.
        values: Tensors of any framework at hand, arrays, numbers, or containers of these.
        out: Directory of all dumps.
        overwrite: Replace an existing dump of that name.

    Returns:
        The dump's directory.

    Raises:
        ConfigError: There is nothing to save, or something that is no number.
        DumpError: The dump cannot be written.
    """
    if NUMBER not in name:
        return write_named(Path(out) / name, [arrays_of(values)], overwrite=overwrite)
    for number in count():
        directory = Path(out) / name.replace(NUMBER, str(number))
        if directory.exists():
            continue
        try:
            return write_named(directory, [arrays_of(values)])
        except DumpExistsError:
            continue  # another process took the number meanwhile
    raise AssertionError("numbers do not end")
