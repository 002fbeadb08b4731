"""Run someone's training script as ``python`` would, and record the model that it trains."""

from __future__ import annotations

import importlib.util
import random
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.abc import Loader, MetaPathFinder
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumper import adapters
from padiff.dumpfile import ConfigError, RecordError

from .beforehand import check_place, check_sources
from .scriptmodel import Choice
from .scriptwatch import ScriptStopped, ScriptWatch
from .sources import opened_sources
from .usercode import UserCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from importlib.machinery import ModuleSpec
    from pathlib import Path

    from padiff.dumper.recording.recordsettings import RecordSettings

    from .runsettings import RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSettings:
    """One ``padiff dump --script``."""

    script: Path
    arguments: tuple[str, ...] = ()
    """What the script finds in ``sys.argv[1:]``."""
    record: RecordSettings
    choice: Choice = field(default_factory=Choice)
    """Which of the script's models is recorded."""
    stop: bool = False
    """End the script after the last recorded step."""
    seed: int | None = None
    """Seed Python and numpy before the script, and each framework once it is imported; None
    leaves that to the script."""
    no_dropout: bool = False
    given: RunSettings | None = None
    """Sources of weights, inputs and outputs that the model gets in place of the script's."""
    command: tuple[str, ...] = ()
    """The command line, for the manifest."""

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: No such script, or nothing says which step is the last.
        """
        if not self.script.is_file():
            raise ConfigError(f"cannot run the script {str(self.script)!r}: no such file")
        if self.stop and self.record.plan.last is None:
            raise ConfigError(
                "cannot stop after the last recorded step: --every names none",
                hint="name the steps: --steps 0,100",
            )


def run_script(settings: ScriptSettings) -> Path:
    """Run the script to its end, or to the last recorded step, and give the finished dump.

    ``sys.argv``, ``sys.path[0]`` and ``__main__`` are the script's while it runs.

    Raises:
        ConfigError: No model of the script is the one asked for, or it is never trained.
        RecordError: The script raised, which is the ``__cause__``, or ended with an exit status
            other than 0. Whole steps are kept beside the dump's place.
    """
    check_place(settings.record)
    if settings.given is None:
        return _watched(settings, None)
    check_sources(settings.given)
    with opened_sources(settings.given) as given:
        return _watched(settings, _absolute(given))


def _absolute(given: RunSettings) -> RunSettings:
    """Return the same sources by absolute paths, since scripts change folders."""
    names = ("weights_from", "inputs_from", "feed", "map_file")
    paths = {name: getattr(given, name) for name in names}
    return replace(given, **{name: path and path.absolute() for name, path in paths.items()})


def _watched(settings: ScriptSettings, given: RunSettings | None) -> Path:
    watch = ScriptWatch(
        replace(settings.record, out=settings.record.out.absolute()),  # scripts change folders
        settings.choice,
        stop=settings.stop,
        seed=settings.seed,
        no_dropout=settings.no_dropout,
        given=given,
    )
    watch.describe(command=settings.command, script=settings.script.name)
    code = _compiled(settings.script)
    if settings.seed is not None:
        random.seed(settings.seed)
        np.random.seed(settings.seed)  # noqa: NPY002 - the generator that scripts draw from
    with watch, _as_main(settings) as namespace:
        with AfterImport(adapters.names(), watch.framework_imported), _ending(settings.script):
            exec(code, namespace)
        return watch.finish()


def _compiled(script: Path) -> CodeType:
    with _ending(script):
        code: CodeType = compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
    return code


@contextmanager
def _as_main(settings: ScriptSettings) -> Iterator[dict[str, object]]:
    """Make the script the main module, with its arguments and its folder importable."""
    script = settings.script
    main = ModuleType("__main__")
    main.__file__ = str(script.absolute())
    main.__dict__["__builtins__"] = __builtins__
    before = sys.modules["__main__"], sys.argv, sys.path[:]
    sys.modules["__main__"] = main
    sys.argv = [str(script), *settings.arguments]
    sys.path[:1] = [str(script.resolve().parent)]
    try:
        yield main.__dict__
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before


@contextmanager
def _ending(script: Path) -> Iterator[None]:
    """Let the script end: by itself, by ``sys.exit``, because it was stopped, or by an error."""
    doing = f"cannot record {script.name!r} to its end"
    try:
        with UserCode(doing):
            yield
    except ScriptStopped as stopped:
        if stopped.__cause__ is not None:
            raise stopped.__cause__ from None
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise RecordError(f"{doing}: it ended with exit status {ended.code!r}") from ended


class AfterImport(MetaPathFinder):
    """A ``with`` block in which the first import of each named module is told."""

    def __init__(self, names: Iterable[str], callback: Callable[[str], None]) -> None:
        """Keep what to wait for."""
        self._names = set(names)
        self._callback = callback

    def __enter__(self) -> AfterImport:
        """Begin to wait."""
        for name in sorted(self._names & set(sys.modules)):
            self._names.discard(name)
            self._callback(name)
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_error: object) -> None:
        """Wait no longer."""
        sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: object, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the others find the module, and put a loader around theirs."""
        del path, target
        if fullname not in self._names:
            return None
        self._names.discard(fullname)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, lambda: self._callback(fullname))
        return spec


class _Loader(Loader):
    """A loader that tells when its module has been executed."""

    def __init__(self, loader: Any, done: Callable[[], None]) -> None:  # noqa: ANN401
        self._loader = loader
        self._done = done

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:  # nobody needs to see this loader
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._done()
