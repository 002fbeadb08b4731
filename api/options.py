"""The options of ``auto_diff``, and what PaDiff called them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from padiff.dumper.recording.patterns import patterns_of
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_OLD_NAMES = {"auto_weights": "auto_init", "layer_map": "map"}
"""What versions of PaDiff called an option."""
_GONE = {
    "white_list": "include=['encoder.*', 'type:Linear'] compares only what matches",
    "black_list": "exclude=['**.dropout', 'type:Dropout', model.head] leaves out what matches",
    "use_loss": "loss_fns alone says so",
    "use_opt": "optimizers alone says so",
    "opt_type": "optimizers may be optimizers or functions without arguments",
    "cmd": "the report is printed, unless quiet=True",
    "debug": "out=FOLDER keeps both dumps, and `padiff show` prints them",
}
"""Options of PaDiff without a counterpart of that meaning, and what to use."""
_PHASES = ("both", "forward", "backward")
_MODES = ("mean", "strict")
_KINDS = (
    ("atol", Real, "a number"),
    ("rtol", Real, "a number"),
    ("steps", Integral, "a whole number"),
    ("seed", Integral, "a whole number"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``auto_diff`` is told by name."""

    auto_init: bool = True
    steps: int = 1
    diff_phase: str = "both"
    compare_mode: str = "strict"
    atol: float | None = None
    rtol: float | None = None
    single_step: bool = False
    outputs: Any = None
    seed: int | None = None
    map: Any = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    out: str | Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        """Refuse what no run can do.

        Raises:
            ConfigError: An option has a value that it cannot have.
        """
        for name, known in (("diff_phase", _PHASES), ("compare_mode", _MODES)):
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(
                    f"cannot use {name}={value!r}: expected one of {', '.join(known)}"
                )
        for name, kind, said in _KINDS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                raise ConfigError(f"cannot use {name}={value!r:.80}: expected {said}")
        if self.steps < 1:
            raise ConfigError(f"cannot run {self.steps} steps: expected 1 or more")


def options_of(
    options: Mapping[str, Any] | None, more: Mapping[str, Any], models: Sequence[Any] = ()
) -> Options:
    """Read options given in a dict, as PaDiff took them, and by name.

    A call in PaDiff's spelling keeps PaDiff's default ``compare_mode="mean"``, since the
    tolerances in it were chosen for means.

    Raises:
        ConfigError: An option is unknown, gone, given twice, or has an unusable value.
    """
    given: dict[str, Any] = {}
    for name, value in [*(options or {}).items(), *more.items()]:
        known = _OLD_NAMES.get(name, name)
        if known in given:
            raise ConfigError(f"cannot use the option {name!r}: it was given twice")
        given[known] = value
    _check_names(given)
    if options is not None or _OLD_NAMES.keys() & more.keys():
        given.setdefault("compare_mode", "mean")
    for name in ("include", "exclude"):
        if name in given:
            given[name] = patterns_of(name, given[name], *models)
    return Options(**given)


def _check_names(given: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(Options)]
    for name in given:
        if name in _GONE:
            raise ConfigError(f"cannot use PaDiff's option {name!r}", hint=_GONE[name])
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(
                f"cannot use the option {name!r}: auto_diff has none of that name",
                hint=f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known)}",
            )
