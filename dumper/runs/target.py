"""Find the model that the user named: ``MODULE:ATTR`` or ``FILE.py:ATTR``, with its arguments."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import json
import pkgutil
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.dumper import adapters
from padiff.dumpfile import JSON, ConfigError

from .usercode import UserCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import ModuleType

    from padiff.dumpfile import PadiffError

FRAMEWORK_EXTRAS = {
    "torch": "torch",
    "paddle": "paddle",
    "mindspore": "mindspore",
    "jax": "jax",
    "flax": "jax",
}
"""Modules that a user's file may fail to import, and the extra of padiff that brings each."""

_LOADED_BY = {
    ".pt2": "torch.export.load",
    ".pt": "torch.jit.load",
    ".pth": "torch.jit.load",
    ".mindir": "",
}
"""What gives the model in files of these suffixes; empty where nothing gives one of modules."""
MOST_NAMES = 10
"""How many known names a hint lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a model, its class or its factory is, and what the factory is called with."""

    place: str
    """A module's dotted name, or the path of a Python file."""
    attribute: str
    """Dotted name within the module."""
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    """Keyword arguments of the factory or class."""
    noun: str = "model"
    """What it is to the user, for messages."""

    @property
    def is_file(self) -> bool:
        """Return whether ``place`` is a path."""
        return self.place.endswith(".py")

    def __str__(self) -> str:
        """Return what the user wrote."""
        return f"{self.place}:{self.attribute}"


def parse_target(
    text: str, arguments: Mapping[str, JSON] | None = None, *, noun: str = "model"
) -> Target:
    """Read ``MODULE:ATTR`` or ``FILE.py:ATTR``.

    Raises:
        ConfigError: One of the two halves is missing.
    """
    place, colon, attribute = text.rpartition(":")
    if not colon and Path(text).suffix in _LOADED_BY:
        raise ConfigError(
            f"cannot use file {text!r} as a {noun}: expected MODULE:ATTR, FILE.py:ATTR or "
            "FILE.onnx",
            hint=_load_hint(text),
        )
    if not colon or not place or not attribute or attribute.endswith(".py"):
        raise ConfigError(
            f"cannot read {noun} {text!r}: expected MODULE:ATTR or FILE.py:ATTR",
            hint="name a factory, class or instance after a colon, such as model.py:build",
        )
    return Target(place=place, attribute=attribute, arguments=dict(arguments or {}), noun=noun)


def _load_hint(text: str) -> str:
    """Describe how the model in a file becomes one that can be named."""
    loader = _LOADED_BY[Path(text).suffix]
    if not loader:
        return "record the Cell that it was exported from"
    return f"write model.py with: def build(): return {loader}({text!r}) and name model.py:build"


def parse_arguments(words: Sequence[str]) -> dict[str, JSON]:
    """Read ``key=JSON`` words into keyword arguments.

    Raises:
        ConfigError: A word has no key, its value is no JSON, or a key comes twice.
    """
    arguments: dict[str, JSON] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(f"cannot read model argument {word!r}: expected key=JSON")
        if key in arguments:
            raise ConfigError(f"cannot use model argument {key!r}: it is given twice")
        try:
            arguments[key] = json.loads(value)
        except ValueError as error:
            raise ConfigError(
                f"cannot read model argument {word!r}: {value!r} is no JSON",
                hint=f"""quote text for JSON and for the shell: '{key}="{value}"'""",
            ) from error
    return arguments


