"""``padiff map``: write the pairing of two dumps as a map file to edit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.dumpfile import ConfigError

from .command import both_sides, command
from .joblog import defused_json
from .output import check_place, emit, emit_as_it_is, write_text

if TYPE_CHECKING:
    from padiff.comparer.sharding.sides import Sides
    from padiff.pairing.maps.mapfile import MapFile


@command(
    examples="""
    padiff map padiff_dump/torch padiff_dump/paddle -o map.toml
    padiff compare padiff_dump/torch padiff_dump/paddle --map map.toml
    """
)
@both_sides
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
    from padiff.comparer.sharding.sides import Sides  # noqa: PLC0415 -- after the options
    from padiff.dumpfile import open_dump  # noqa: PLC0415
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415
    from padiff.pairing import read_map  # noqa: PLC0415

    _check_place(output, overwrite=overwrite)
    entries = None if map_path is None else read_map(map_path)
    with unpacked(reference) as one, unpacked(candidate) as two:
        over_ranks = () if entries is None else entries.over_ranks
        sides = Sides(open_dump(one), open_dump(two), over_ranks, by_rank=rank is not None)
        place = _first_common(sides, (reference, candidate), step=step, rank=rank)
        text = _paired(sides, place, entries)
    if output is None:
        emit_as_it_is(defused_json(text))
    else:
        write_text(output, text)
        lines = text.splitlines()
        doubtful = sum(line.startswith("# AMBIGUOUS") for line in lines)
        emit(f"map at {output}: {lines.count('[[pair]]')} entries, {doubtful} of them AMBIGUOUS\n")
    return 0


def _first_common(
    sides: Sides, paths: tuple[Path, Path], *, step: int | None, rank: int | None
) -> tuple[int, int]:
    """Return the first step and rank that both dumps have, of those asked for."""
    common = sides.places(0) & sides.places(1)
    wanted = sorted(
        place for place in common if step in (None, place[0]) and rank in (None, place[1])
    )
    if not wanted:
        raise ConfigError(
            f"cannot pair {str(paths[0])!r} and {str(paths[1])!r}: they have no such step and "
            "rank in common",
            hint="padiff show DUMP lists them",
        )
    return wanted[0]


def _paired(sides: Sides, place: tuple[int, int], entries: MapFile | None) -> str:
    """Pair a step of both and write it down."""
    from padiff.pairing import pair  # noqa: PLC0415 -- when needed
    from padiff.pairing.maps.mapwriter import pairing_to_toml  # noqa: PLC0415

    names = (f"{dump.manifest.name} ({dump.manifest.framework})" for dump in sides.dumps)
    title = f"{' = '.join(names)}, written by padiff map"
    run = sides.partners(place, entries)
    with sides.open(place) as (one, two):
        pairing = pair(one, two, map_file=entries, run=run)
        return pairing_to_toml(pairing, one, two, title=title)


def _check_place(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a place for the file before the long work, not after it."""
    if path is None:
        return
    check_place(path)
    if path.exists() and not overwrite:
        raise ConfigError(f"cannot write {str(path)!r}: it exists", hint="--overwrite replaces it")
