"""``padiff.compare``: the command of that name from Python, with its options and its reports."""

from __future__ import annotations

import difflib
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.arrayfiles import as_dumps
from padiff.comparer import CompareSettings, Metrics, Mode, ToleranceRule
from padiff.comparer import Comparison as Compared
from padiff.comparer import Divergence as Found
from padiff.comparer import compare as compare_dumps
from padiff.comparer.judging.noise import DEFAULT_FACTOR, FloorSide
from padiff.comparer.judging.policyfile import Policy, parse_mode, parse_share, read_policy
from padiff.comparer.stored import changed_at
from padiff.dumpfile import CompareError, ConfigError, Phase, open_dump
from padiff.dumpfile.packed import unpacked
from padiff.pairing import MapFile, RanksEntry, read_map
from padiff.presenting import Presented, data_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from padiff.comparer import Endpoint, JudgedPair, StepComparison
    from padiff.comparer.detail import Details
    from padiff.comparer.report.style import Canvas

COLUMNS = (
    *("step", "rank", "phase", "module", "candidate_module", "class_name", "call", "role", "slot"),
    *("dtype", "shape", "verdict", "kind", "rests_on", "max_abs", "max_rel", "mean_abs"),
    *("relative_l2", "cosine", "mismatched", "size", "atol", "rtol", "needed_atol", "needed_rtol"),
    "reason",
)
"""Of the table that a comparison becomes; a row for each pair of records."""
_METRICS = frozenset(field.name for field in fields(Metrics)) & frozenset(COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Divergence(Found):
    """A diverged call, and where and why."""

    @property
    def module(self) -> str:
        """The module's path on the reference, on the candidate where that alone has it."""
        return self._end.address.module

    @property
    def source(self) -> str:
        """``file:line`` to look at: what was proved wrong, else the call; empty if not known."""
        from padiff.comparer.report.wording import source_of  # noqa: PLC0415 - when asked

        return str(source_of(self) or "")

    @property
    def cause(self) -> str:
        """What speaks for it most: a proof where there is one; empty where nothing does."""
        return next(iter(self.reasons), "")

    @property
    def reasons(self) -> tuple[str, ...]:
        """All that speaks for it: what was proved first, then the evidence."""
        from padiff.comparer.report.fault_words import evidence_of  # noqa: PLC0415 - when asked

        return evidence_of(self)

    def __repr__(self) -> str:
        """Return one line: where, in which phase, whose fault, and why."""
        end = self._end.address
        where = f"step {end.step} {end.module or '(root)'}{f'#{end.call}' if end.call else ''}"
        cause = f": {self.cause}" if self.cause else ""
        return f"<Divergence: {where}, {self.phase}, {self.kind}{cause}>"

    @property
    def _end(self) -> Endpoint:
        return self.pair.end


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Presented, Compared):
    """The result of comparing two dumps; true if they match."""

    places: tuple[Path, Path] | None = None
    """The two dumps, where they are still there."""

    if TYPE_CHECKING:  # they hold what ``comparison_of`` made of the comparer's

        @property
        def first(self) -> Divergence | None:
            """The first origin; the earliest divergence where there is none, None on a match."""

        @property
        def origins(self) -> tuple[Divergence, ...]:
            """The divergences that are no other's consequence."""

        @property
        def divergences(self) -> tuple[Divergence, ...]:
            """All divergences, earliest step first, and in it the earliest phase."""

    def to_html(self, path: Path | str) -> Path:
        """Write the page that ``padiff compare --html`` writes; needs ``padiff-align[html]``.

        Of a comparison whose dumps are gone, such as that of ``auto_diff`` without ``out``, it
        lacks the closer look at single elements.

        Raises:
            ConfigError: jinja2 is not installed, or the place cannot be written.
            CompareError: The dumps are others than those that were compared.
            DumpError: They cannot be read any more.
        """
        from padiff.cli.output import write_text  # noqa: PLC0415 - as asked for
        from padiff.comparer.report.html import to_html  # noqa: PLC0415

        write_text(Path(path), to_html(replace(self, details=self._closer())))
        return Path(path)

    def to_overview(self, path: Path | str) -> Path:
        """Write the page that ``padiff compare --overview`` writes: a map of step by module.

        Raises:
            ConfigError: jinja2 is missing (``padiff-align[html]``), or the place cannot be written.
        """
        from padiff.cli.output import write_text  # noqa: PLC0415 - as asked for
        from padiff.comparer.report.overview_page import to_overview  # noqa: PLC0415

        write_text(Path(path), to_overview(self))
        return Path(path)

    def to_json(self, path: Path | str) -> Path:
        """Write the result that ``padiff compare --json`` writes, for ``padiff report`` and others.

        Raises:
            ConfigError: The place cannot be written.
        """
        from padiff.cli.output import write_json  # noqa: PLC0415 - as asked for
        from padiff.comparer.report.json_report import report_parts  # noqa: PLC0415

        write_json(Path(path), report_parts(self))
        return Path(path)

    def to_dataframe(self) -> Any:  # noqa: ANN401 - pandas is not there everywhere
        """Return a pandas table with a row for each pair of records.

        Raises:
            ConfigError: pandas is not installed.
        """
        return data_frame((_row(step, pair) for step in self.steps for pair in step.pairs), COLUMNS)

    def _draw(self, canvas: Canvas) -> None:
        from padiff.comparer.report.terminal import render  # noqa: PLC0415 - only where drawn

        render(self, canvas.console, max_rows=canvas.max_rows, verbose=canvas.verbose)

    def _glance(self, canvas: Canvas) -> None:
        from padiff.comparer.report.terminal import draw_brief  # noqa: PLC0415 - only where drawn

        draw_brief(canvas, self)

    def _closer(self) -> Details | None:
        """Read the dumps again, and look closer at what diverged."""
        if self.places is None:
            return None
        from padiff.comparer.detail import look_closer  # noqa: PLC0415 - few need it

        with ExitStack() as exits:
            known, found = _opened(exits, *self.places)
            for place, manifest in ((known, self.reference), (found, self.candidate)):
                if open_dump(place).manifest.created != manifest.created:
                    raise CompareError(
                        f"cannot look closer at {manifest.name!r}: it was recorded anew since",
                        hint="compare again",
                    )
            return look_closer(known, found, self)


