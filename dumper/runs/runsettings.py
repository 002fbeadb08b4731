"""What one ``padiff dump`` does, as one immutable value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError, Content, Phase

from .feedphase import FeedPhase

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.dumper.recording.recordsettings import Counts, RecordSettings

    from .inputs import InputSource
    from .repeat import RepeatSettings
    from .target import Target

LARGEST_SEED = 2**32 - 1
"""numpy's generator takes no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """What happens after the forward pass, and how often."""

    steps: int = 1
    loss: Target | None = None
    """None takes the mean of the outputs."""
    outputs: tuple[str, ...] = ()
    """Outputs that the default loss takes; empty takes those that the reference's takes."""
    labels: tuple[InputSource, ...] = ()
    """Further arguments of the loss."""
    optimizer: Target | None = None
    """None changes no weights."""
    scheduler: Target | None = None
    largest_norm: float | None = None
    """Clip the gradients to this total norm before the update; None leaves them."""
    no_dropout: bool = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            ConfigError: No steps, labels without a loss, a schedule or clip without optimizer.
        """
        if self.steps < 1:
            raise ConfigError(f"cannot run {self.steps} steps: expected 1 or more")
        if self.labels and self.loss is None:
            raise ConfigError("cannot use --label without --loss: nothing would take it")
        if self.outputs and self.loss is not None:
            raise ConfigError("cannot use --outputs with --loss: the loss decides what it takes")
        for name, value in (
            ("--lr-scheduler", self.scheduler),
            ("--clip-grad-norm", self.largest_norm),
        ):
            if value is not None and self.optimizer is None:
                raise ConfigError(f"cannot use {name} without --optimizer: nothing is updated")
        if self.largest_norm is not None and not self.largest_norm > 0:
            raise ConfigError(f"cannot clip to norm {self.largest_norm}: expected more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """One ``padiff dump``."""

    model: Target
    record: RecordSettings
    inputs: tuple[InputSource, ...] = ()
    inputs_from: Path | None = None
    """A dump whose root inputs are fed; instead of ``inputs``."""
    framework: str | None = None
    """None finds it from the model."""
    device: str | None = None
    """None leaves the model where its factory put it."""
    dtype: str | None = None
    """Cast floating parameters and buffers; None leaves them."""
    training: bool = False
    seed: int = 0
    deterministic: bool = False
    """Ask the framework for kernels that give the same result each time, for the whole process."""
    keep_dtype: bool = False
    """Feed floating inputs in their own dtype instead of the model's."""
    weights_from: Path | None = None
    map_file: Path | None = None
    weights_strict: bool = True
    no_run: bool = False
    """Write structure and weights only; needs no inputs."""
    feed: Path | None = None
    """A dump of which each paired call hands the recorded output on; also gives the inputs where
    there are no others."""
    feed_phase: FeedPhase = FeedPhase.BOTH
    train: TrainSettings = TrainSettings()
    """Steps, loss, optimizer."""
    repeat: RepeatSettings | None = None
    """Measure the noise floor; None does not."""
    command: tuple[str, ...] = ()
    """The command line, for the manifest."""

    def __post_init__(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            ConfigError: Two sources of inputs, a map without weights, or a seed out of range.
        """
        if self.inputs and self.inputs_from is not None:
            raise ConfigError("cannot use --inputs together with --inputs-from: give one of them")
        if self.no_run and (self.inputs or self.inputs_from is not None):
            raise ConfigError("cannot use inputs together with --no-run: drop one of them")
        if self.map_file is not None and self.weights_from is None and self.feed is None:
            raise ConfigError("cannot use --map without --weights-from: nothing would be mapped")
        if self.feed_phase is FeedPhase.BACKWARD and self.record.phase is Phase.FORWARD:
            raise ConfigError("cannot use --feed-phase backward with --phase forward: drop one")
        if self.train.optimizer is not None and self.record.phase is Phase.FORWARD:
            raise ConfigError("cannot use --optimizer with --phase forward: drop one of them")
        if self.repeat is not None and self.no_run:
            raise ConfigError("cannot use --repeat with --no-run: nothing would move")
        kept = self.record.content
        if self.repeat is not None and kept.content in (Content.STATS, Content.DIGEST):
            raise ConfigError(
                f"cannot use --repeat with --content {kept}: how far elements move would not be "
                "known",
                hint="record with `--content sample=4096`",
            )
        if not 0 <= self.seed <= LARGEST_SEED:
            raise ConfigError(f"cannot use seed {self.seed}: expected 0 to {LARGEST_SEED}")


class Progress:
    """Hears what is being done; this one says nothing, the command line's draws."""

    def stage(self, name: str, counts: Callable[[], Counts] | None = None) -> None:
        """Take note that a stage begins.

        Args:
            name: ``forward``, ``writing`` …
            counts: Gives what was recorded so far, at any time until the next stage.
        """
