"""Check what needs no framework, before the user's model imports one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import open_dump
from padiff.dumpfile.place import Place, check_folder

from .inputs import InputFile, check_file
from .target import check_target, named_class

if TYPE_CHECKING:
    from padiff.dumper.recording.recordsettings import RecordSettings

    from .runsettings import RunSettings


def check_beforehand(settings: RunSettings) -> None:
    """Check files, dumps, the map and the dump's name; importing a framework takes seconds.

    Args:
        settings: What to run; no dump that it names is packed.

    Raises:
        ConfigError: A file is not there or of no known kind, or the map is wrong.
        DumpError: There is no such dump to read, or the new one cannot be written.
    """
    check_place(settings.record, named_class(settings.model))
    train = settings.train
    for target in (settings.model, train.loss, train.optimizer, train.scheduler):
        if target is not None:
            check_target(target)
    files = [one for one in (*settings.inputs, *train.labels) if isinstance(one, InputFile)]
    steps = range(train.steps)
    for path in dict.fromkeys(file.of_step(step).path for step in steps for file in files):
        check_file(path)
    for file in files:
        file.of_step(0).read()  # those of one step are small, and a damaged one is told at once
    check_sources(settings)


def check_sources(settings: RunSettings) -> None:
    """Check that the dumps, weights and map that settings name are there.

    Raises:
        ConfigError: A file is not there, or of no known kind.
        DumpError: There is no dump.
    """
    for dump in (settings.inputs_from, settings.feed):
        if dump is not None:
            open_dump(dump)
    if settings.weights_from is not None:
        from padiff.dumper.weights.checkpoint import check_source  # noqa: PLC0415 - few runs need it

        check_source(settings.weights_from)
    if settings.map_file is not None:
        from padiff.pairing import read_map  # noqa: PLC0415 - few runs need it

        read_map(settings.map_file)


def check_place(record: RecordSettings, class_name: str | None = None) -> None:
    """Check that a dump can be written where it is to go, as far as its name is known.

    Args:
        record: What is recorded.
        class_name: That of the model, which names a dump that the user did not name.

    Raises:
        DumpError: Something is there that must not be replaced, or nobody may write there.
    """
    name = record.name or class_name
    if name is None:
        check_folder(record.out)
    else:
        Place(record.out / name, overwrite=record.overwrite).check()
