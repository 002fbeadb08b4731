"""The dumps that a run reads from, packed or not, wherever its settings name them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.dumpfile.packed import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .runsettings import RunSettings


@contextmanager
def opened_sources(settings: RunSettings) -> Iterator[RunSettings]:
    """Unpack the packed dumps that settings name, each once, for as long as the block runs.

    Args:
        settings: What to run. Anything but a packed dump is left as it is.

    Yields:
        The same settings, in which only directories and files of weights are named.

    Raises:
        DumpError: A packed dump does not exist, cannot be read, or finds no room.
    """
    with ExitStack() as exits:
        places: dict[Path, Path] = {}

        def opened(path: Path | None) -> Path | None:
            if path is not None and path not in places:
                places[path] = exits.enter_context(unpacked(path))
            return None if path is None else places[path]

        yield replace(
            settings,
            weights_from=opened(settings.weights_from),
            inputs_from=opened(settings.inputs_from),
            feed=opened(settings.feed),
        )