def _row(step: StepComparison, pair: JudgedPair) -> dict[str, object]:
    """Return the row of a pair of records."""
    end = pair.reference or pair.candidate
    row: dict[str, object] = {name: getattr(pair.metrics, name, None) for name in _METRICS}
    if end is not None:
        address = end.address
        row |= {
            "phase": str(address.phase),
            "class_name": address.class_name,
            "call": address.call,
            "role": str(address.role),
            "slot": address.slot,
            "dtype": end.dtype,
            "shape": end.shape,
        }
    return row | {
        "step": step.step,
        "rank": step.rank,
        "module": None if pair.reference is None else pair.reference.address.module,
        "candidate_module": None if pair.candidate is None else pair.candidate.address.module,
        "verdict": "covered" if pair.covered else str(pair.verdict),
        "kind": None if pair.kind is None else str(pair.kind),
        "rests_on": str(pair.rests_on),
        "atol": None if pair.tolerance is None else pair.tolerance.atol,
        "rtol": None if pair.tolerance is None else pair.tolerance.rtol,
        "reason": pair.reason,
    }


def compare(  # noqa: PLR0913 - the options of the command, by name
    reference: PathLike[str] | str,
    candidate: PathLike[str] | str,
    settings: CompareSettings | None = None,
    *,
    step: int | Sequence[int] = (),
    rank: int | Sequence[int] = (),
    phase: str | Sequence[str] = (),
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    min_coverage: float | None = None,
    allow_missing: str | Sequence[str] = (),
    map: Path | str | MapFile | None = None,  # noqa: A002 - the option's name
    layout: str | Sequence[str] = (),
    atol: float | None = None,
    rtol: float | None = None,
    mode: str | None = None,
    max_mismatched: str | float | None = None,
    policy: Path | str | None = None,
    floor: str | None = None,
    floor_factor: float = DEFAULT_FACTOR,
    golden: Path | str | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    parts: Path | str | None = None,
    rule: str | ToleranceRule | Sequence[str | ToleranceRule] = (),
    execute: bool = True,
    strict: bool = False,
) -> Comparison:
    """Compare two dumps and return what was found; nothing is printed.

    ``assert padiff.compare("padiff_dump/torch", "padiff_dump/paddle", atol=1e-4)``

    Options have the names, the defaults and the meaning of ``padiff compare``. One that may repeat
    there takes one value or several here.

    Args:
        reference: The dump held to be right, a directory, a packed one or a URL; or a file of named
            arrays (.npy, .npz, .safetensors) or a folder of such files.
        candidate: The same of the one to judge.
        settings: What to compare and when a difference counts, in place of the options.
        step: Only these steps.
        rank: Only these ranks.
        phase: Report only these: ``forward``, ``backward``, ``update``.
        include: Only modules whose path matches the glob, or ``type:CLASS``, and what is inside.
        exclude: Leave these modules out.
        min_coverage: Share of the values that must have been judged.
        allow_missing: Modules or weights that may lack a counterpart.
        map: Map file that says which module is which.
        layout: How tensors of a sharded run lie over ranks, as ``"**.wo output=R over tp"``.
        atol: Absolute tolerance; without ``rtol`` it only loosens. By default that of the dtype.
        rtol: Relative tolerance. By default that of the dtype.
        mode: ``strict``, ``mean`` or ``quantile=SHARE``; by default the policy's, or ``strict``.
        max_mismatched: Elements of a record that may disagree: ``"10ppm"``, ``"0.1%"``, 1e-5.
        policy: TOML file with tolerances and rules; the options win over it.
        floor: Judge against the noise floor of the ``reference``, ``candidate`` or ``both``.
        floor_factor: Times the noise floor is what a record may differ by.
        golden: A more precise dump of the same model.
        jobs: Processes that compare ranks side by side, or measure large tensors; by default one
            for each core, at most four, where there is enough to do.
        scheduler: Compare ranks on the workers of a Dask scheduler, ``tcp://HOST:PORT``.
        parts: A folder that the workers see, too: there they leave what they found, in a folder of
            its own that goes with the result. By default all of it travels here.
        rule: Tolerances for some modules, as ``"*.norm:atol=1e-3,rtol=0,role=output"``.
        execute: Execute both recorded programs in float64.
        strict: Another function is a divergence even where rounding does more.

    Returns:
        The comparison; true if it is a match.

    Raises:
        DumpError: A dump cannot be read.
        ConfigError: An option is unusable, or the options select nothing.
        CompareError: The dumps have nothing in common.
    """
    options = {
        "step": step,
        "rank": rank,
        "phase": phase,
        "include": include,
        "exclude": exclude,
        "min_coverage": min_coverage,
        "allow_missing": allow_missing,
        "map": map,
        "layout": layout,
        "atol": atol,
        "rtol": rtol,
        "mode": mode,
        "max_mismatched": max_mismatched,
        "policy": policy,
        "floor": floor,
        "floor_factor": floor_factor,
        "golden": golden,
        "jobs": jobs,
        "scheduler": scheduler,
        "parts": parts,
        "rule": rule,
        "execute": execute,
        "strict": strict,
    }
    chosen = settings_of(options) if settings is None else settings
    if settings is not None and settings_of(options) != settings_of({}):
        raise ConfigError("cannot use options beside settings: expected one of the two")
    places = place_of(reference), place_of(candidate)
    with ExitStack() as exits:
        found = compare_dumps(*_opened(exits, *places), chosen)
    return comparison_of(found, places)


