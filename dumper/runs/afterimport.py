"""Call back when a module has been imported, whoever imports it."""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class AfterImport(MetaPathFinder):
    """A ``with`` block in which the first import of each named module is told."""

    def __init__(self, names: Iterable[str], callback: Callable[[str], None]) -> None:
        """Keep what to wait for.

        Args:
            names: Top-level modules.
            callback: Gets the name once the module is whole; at once for one that is imported.
        """
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
