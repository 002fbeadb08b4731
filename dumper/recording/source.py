"""Where a class is defined and where a call was made, cheaply: no source is parsed.

Both run once per class or per call while the user's model runs, so classes are cached, files
are classified once, and a call site costs a walk over a few frames.
"""

from __future__ import annotations

import inspect
import linecache
import os
import re
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING

from padiff.dumpfile import SourceLine

if TYPE_CHECKING:
    from collections.abc import Sequence

_OWN_FOLDERS = tuple(
    f"{path}{os.sep}" for path in (Path(__file__).parents[2], Path(__file__).resolve().parents[1])
)
"""Where padiff is imported from, and where this package lies: an editable install links to it."""
_BESIDE = {"flax": ("jax",), "torch": ("keras",)}
"""Packages below and above a framework, whose lines are the framework's, too."""
_ADAPTERS = tuple(
    f"{path.parents[1]}{os.sep}adapters{os.sep}"
    for path in (Path(__file__), Path(__file__).resolve())
)


class Sources:
    """Finds and shortens places in source code during one recording."""

    def __init__(self, framework: str) -> None:
        """Learn which files are the framework's.

        Args:
            framework: A module of the framework; everything in its top package is skipped
                when the user's line is looked for.
        """
        top = framework.partition(".")[0]
        packages = [sys.modules.get(name) for name in (top, *_BESIDE.get(top, ()))]
        folders = [
            str(Path(item)) for package in packages for item in getattr(package, "__path__", ())
        ]
        self._skipped = tuple(folder + "/" for folder in folders)
        self._standard = sysconfig.get_path("stdlib") + "/"
        self._roots = _import_roots(tuple(sys.path), str(Path.cwd()))
        self._working = str(Path.cwd()) + os.sep
        self._is_user_file: dict[str, bool | None] = {}
        """None for files of padiff itself."""
        self._short: dict[str, str] = {}
        self._lines: dict[tuple[int, int], tuple[CodeType, SourceLine]] = {}
        """By code and place in it; code is known by its identity, as to hash it takes long."""
        self._classes: dict[type, SourceLine | None] = {}

    def of_class(self, kind: type) -> SourceLine | None:
        """Return the line of a class statement, None for a class without a source file."""
        if kind not in self._classes:
            self._classes[kind] = self._find_class(kind)
        return self._classes[kind]

    def of_caller(
        self,
        frame: FrameType | None,
        *,
        around: FrameType | None = None,
        known: SourceLine | None = None,
    ) -> SourceLine | None:
        """Return the innermost line outside the framework, the standard library and padiff.

        Returns:
            None where padiff itself, or nothing but the framework, made the call.
        """
        kinds = self._is_user_file
        while frame is not None:
            if frame is around:
                return known
            file = frame.f_code.co_filename
            is_user = kinds[file] if file in kinds else self._is_user(file)
            if is_user:
                return self._line(frame)
            if is_user is None:
                return None
            frame = frame.f_back
        return None

    def _is_user(self, file: str) -> bool | None:
        """Return whether a file is the user's, None for one of padiff."""
        if file.startswith(_ADAPTERS):  # a framework's lines, for padiff
            self._is_user_file[file] = False
            return False
        if file.startswith(_OWN_FOLDERS):
            self._is_user_file[file] = None
            return None
        standard = file.startswith(self._standard) and "-packages" not in file
        made = file.startswith("<") and not file.startswith("<ipython")
        found = not (standard or made or file.startswith(self._skipped))
        self._is_user_file[file] = found
        return found

    def _line(self, frame: FrameType) -> SourceLine:
        code = frame.f_code
        key = id(code), frame.f_lasti
        found = self._lines.get(key)
        if found is None:
            file = self._shorten(code.co_filename)
            line = SourceLine(file=file, line=max(frame.f_lineno, 1), function=code.co_qualname)
            found = self._lines[key] = code, line
        return found[1]

    def _find_class(self, kind: type) -> SourceLine | None:
        functions = [item for item in vars(kind).values() if isinstance(item, FunctionType)]
        codes = [inspect.unwrap(item).__code__ for item in functions]
        own = [code for code in codes if code.co_qualname.startswith(f"{kind.__qualname__}.")]
        module = sys.modules.get(kind.__module__)
        file = own[0].co_filename if own else getattr(module, "__file__", None)
        if not file:
            return None
        first = min((code.co_firstlineno for code in own), default=None)
        line = _class_line(file, kind.__name__, first)
        if line is None:
            return None
        return SourceLine(file=self._shorten(file), line=line, function=kind.__qualname__)

    def _shorten(self, file: str) -> str:
        """Make a path relative to the import root or working directory that holds it."""
        if file not in self._short:
            path = os.path.normpath(file)
            inside = [root for root in self._roots if path.startswith(root)]
            best = max(inside, key=len, default=None)
            if path.startswith(self._working) and "-packages" not in file:
                best = self._working
            short = os.path.basename(path) if best is None else path[len(best) :]  # noqa: PTH119
            self._short[file] = short.replace(os.sep, "/")
        return self._short[file]


@lru_cache(maxsize=4)
def _import_roots(paths: tuple[str, ...], working: str) -> Sequence[str]:
    """Return the folders that modules are imported from, but for the root of the file system."""
    found = {Path(item).resolve() for item in paths if item} | {Path(working)}
    return [str(root) + os.sep for root in found if len(root.parts) > 1]


def _class_line(file: str, name: str, before: int | None) -> int | None:
    """Find the class statement that stands last before the class's first method."""
    pattern = re.compile(rf"\s*class\s+{re.escape(name)}\b")
    lines = linecache.getlines(file)
    # Upwards from the method, which stands near: files of frameworks have thousands of lines.
    places = range(1, len(lines) + 1) if before is None else range(min(before, len(lines)), 0, -1)
    hits = (at for at in places if name in lines[at - 1] and pattern.match(lines[at - 1]))
    return next(hits, before)
