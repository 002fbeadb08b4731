"""Read what the model is fed and make tensors of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumper.adapter import Keywords
from padiff.dumper.recording.nested import flatten, flatten_call
from padiff.dumpfile import InputInfo, Phase, digest_of

from .inputs import Inputs, check_keyword, in_place, load_inputs, renamed
from .replay import Recorded, inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Array, Model, Tensor

    from .runsettings import RunSettings

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""

_ANY = Keywords(names=(), takes_any=True)
"""What a loss accepts is not known."""


class StepInputs:
    """What the model and the loss take in each step."""

    def __init__(self, settings: RunSettings, adapter: Adapter, model: Model) -> None:
        """Read what step 0 takes.

        Args:
            settings: Says where it comes from. ``{step}`` in a file's name is the step's number;
                files without it serve all steps, as does a dump with one step.
            adapter: The model's framework.
            model: The model.

        Raises:
            ConfigError: A file cannot be read, or does not fit the model's forward.
            DumpError: The dump to feed from cannot be read.
        """
        self._settings = settings
        self._adapter = adapter
        self._model = model
        self.notes: tuple[str, ...] = ()
        """What to say of where the inputs went."""
        self._first = self._read(0)

    def arguments(self, step: int) -> Arguments:
        """Make fresh tensors of what the model takes."""
        inputs = self._first if step == 0 or self._is_same else self._read(step)
        # Without a weight to train, only the inputs can start a backward pass.
        wants_grad = self._settings.record.phase is Phase.BACKWARD and not any(
            owned.is_weight and self._adapter.requires_grad(owned.tensor)
            for _, module in self._adapter.named_modules(self._model)
            for owned in self._adapter.own_tensors(module)
        )
        return self._convert(inputs, wants_grad=wants_grad)

    def labels(self, step: int) -> Arguments:
        """Make fresh tensors of what the loss takes beside the outputs."""
        sources = [one.of_step(step) for one in self._settings.train.labels]
        return self._convert(load_inputs(sources, _ANY), wants_grad=False)

    def named_labels(self, labels: Arguments) -> Iterator[tuple[str, Tensor]]:
        """Yield each label tensor with the name under which it is recorded."""
        for slot, tensor in flatten_call(*labels, self._adapter.is_tensor).tensors:
            yield f"label{slot}", tensor

    def describe(self) -> tuple[InputInfo, ...]:
        """State what step 0 takes."""
        return tuple(_describe(self._first))

    @property
    def _is_same(self) -> bool:
        """Return whether all steps take the same."""
        sources = self._settings.inputs
        return self._source is None and all(one.of_step(1) == one for one in sources)

    @property
    def _source(self) -> Path | None:
        """Return the dump that the inputs come from."""
        settings = self._settings
        return settings.inputs_from or (None if settings.inputs else settings.feed)

    def _read(self, step: int) -> Inputs:
        keywords = self._adapter.forward_keywords(self._model)
        source = self._source
        if source is None:
            files = [one.of_step(step) for one in self._settings.inputs]
            return in_place(load_inputs(files, keywords), keywords)
        recorded = inputs_of(source, step=step)
        inputs = renamed(recorded, keywords)
        if inputs is not recorded:
            both = zip(recorded.keywords, inputs.keywords, strict=True)
            given = ", ".join(f"{name} as {own}" for name, own in both)
            self.notes = (f"inputs: taken in order, {given}",)
        for name in inputs.keywords:
            check_keyword(name, keywords, where=f"the inputs of {str(source)!r}")
        return in_place(inputs, keywords)

    def _convert(self, inputs: Inputs, *, wants_grad: bool) -> Arguments:
        """Make tensors of all arrays, floating ones in the model's dtype."""
        adapter, settings = self._adapter, self._settings
        device = settings.device or adapter.model_device(self._model)
        floating = None if settings.keep_dtype else adapter.model_dtype(self._model) or None

        def convert(value: object) -> object:
            if isinstance(value, dict):
                return {key: convert(part) for key, part in value.items()}
            if isinstance(value, tuple):
                return tuple(convert(part) for part in value)
            recorded = isinstance(value, Recorded) and value.requires_grad
            array = value.array if isinstance(value, Recorded) else value
            if not isinstance(array, np.ndarray):
                return array
            is_float = "float" in array.dtype.name
            return adapter.tensor(
                array,
                device=device,
                dtype=floating if is_float else None,
                requires_grad=recorded or (wants_grad and is_float),
            )

        positional = tuple(convert(value) for value in inputs.positional)
        return positional, {name: convert(value) for name, value in inputs.keywords.items()}


def _describe(inputs: Inputs) -> Iterator[InputInfo]:
    """State what was read, before it took the model's dtype."""
    places: list[tuple[str, Any]] = [(f"[{at}]", part) for at, part in enumerate(inputs.positional)]
    places += [(f"[{name!r}]", part) for name, part in inputs.keywords.items()]
    for place, value in places:
        for slot, leaf in flatten(value, _is_leaf).tensors:
            array: Array = leaf.array if isinstance(leaf, Recorded) else leaf
            yield InputInfo(
                name=place + slot,
                dtype=array.dtype.name,
                shape=array.shape,
                digest=digest_of(array),
            )


def _is_leaf(value: object) -> bool:
    return isinstance(value, np.ndarray | Recorded)
