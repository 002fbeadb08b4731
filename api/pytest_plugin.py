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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from padiff.comparer import CompareSettings
    from padiff.comparer.auditing import Audit
    from padiff.comparing import Comparison


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
        train: bool = False,
        **options: Any,  # noqa: ANN401 -- as of padiff.compare
    ) -> Comparison | None:
        """Run the model, record it, and fail the test where it diverges from the baseline.

        Args:
            baseline: The archived dump, a folder or packed.
            model: A torch or paddle model.
            inputs: A tuple or list of positional arguments, a mapping of keyword arguments (what a
                tokenizer gives), or one tensor.
            loss: Makes a scalar of what the model returns; given, backward is recorded and compared
                too.
            train: Run in training mode, as ``padiff dump --train``; else in evaluation mode.
                Afterwards each module is in the mode that it was in.
            options: Of ``padiff.compare``: ``atol``, ``rule``, ``map``, ….

        Returns:
            The result; None where the baseline was replaced instead.

        Raises:
            ConfigError: There is no such option, or it has an unusable value.
        """
        __tracebackhide__ = True
        chosen = _settings(options)
        self._calls += 1
        place = _place(baseline)
        if self._reason is None and not place.exists():
            pytest.fail(_no_baseline(place), pytrace=False)
        name = f"run{self._calls}"
        run = _Run(model=model, inputs=inputs, loss=loss, train=train)
        candidate = run.record(self._folder / name, content=self._content)
        if self._reason is not None:
            from padiff.comparer.baseline import accept  # noqa: PLC0415 -- only when it is used

            accept(place, candidate, reason=self._reason, command=("pytest", self._name))
            return None
        return self._judge(place, candidate, chosen)

    def _judge(self, baseline: Path, candidate: Path, settings: CompareSettings) -> Comparison:
        from padiff.comparing import compare  # noqa: PLC0415 -- only when it is used

        __tracebackhide__ = True
        result = compare(baseline, candidate, settings)
        if self._reports is not None:
            result.to_json(self._reports / f"{self._name}-{self._calls}.json")
        if not result:
            from padiff.cli.output import render_to_text  # noqa: PLC0415 -- only when it is used
            from padiff.comparer.report.style import Canvas  # noqa: PLC0415
            from padiff.comparer.report.terminal import closing_line, render  # noqa: PLC0415

            def draw(console: Console) -> None:
                console.print(closing_line(Canvas(console=console), result), soft_wrap=True)
                console.print(f"baseline {str(baseline)!r}\n", soft_wrap=True)
                render(result, console)

            pytest.fail(render_to_text(draw), pytrace=False)
        return result


def _place(baseline: str | Path) -> Path:
    from padiff.comparing import place_of  # noqa: PLC0415 -- only when it is used

    return place_of(baseline)


