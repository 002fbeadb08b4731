"""``padiff.record``: record a model's run from a script of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.dumper import Recorder as Recording
from padiff.dumper import RecordSettings, adapters
from padiff.dumper.recording.patterns import patterns_of
from padiff.dumper.recording.recordsettings import StepPlan, parse_ranks
from padiff.dumpfile import ConfigError, Keep, Phase
from padiff.presenting import Presented

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.comparer.report.style import Canvas
    from padiff.dumper.adapter import Model
    from padiff.dumper.trainer import Optimizer
    from padiff.dumps import Dump
    from padiff.origins import Origin


class Recorder(Recording, Presented):
    """A recording of one model, and once it is finished the dump that it wrote.

    Use it as a context manager, once. Until the block has ended, ``report`` is the repr, which
    says how far the recording is.
    """

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where nan or inf was made of finite values, as ``Dump.origins``.

        Raises:
            RecordError: The recording is not finished, or ended by an error.
        """
        return self._dump().origins

    @property
    def first(self) -> Origin | None:
        """The first of the origins; None if all is finite.

        Raises:
            RecordError: The recording is not finished, or ended by an error.
        """
        return self._dump().first

    def to_dataframe(self) -> Any:  # noqa: ANN401 - pandas is not there everywhere
        """Return a pandas table with a row for each record of the dump, as ``Dump`` does.

        Raises:
            RecordError: The recording is not finished, or ended by an error.
            ConfigError: pandas is not installed.
        """
        return self._dump().to_dataframe()

    def to_json(self, path: Path | str) -> Path:
        """Write what ``padiff show --json`` prints of the dump.

        Raises:
            RecordError: The recording is not finished, or ended by an error.
            ConfigError: The place cannot be written.
        """
        return self._dump().to_json(path)

    def _draw(self, canvas: Canvas) -> None:
        if self.is_written:
            self._dump()._draw(canvas)
        else:
            canvas.line(canvas.safe(repr(self)))

    def _glance(self, canvas: Canvas) -> None:
        canvas.line(canvas.safe(repr(self)))
        if self.is_written:
            self._dump()._glance(canvas)

    def _dump(self) -> Dump:
        from padiff.dumps import open_dump  # noqa: PLC0415 - not while a model runs

        return open_dump(self.path)


def record(  # noqa: PLR0913
    model: Model,
    *,
    name: str | None = None,
    out: str | Path = "padiff_dump",
    phase: str = "backward",
    include: Sequence[str | Model] = (),
    exclude: Sequence[str | Model] = (),
    depth: int | None = None,
    overwrite: bool = False,
    compression: int | None = None,
    content: str = "full",
    replicas: str | Sequence[int] = (),
    program: bool = True,
    framework: str | None = None,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    steps: Iterable[int] | None = None,
    every: int | None = None,
    rank_wait_s: float | None = None,
    alone: bool = False,
) -> Recorder:
    """Record every call of a model's modules while a ``with`` block runs.

    ::

        with padiff.record(model, name="resnet") as recorder:
            loss = model(x).mean()
            loss.backward()
        print(recorder.path)

    A training script calls ``recorder.step()`` at the end of each of its steps::

        with padiff.record(model, optimizer=optimizer, steps=[0, 1, 100]) as recorder:
            for batch in loader:
                loss = criterion(model(batch["x"]), batch["y"])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                recorder.step(loss=loss)

    Where something cannot be recorded, the recording ends with a message on stderr and the block
    goes on; ``recorder.path`` then raises. Nothing is left on the model afterwards. If the block
    raises, the exception passes through, and a dump that was there before stays as it was.

    Args:
        model: A ``torch.nn.Module`` or ``paddle.nn.Layer``; DataParallel, DDP and compiled
            wrappers are looked through.
        name: Name of the dump; by default the model's class name.
        out: Directory of all dumps.
        phase: ``"backward"``, or ``"forward"`` to leave all gradients out.
        include: Patterns of modules to record, such as ``encoder.*`` or ``type:Linear@self``, or
            modules; none means all.
        exclude: Patterns of modules to leave out, or modules; they win.
        depth: Deepest level whose calls are recorded; the root is 0.
        overwrite: Replace an existing dump of that name.
        compression: Deflate level 1 to 9; by default values lie uncompressed.
        content: How much of each tensor: ``"full"``, ``"sample=4096"``, ``"stats"``, ``"digest"``.
        replicas: Of several processes, the ranks that hold the same weights as others, as a list
            or as ``"1-"``: digests, statistics and inputs of them are written, no other elements.
        program: Whether the operators are recorded, where the framework lets them be seen.
        framework: ``"torch"``, ``"paddle"`` …; by default found from the model.
        optimizer: What changes the weights, one or several; by default whatever optimizer trains
            the model. Each recorded step holds its update, too, and the gradients that it takes
            (unscaled).
        steps: Numbers of the steps to record, by default all; outside them no hook is left on
            the model.
        every: Record step 0 and each that many steps after it.
        rank_wait_s: Of several processes (torchrun, paddle.distributed.launch) each records its
            rank into one dump. How long they wait for each other at the end, 300 s by default;
            without a rank there is no dump, and all say so.
        alone: Record this process by itself, even where a launcher started several.

    Raises:
        ConfigError: The model or an option cannot be used.
    """
    if phase not in ("forward", "backward"):
        raise ConfigError(f"cannot record phase {phase!r}: expected 'forward' or 'backward'")
    settings = RecordSettings(
        out=Path(out),
        name=name,
        phase=Phase(phase),
        include=patterns_of("include", include, model),
        exclude=patterns_of("exclude", exclude, model),
        depth=depth,
        overwrite=overwrite,
        compression=compression,
        content=Keep.parse(content),
        replicas=(
            parse_ranks(replicas)
            if isinstance(replicas, str)
            else tuple(range(rank, rank + 1) for rank in replicas)
        ),
        program=program,
        plan=StepPlan(steps=None if steps is None else frozenset(steps), every=every),
        rank_wait_s=rank_wait_s,
        alone=alone,
        raises=False,
    )
    adapter = adapters.find(model) if framework is None else adapters.load(framework)
    return Recorder(model, settings, adapter, optimizers=_optimizers(optimizer))


def _optimizers(given: Optimizer | Sequence[Optimizer] | None) -> tuple[Optimizer, ...]:
    if given is None:
        return ()
    return tuple(given) if isinstance(given, list | tuple) else (given,)
