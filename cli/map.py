"""``padiff map``: write the pairing of two dumps as a map file to edit."""

from __future__ import annotations

from pathlib import Path

import click

from padiff.dumpfile import ConfigError, open_dump

from .joblog import defused_json
from .output import emit_as_it_is, write_text

__all__ = ["map_modules"]


@click.command()
@click.argument("reference", type=click.Path(path_type=Path))
@click.argument("candidate", type=click.Path(path_type=Path))
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write to this file."
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@click.option(
    "--map",
    "map_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Map file (TOML) whose entries come first.",
)
@click.option("--step", type=click.IntRange(min=0), help="Pair this step. [default: first common]")
@click.option("--rank", type=click.IntRange(min=0), help="Pair this rank. [default: first common]")
def map_modules(
    reference: Path,
    candidate: Path,
    *,
    output: Path | None,
    overwrite: bool,
    map_path: Path | None,
    step: int | None,
    rank: int | None,
) -> int:
    """Write which module of CANDIDATE is which of REFERENCE as a map file.

    Each entry says how the pair was found, how sure it is and what else it could be. Edit what is
    wrong, and give the file to padiff compare, padiff dump --weights-from or padiff weights with
    --map. Without -o it goes to stdout.
    """
    from padiff.pairing import pair, read_map  # noqa: PLC0415 -- when needed
    from padiff.pairing.maps.mapwriter import pairing_to_toml  # noqa: PLC0415

    _check_place(output, overwrite=overwrite)
    entries = None if map_path is None else read_map(map_path)
    known, found = open_dump(reference), open_dump(candidate)
    common = {(info.step, info.rank) for info in known.files} & {
        (info.step, info.rank) for info in found.files
    }
    wanted = sorted(
        place for place in common if step in (None, place[0]) and rank in (None, place[1])
    )
    if not wanted:
        raise ConfigError(
            f"cannot pair {str(reference)!r} and {str(candidate)!r}: they have no such step and "
            "rank in common",
            hint="padiff show DUMP lists them",
        )
    title = f"{known.manifest.name} ({known.manifest.framework}) = {found.manifest.name} ("
    title += f"{found.manifest.framework}), written by padiff map"
    with known.open(*wanted[0]) as one, found.open(*wanted[0]) as two:
        text = pairing_to_toml(pair(one, two, map_file=entries), one, two, title=title)
    if output is None:
        emit_as_it_is(defused_json(text))
    else:
        write_text(output, text)
    return 0


def _check_place(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a place for the file before the long work, not after it."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"cannot write {str(path)!r}: expected a file name in an existing folder")
    if path.exists() and not overwrite:
        raise ConfigError(f"cannot write {str(path)!r}: it exists", hint="--overwrite replaces it")