class PadiffAudit:
    """Records a model and audits what it computed; a test calls it."""

    def __init__(self, folder: Path) -> None:
        """Set up for one test."""
        self._folder = folder
        self._calls = 0

    def __call__(
        self,
        model: Any,  # noqa: ANN401 -- a model of any framework
        inputs: Any = (),  # noqa: ANN401 -- what the model takes
        *,
        loss: Callable[[Any], Any] | None = None,
        train: bool = False,
        content: str = "operators",
    ) -> Audit:
        """Run the model, record it, and fail the test where an operator or gradient is unsound.

        Args:
            model: A torch or paddle model.
            inputs: As for ``padiff_compare``.
            loss: Makes a scalar of what the model returns; given, gradients are audited too.
            train: As for ``padiff_compare``.
            content: What is recorded, as ``padiff dump --content``: ``operators`` audits each
                operator by itself, ``full`` takes less room and audits between modules.

        Returns:
            The result, of which something was audited and nothing is unsound.
        """
        __tracebackhide__ = True
        from padiff.audits import audit  # noqa: PLC0415 -- only when it is used

        self._calls += 1
        run = _Run(model=model, inputs=inputs, loss=loss, train=train)
        audits = audit(run.record(self._folder / f"audit{self._calls}", content=content))
        if not audits:
            from padiff.cli.output import render_to_text  # noqa: PLC0415 -- only when it is used
            from padiff.comparer.report.audit_text import draw_audit, unsound_line  # noqa: PLC0415
            from padiff.comparer.report.style import Canvas  # noqa: PLC0415

            def draw(console: Console) -> None:
                canvas = Canvas(console=console)
                first = audits.first
                said = "nothing of the model could be audited"
                said = said if first is None else f"UNSOUND: {unsound_line(canvas, first)}"
                console.print(said, soft_wrap=True)
                draw_audit(canvas, audits)

            pytest.fail(render_to_text(draw), pytrace=False)
        (result,) = audits.values()
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """How a model is run."""

    model: Any
    inputs: Any
    loss: Callable[[Any], Any] | None
    train: bool

    def record(self, place: Path, *, content: str) -> Path:
        """Run the model and record it at a place; return the dump."""
        from padiff.dumper import adapters  # noqa: PLC0415 -- only when it is used
        from padiff.recorders import record  # noqa: PLC0415

        adapter = adapters.find(self.model)
        whole = adapter.unwrap(self.model)
        modes = [(one, adapter.is_training(one)) for _, one in adapter.named_modules(whole)]
        phase = "forward" if self.loss is None else "backward"
        adapter.set_training(whole, training=self.train)
        try:
            with record(
                self.model, name=place.name, out=place.parent, phase=phase, content=content
            ) as recorder:
                output = self._forward()
                if self.loss is not None:
                    value = self.loss(output)
                    recorder.loss(value)
                    value.backward()
        finally:
            for module, mode in modes:  # parents first
                adapter.set_training(module, training=mode)
        return recorder.path

    def _forward(self) -> Any:  # noqa: ANN401 -- whatever the model returns
        if isinstance(self.inputs, Mapping):
            return self.model(**self.inputs)
        if isinstance(self.inputs, tuple | list):
            return self.model(*self.inputs)
        return self.model(self.inputs)


def _settings(options: Mapping[str, Any]) -> CompareSettings:
    """Read the options before the model runs.

    Raises:
        ConfigError: There is no such option, or it has an unusable value.
    """
    from padiff.comparing import settings_of  # noqa: PLC0415 -- only when it is used
    from padiff.dumpfile import ConfigError  # noqa: PLC0415

    try:
        return settings_of(options)
    except ConfigError as error:
        error.add_note("what the model takes by keyword goes into inputs, as a dict")
        raise


def _no_baseline(place: Path) -> str:
    return (
        f"there is no baseline at {str(place)!r}: run pytest with --padiff-accept REASON\n"
        f"hint: pytest --padiff-accept 'first baseline' records the model, and keeps it there"
    )


@pytest.fixture
def padiff_compare(request: pytest.FixtureRequest, tmp_path: Path) -> PadiffCompare:
    """Compare with a baseline: (baseline, model, inputs=(), *, loss=None, train=False, **options).

    Records the model and fails the test with the report where it diverges from the archived dump
    ``baseline``. ``inputs`` are a tuple of arguments, a mapping of keywords, or one tensor;
    ``loss`` makes a scalar of the output, and compares the backward pass too; ``train`` runs in
    training mode, else the model is in evaluation mode, as for ``padiff dump``; the options are
    those of ``padiff.compare``: ``atol``, ``rtol``, ``include``, ``rule``, ``map``, ….
    ``pytest --padiff-accept REASON`` makes baselines of what the tests record.
    """
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
    """Audit a model: (model, inputs=(), *, loss=None, train=False, content="operators").

    Records the model and fails the test with the report where an operator, or with ``loss`` a
    gradient, is not what the recorded program says. ``train`` as for ``padiff_compare``;
    ``content="full"`` takes less room and audits between modules.
    """
    return PadiffAudit(tmp_path / "padiff_dump")
