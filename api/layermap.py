"""Describe which live modules are partners, as PaDiff's ``LayerMap`` does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from padiff.dumper import adapters
from padiff.dumpfile import ConfigError
from padiff.pairing import MapFile, read_map
from padiff.pairing.maps.mapfile import IgnoreEntry, PairEntry
from padiff.pairing.maps.pattern import PathPattern


class LayerMap:
    """Partners and modules to leave out, by the modules themselves; for one pair of models.

    ::

        layer_map = padiff.LayerMap()
        layer_map.map = {module.attention: layer.attn}
        layer_map.ignore_recursively([layer.extra])
        padiff.auto_diff(module, layer, inputs, layer_map=layer_map)

    padiff pairs different trees by itself, so a map is needed only where that fails; across
    processes the same is said by a map file.
    """

    def __init__(self, pairs: Mapping[Any, Any] | None = None) -> None:
        """Begin with some pairs.

        Args:
            pairs: A module of one model to its partner in the other, whichever comes first.
        """
        self._pairs: list[tuple[Any, Any]] = []
        self._ignored: list[Any] = []
        self.map = dict(pairs or {})

    @property
    def map(self) -> dict[Any, Any]:
        """Partners; what is set is added."""
        return dict(self._pairs)

    @map.setter  # noqa: A003 - PaDiff's name
    def map(self, pairs: Mapping[Any, Any]) -> None:
        self._pairs += pairs.items()

    def ignore_recursively(self, modules: Any) -> None:  # noqa: ANN401 - one, or several
        """Leave modules out with everything inside."""
        self._ignored += modules if isinstance(modules, list | tuple | set) else [modules]

    ignore_recursivly = ignore_recursively
    """PaDiff's spelling."""

    def ignore_class(self, model: Any, kind: type) -> None:  # noqa: ANN401
        """Leave out all modules of a class inside a model, but not what is inside them.

        Does nothing, as ``ignore``: what such modules contain is paired anyway.
        """

    def ignore(self, modules: Any) -> None:  # noqa: ANN401 - one, or several
        """Do nothing: the content of a container that only one side has is paired anyway."""

    def auto(self, *models: Any) -> None:  # noqa: ANN401
        """Do nothing: partners of other classes are found without a search of its own."""

    def to_map_file(self, reference: Any, candidate: Any) -> MapFile:  # noqa: ANN401
        """Return the same as a map file.

        Args:
            reference: The model held to be right.
            candidate: The model to judge.

        Raises:
            ConfigError: A module is in neither model, or both partners are in one of them.
        """
        sides = _paths(reference), _paths(candidate)
        pairs = []
        for number, pair in enumerate(self._pairs, start=1):
            ends = pair if id(pair[0]) in sides[0] and id(pair[1]) in sides[1] else pair[::-1]
            patterns = [_pattern(end, [side]) for end, side in zip(ends, sides, strict=True)]
            pairs.append(
                PairEntry(reference=patterns[0], candidate=patterns[1], name=f"pair {number}")
            )
        ignores = []
        for number, module in enumerate(self._ignored, start=1):
            pattern, name = _pattern(module, sides), f"ignored module {number}"
            if id(module) in sides[0]:
                ignores.append(IgnoreEntry(reference=pattern, name=name))
            else:
                ignores.append(IgnoreEntry(candidate=pattern, name=name))
        return MapFile(source="LayerMap", pairs=tuple(pairs), ignores=tuple(ignores))


def map_of(given: Any, reference: Any, candidate: Any) -> MapFile | None:  # noqa: ANN401
    """Return what a user means by a map: a file, a ``LayerMap``, a dict of modules, or nothing.

    Raises:
        ConfigError: It is none of these, or names what is not there.
    """
    if given is None or isinstance(given, MapFile):
        return given
    if isinstance(given, dict):
        given = LayerMap(given)
    if isinstance(given, LayerMap):
        return given.to_map_file(reference, candidate)
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        return read_map(Path(given))
    raise ConfigError(
        f"cannot use {type(given).__name__} as a map: expected the path of a map file, a LayerMap, "
        "or a dict of modules"
    )


def _paths(model: Any) -> dict[int, str]:  # noqa: ANN401
    adapter = adapters.find(model)
    found: dict[int, str] = {}
    for path, module in adapter.named_modules(adapter.unwrap(model)):
        found.setdefault(id(module), path)
    return found


def _pattern(module: Any, sides: Iterable[Mapping[int, str]]) -> PathPattern:  # noqa: ANN401
    for side in sides:
        if id(module) in side:
            return PathPattern.parse(side[id(module)])
    kind = type(module)
    raise ConfigError(
        f"cannot use a map with a {kind.__module__}.{kind.__qualname__}: it is not where the map "
        "needs it",
        hint="each pair is one module of either model, found by walking the model",
    )
