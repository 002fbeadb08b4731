"""Pytest fixtures: one compares a model with an archived dump, one checks a model by itself.

::

    def test_port(padiff_compare):
        padiff_compare("baseline/resnet", build_model(), images)

    def test_operators(padiff_audit):
        padiff_audit(build_model(), images, loss=lambda output: output.mean())

They are loaded by pytest wherever padiff is installed; nothing else is imported until a test asks
for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.comparer import Comparison
    from padiff.comparer.auditing import Audit

__all__ = ["PadiffAudit", "PadiffCompare", "padiff_audit", "padiff_compare", "pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fixture."""
    group = parser.getgroup("padiff")
    group.addoption(
        "--padiff-accept",
        metavar="REASON",
        help="Take what the tests record as the new baselines, and log why.",
    )
    group.addoption(
        "--padiff-content",
        metavar="CONTENT",
        default="program",
        help="How much new baselines keep: program, full, sample=4096, stats or digest.",
    )
    group.addoption(
        "--padiff-reports",
        metavar="FOLDER",
        help="Keep the result of each comparison here as JSON, for `padiff report`.",
    )


class PadiffCompare:
    """Records a model and compares it with a baseline; a test calls it."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str,
        reason: str | None,
        reports: Path | None,
        content: str = "program",
    ) -> None:
        """Set up for one test.

        Args:
            folder: Where to record.
            name: Of the test, for its reports.
            reason: Why baselines are to be replaced; None compares.
            reports: Where results are kept, if they are.
            content: How much new baselines keep, as ``padiff dump --content``.
        """
        self._folder = folder
        self._content = content if reason is not None else "full"
        self._name = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)
        self._reason = reason
        self._reports = reports
        self._calls = 0

    def __call__(
        self,
        baseline: str | Path,
        model: Any,  # noqa: ANN401 -- a model of any framework
        inputs: Any = (),  # noqa: ANN401 -- what the model takes
        *,
        loss: Callable[[Any], Any] | None = None,
        **settings: Any,  # noqa: ANN401 -- as in CompareSettings
    ) -> Comparison | None:
        """Run the model, record it, and fail the test where it diverges from the baseline.

        Args:
            baseline: The archived dump, a folder or packed.
            model: A torch or paddle model; its training flag stays as it is.
            inputs: A tuple or list of positional arguments, a mapping of keyword arguments (what a
                tokenizer gives), or one tensor.
            loss: Makes a scalar of what the model returns; given, backward is recorded and compared
                too.
            settings: Fields of ``padiff.comparer.CompareSettings``: ``atol``, ``rtol``, ….

        Returns:
            The result; None where the baseline was replaced instead.

        Raises:
            TypeError: There is no such setting.
        """
        __tracebackhide__ = True
        _check_names(settings)
        self._calls += 1
        name = f"run{self._calls}"
        candidate = _record(self._folder / name, model, inputs, loss, content=self._content)
        if self._reason is not None:
            from padiff.comparer.baseline import accept  # noqa: PLC0415 -- only when it is used

            accept(Path(baseline), candidate, reason=self._reason, command=("pytest", self._name))
            return None
        return self._judge(Path(baseline), candidate, with_backward=loss is not None, **settings)

    def _judge(
        self,
        baseline: Path,
        candidate: Path,
        *,
        with_backward: bool,
        **settings: Any,  # noqa: ANN401
    ) -> Comparison:
        from padiff.comparer import CompareSettings, compare  # noqa: PLC0415 -- only when used
        from padiff.comparer.report.json_report import to_json  # noqa: PLC0415
        from padiff.comparer.result import Verdict  # noqa: PLC0415
        from padiff.dumpfile import Phase  # noqa: PLC0415
        from padiff.dumpfile.packed import unpacked  # noqa: PLC0415

        __tracebackhide__ = True
        if not with_backward:
            settings.setdefault("phases", (Phase.FORWARD,))
        with unpacked(baseline) as known:
            result = compare(known, candidate, CompareSettings(**settings))
        if self._reports is not None:
            from padiff.cli.output import write_json  # noqa: PLC0415 -- only when it is used

            self._reports.mkdir(parents=True, exist_ok=True)
            write_json(self._reports / f"{self._name}-{self._calls}.json", to_json(result))
        if result.verdict is not Verdict.MATCH:
            from padiff.cli.output import render_to_text  # noqa: PLC0415 -- only when it is used
            from padiff.comparer.report.terminal import render  # noqa: PLC0415

            text = render_to_text(lambda console: render(result, console))
            is_bad = result.verdict is Verdict.DIVERGED
            said = "the model diverges from" if is_bad else "nothing decides about the model and"
            pytest.fail(f"{said} {str(baseline)!r}\n{text}", pytrace=False)
        return result


class PadiffAudit:
    """Records a model and audits what it computed; a test calls it."""

    def __init__(self, folder: Path) -> None:
        """Set up for one test.

        Args:
            folder: Where to record.
        """
        self._folder = folder
        self._calls = 0

    def __call__(
        self,
        model: Any,  # noqa: ANN401 -- a model of any framework
        inputs: Any = (),  # noqa: ANN401 -- what the model takes
        *,
        loss: Callable[[Any], Any] | None = None,
        content: str = "operators",
    ) -> Audit:
        """Run the model, record it, and fail the test where an operator or gradient is unsound.

        Args:
            model: A torch or paddle model; its training flag stays as it is.
            inputs: As for ``padiff_compare``.
            loss: Makes a scalar of what the model returns; given, gradients are audited too.
            content: What is recorded, as ``padiff dump --content``: ``operators`` audits each
                operator by itself, ``full`` takes less room and audits between modules.

        Returns:
            The result, of which something was audited and nothing is unsound.
        """
        __tracebackhide__ = True
        from padiff.comparer.auditing import Soundness, audit_dump  # noqa: PLC0415 -- when used

        self._calls += 1
        place = self._folder / f"audit{self._calls}"
        audits = audit_dump(_record(place, model, inputs, loss, content=content))
        (result,) = audits.values()
        if result.soundness is not Soundness.SOUND:
            from padiff.cli.output import render_to_text  # noqa: PLC0415 -- only when it is used
            from padiff.comparer.report.audit_text import draw_audit  # noqa: PLC0415
            from padiff.comparer.report.style import Canvas  # noqa: PLC0415

            text = render_to_text(lambda console: draw_audit(Canvas(console=console), audits))
            is_bad = result.soundness is Soundness.UNSOUND
            said = "the model is unsound" if is_bad else "nothing of the model could be audited"
            pytest.fail(f"{said}\n{text}", pytrace=False)
        return result


def _record(
    place: Path,
    model: Any,  # noqa: ANN401 -- a model of any framework
    inputs: Any,  # noqa: ANN401 -- what the model takes
    loss: Callable[[Any], Any] | None,
    *,
    content: str,
) -> Path:
    """Run a model and record it at a place; return the dump."""
    from padiff.dumper import record  # noqa: PLC0415 -- only when it is used

    phase = "forward" if loss is None else "backward"
    with record(model, name=place.name, out=place.parent, phase=phase, content=content) as recorder:
        if isinstance(inputs, Mapping):
            output = model(**inputs)
        elif isinstance(inputs, tuple | list):
            output = model(*inputs)
        else:
            output = model(inputs)
        if loss is not None:
            value = loss(output)
            recorder.loss(value)
            value.backward()
    return recorder.path


def _check_names(settings: Mapping[str, object]) -> None:
    """Refuse what is no setting before the model runs.

    Raises:
        TypeError: There is no such setting.
    """
    from padiff.comparer import CompareSettings  # noqa: PLC0415 -- only when it is used

    unknown = settings.keys() - {field.name for field in fields(CompareSettings)}
    if unknown:
        raise TypeError(
            f"padiff_compare has no setting {min(unknown)!r}: what the model takes by keyword goes "
            "into inputs, as a dict"
        )


@pytest.fixture
def padiff_compare(request: pytest.FixtureRequest, tmp_path: Path) -> PadiffCompare:
    """Give what compares a model with an archived dump."""
    reports = request.config.getoption("--padiff-reports")
    return PadiffCompare(
        tmp_path / "padiff_dump",
        name=request.node.name,
        reason=request.config.getoption("--padiff-accept"),
        reports=None if reports is None else Path(reports),
        content=request.config.getoption("--padiff-content"),
    )


@pytest.fixture
def padiff_audit(tmp_path: Path) -> PadiffAudit:
    """Return what checks a model by itself, without a reference."""
    return PadiffAudit(tmp_path / "padiff_dump")