def place_of(source: PathLike[str] | str) -> Path:
    """Return the path of a dump.

    Raises:
        ConfigError: It is something else, such as a model.
    """
    try:
        return Path(source)
    except TypeError:
        raise ConfigError(
            f"cannot read a dump: expected its path, found {type(source).__name__!r}",
            hint="padiff.auto_diff compares two models, padiff.record records one",
        ) from None


def _opened(exits: ExitStack, reference: Path, candidate: Path) -> tuple[Path, Path]:
    """Unpack what is packed, and make dumps of what are arrays, for as long as the stack lives."""
    places = [exits.enter_context(unpacked(place)) for place in (reference, candidate)]
    known, found = exits.enter_context(as_dumps(*places))
    return known, found


def comparison_of(found: Compared, places: tuple[Path, Path] | None = None) -> Comparison:
    """Return a result that can draw itself.

    Args:
        found: What was found.
        places: The two dumps, if they stay.
    """
    parts = {field.name: getattr(found, field.name) for field in fields(found)}
    steps = tuple(
        replace(
            step,
            divergences=changed_at(step.divergences, range(len(step.divergences)), _own),
        )
        for step in found.steps
    )
    here = None if places is None else (places[0].absolute(), places[1].absolute())
    return Comparison(**parts | {"steps": steps, "places": here})