def near_names(name: str, known: Iterable[str]) -> str | None:
    """Return a hint that lists the known names nearest to a wrong one, None without any."""
    candidates = sorted(set(known))
    near = difflib.get_close_matches(name, candidates, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if candidates:
        more = ", …" if len(candidates) > MOST_NAMES else ""
        return f"there is {', '.join(map(repr, candidates[:MOST_NAMES]))}{more}"
    return None


@contextmanager
def each_file_once() -> Iterator[None]:
    """Load a file once for all targets that are in it: they share its classes and its state."""
    token = _loaded.set({})
    try:
        yield
    finally:
        _loaded.reset(token)


_loaded: ContextVar[dict[Path, ModuleType] | None] = ContextVar("loaded", default=None)
"""Files that were loaded, where each is loaded once."""


def import_target(target: Target) -> Any:  # noqa: ANN401 - whatever the user has there
    """Import what the target names, with the current directory importable as with ``python``.

    Raises:
        ConfigError: There is no such file, module or attribute, or the framework is missing.
        RecordError: The user's module raised while it was imported.
    """
    _make_importable(str(Path.cwd()))
    module = _import_file(target) if target.is_file else _import_module(target)
    found: Any = module
    for part in target.attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            known = [
                name
                for name in dir(found)
                if not name.startswith("_") and not inspect.ismodule(getattr(found, name, None))
            ]
            raise ConfigError(
                f"cannot load {target.noun} {str(target)!r}: {target.place!r} has no {part!r}",
                hint=near_names(part, known),
            ) from error
    return found


def build(
    target: Target,
    found: Any,  # noqa: ANN401 - whatever the user has there
    *,
    is_model: Callable[[object], bool],
) -> Any:  # noqa: ANN401 - a model of any framework
    """Return the model: the thing found itself, or what it returns when it is called.

    Raises:
        ConfigError: It is no model and cannot be called, its arguments do not fit, or it
            returned something else than a model.
        RecordError: The user's factory raised.
    """
    found = adapters.opened(found)
    if is_model(found):
        if target.arguments:
            raise ConfigError(
                f"cannot pass arguments to {str(target)!r}: it is a model already",
                hint="drop --model-arg, or name a factory or a class",
            )
        return found
    if not callable(found):
        raise ConfigError(
            f"cannot use {str(target)!r} as a model: expected a factory, a class or a model, "
            f"found {kind_of_thing(found)}"
        )
    _check_arguments(target, found)
    trouble = UserCode(
        f"cannot build {str(target)!r}", translate=lambda error: _missing_framework(target, error)
    )
    with trouble:
        model = found(**target.arguments)
    model = adapters.opened(model)
    if not is_model(model):
        raise ConfigError(
            f"cannot use {str(target)!r} as a model: expected it to return a torch Module, a "
            f"paddle Layer, a mindspore Cell or a flax.nnx Module, it returned "
            f"{kind_of_thing(model)}",
            hint=adapters.way_out(model)
            or "name the attribute that is or returns the model itself",
        )
    return model


def _make_importable(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def check_target(target: Target) -> None:
    """Check that the file is there, if the target names one; nothing is imported.

    Raises:
        ConfigError: It is not.
    """
    path = Path(target.place)
    if target.is_file and not path.is_file():
        siblings = path.parent.glob("*.py") if path.parent.is_dir() else ()
        raise ConfigError(
            f"cannot load {target.noun} {str(target)!r}: no such file {target.place!r}",
            hint=near_names(target.place, [str(sibling) for sibling in siblings]),
        )


def named_class(target: Target) -> str | None:
    """Return the target's class name where its source says that it is a class; imports nothing.

    None for a factory, an instance, a decorated class, and source that cannot be read.
    """
    path = Path(target.place if target.is_file else target.place.replace(".", "/") + ".py")
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None  # the import tells why
    classes = [one for one in tree.body if isinstance(one, ast.ClassDef) and not one.decorator_list]
    return next((one.name for one in classes if one.name == target.attribute), None)


def _import_file(target: Target) -> ModuleType:
    """Load a Python file, its own folder importable as with ``python FILE.py``."""
    check_target(target)
    path = Path(target.place)
    resolved = path.resolve()
    loaded = _loaded.get()
    if loaded is not None and resolved in loaded:
        return loaded[resolved]
    _make_importable(str(resolved.parent))
    known = sys.modules.get(path.stem)
    name = path.stem if known is None else f"padiff_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:  # only without a loader for .py
        raise ConfigError(
            f"cannot load {target.noun} {str(target)!r}: {target.place!r} is no Python file"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look the module up
    try:
        with _importing(target):
            spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    if loaded is not None:
        loaded[resolved] = module
    return module


def _import_module(target: Target) -> ModuleType:
    importlib.invalidate_caches()
    with _importing(target):
        return importlib.import_module(target.place)


def _importing(target: Target) -> UserCode:
    """Return what was wrong when the user's module cannot be imported."""

    def translate(error: Exception) -> PadiffError | None:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and not target.is_file and f"{target.place}.".startswith(f"{missing}."):
            names = [module.name for module in pkgutil.iter_modules([str(Path.cwd())])]
            return ConfigError(
                f"cannot load {target.noun} {str(target)!r}: no module named {missing!r}",
                hint=near_names(missing, names),
            )
        return _missing_framework(target, error)

    return UserCode(f"cannot load {target.noun} {str(target)!r}", translate=translate)


def _missing_framework(target: Target, error: Exception) -> PadiffError | None:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    extra = FRAMEWORK_EXTRAS.get((missing or "").partition(".")[0])
    if extra is None:
        return None
    return ConfigError(
        f"cannot load {target.noun} {str(target)!r}: it needs {extra}, which is not installed here",
        hint=f"pip install 'padiff-align[{extra}]'",
    )


def _check_arguments(target: Target, factory: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # some built-in callables have none
        return
    try:
        signature.bind(**target.arguments)
    except TypeError as error:
        names = list(signature.parameters)
        wrong = [name for name in target.arguments if name not in names]
        raise ConfigError(
            f"cannot call {str(target)!r}: {error}",
            hint=near_names(wrong[0], names) if wrong else "pass it by --model-arg name=JSON",
        ) from error


def kind_of_thing(thing: object) -> str:
    """Name what something is, for messages."""
    return "None" if thing is None else f"{type(thing).__module__}.{type(thing).__qualname__}"