def _own(found: Found) -> Divergence:
    return Divergence(**{field.name: getattr(found, field.name) for field in fields(found)})


def settings_of(options: Mapping[str, Any]) -> CompareSettings:
    """Read the options of ``padiff compare``.

    Raises:
        ConfigError: An option is unknown or has an unusable value.
    """
    for name in options:
        if name not in _READERS and name not in {"mode", "policy"}:
            known = [*_READERS, "mode", "policy"]
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(
                f"cannot use the option {name!r}: compare has none of that name",
                hint=f"did you mean {near[0]!r}?" if near else f"there is {', '.join(known)}",
            )
    made = _of_policy(options) | {"jobs": None}
    for name, value in options.items():
        if name in _READERS and value is not None:
            field, read = _READERS[name]
            try:
                made[field] = (
                    (*made.get(field, ()), *read(value)) if name == "rule" else read(value)
                )
            except (TypeError, ValueError) as error:
                if isinstance(error, ConfigError):
                    raise
                raise ConfigError(f"cannot use {name}={value!r:.80}: {error}") from None
    return CompareSettings(**made)


def _of_policy(options: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a policy file says, and the mode, which an option wins over."""
    path = options.get("policy")
    policy = Policy() if path is None else read_policy(Path(path))
    mode, quantile = policy.mode, policy.quantile
    if options.get("mode") is not None:
        mode, quantile = parse_mode(str(options["mode"]))
    return {
        "atol": policy.atol,
        "rtol": policy.rtol,
        "rules": policy.rules,
        "max_mismatched": policy.max_mismatched,
        "mode": mode or Mode.STRICT,
        "quantile": quantile,
    }


def _several(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads one value, or several, into a tuple."""

    def read_all(value: object) -> tuple[Any, ...]:
        is_one = isinstance(value, str | int | ToleranceRule)
        found: Any = (value,) if is_one else value
        return tuple(map(read, found))

    return read_all


def _some(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...] | None]:
    """Return what does the same, and reads none as all."""
    return lambda value: _several(read)(value) or None


def _number(value: object) -> float:
    if isinstance(value, str | bool):
        raise TypeError(f"expected a number, found {type(value).__name__}")
    number: Any = value
    return float(number)


def _pattern(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a pattern of module paths, found {type(value).__name__}")
    return value


def _rule(value: object) -> ToleranceRule:
    return value if isinstance(value, ToleranceRule) else ToleranceRule.parse(_pattern(value))


def _map_file(value: Any) -> MapFile:  # noqa: ANN401 - a path or what was read
    return value if isinstance(value, MapFile) else read_map(Path(value))


_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "atol": ("atol", _number),
    "rtol": ("rtol", _number),
    "max_mismatched": ("max_mismatched", lambda share: parse_share(str(share))),
    "floor": ("floor", FloorSide),
    "floor_factor": ("floor_factor", _number),
    "golden": ("golden", Path),
    "jobs": ("jobs", int),
    "scheduler": ("scheduler", str),
    "parts": ("parts", Path),
    "rule": ("rules", _several(_rule)),
    "step": ("steps", _some(int)),
    "rank": ("ranks", _some(int)),
    "phase": ("phases", _some(Phase)),
    "include": ("include", _several(_pattern)),
    "exclude": ("exclude", _several(_pattern)),
    "min_coverage": ("min_coverage", _number),
    "allow_missing": ("allow_missing", _several(_pattern)),
    "map": ("map_file", _map_file),
    "layout": ("layouts", _several(RanksEntry.parse)),
    "execute": ("execute", bool),
    "strict": ("strict", bool),
}
"""By option: the field of ``CompareSettings``, and what reads the value."""
