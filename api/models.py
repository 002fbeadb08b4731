"""Dump two models, each in a process of its own, and compare them: one call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from padiff.comparing import Comparison, compare
from padiff.dumper.adapter import Keywords
from padiff.dumper.runs.inputs import load_inputs, parse_input
from padiff.dumpfile import ConfigError, RecordError
from padiff.dumpfile.scratch import scratch_folder
from padiff.inprocess import auto_diff

_GRAPHS = (".onnx",)
"""Models that are files have their own weights."""
_ANY = Keywords(names=(), takes_any=True)


def compare_models(  # noqa: PLR0913 - all by keyword
    reference: object,
    candidate: object,
    inputs: object,
    *,
    share_weights: bool = True,
    dump: Sequence[str] = (),
    python_reference: Path | str = sys.executable,
    python_candidate: Path | str = sys.executable,
    out: Path | str | None = None,
    **comparing: Any,  # noqa: ANN401 - options by name
) -> Comparison:
    """Dump two models on the same inputs and compare them.

    ``padiff.compare_models("torch_net.py:build", "paddle_net.py:build", (1, 3, 224, 224))``

    Models that are named are built and run in one process each, so that two frameworks never meet,
    and may be of two environments. Models that are objects run in this one, as by ``auto_diff``.

    Args:
        reference: The model held to be right: ``"FILE.py:FACTORY"``, ``"MODULE:FACTORY"``, a file
            ``FILE.onnx``, or a model.
        candidate: The same of the one to judge.
        inputs: One input or a list of them, in the order of the arguments: a shape, whose numbers
            are drawn in float32; ``"auto:2x16:int64:0:1000"``, drawn as ``padiff dump --inputs``
            does; a file; an array of numpy. Texts may begin with ``NAME=`` for a keyword.
        share_weights: Give the candidate the reference's weights; not for files.
        dump: Further options of ``padiff dump`` for both named models, such as ``["--train"]``.
        python_reference: The interpreter that runs a named reference; padiff is installed there.
        python_candidate: The same of the candidate.
        out: Folder that keeps both dumps, ``reference`` and ``candidate``; by default none does.
        **comparing: Options of ``padiff.compare``; of ``auto_diff`` for models that are objects.

    Returns:
        The comparison; true if it is a match. Nothing is printed.

    Raises:
        ConfigError: An input is unusable, or one model is named and the other is an object.
        RecordError: A model could not be dumped; with what its process said.
        DumpError: A dump cannot be read.
    """
    sides = reference, candidate
    are_named = [isinstance(one, (str, Path)) for one in sides]
    if any(are_named) != all(are_named):
        kinds = " and ".join("a name" if named else "an object" for named in are_named)
        raise ConfigError(
            f"cannot compare models: expected two names or two objects, found {kinds}",
            hint='name a model as "FILE.py:FACTORY"',
        )
    with scratch_folder() as scratch:
        texts = list(_texts(inputs, scratch))
        if not any(are_named):
            more = {"auto_init": share_weights, "out": out, "quiet": True, **comparing}
            return auto_diff(*sides, [_arguments(texts)] * 2, **more)
        options = [*(part for text in texts for part in ("--inputs", text)), *dump]
        folder = scratch if out is None else Path(out)
        known = _dump(python_reference, reference, folder / "reference", options)
        if share_weights and Path(str(candidate)).suffix not in _GRAPHS:
            options += ["--weights-from", str(known)]
        found = _dump(python_candidate, candidate, folder / "candidate", options)
        comparison = compare(known, found, **comparing)
    return replace(comparison, places=None) if out is None else comparison


def _arguments(texts: Sequence[str]) -> Any:  # noqa: ANN401 - what auto_diff takes
    """Return what two models that are objects are fed.

    Raises:
        ConfigError: Some inputs have a name and some have none.
    """
    given = load_inputs([parse_input(text) for text in texts], _ANY)
    if given.keywords and given.positional:
        raise ConfigError(
            "cannot feed models that are objects: some inputs have a name, some have none",
            hint="give all of them a name",
        )
    return dict(given.keywords) or given.positional


def _texts(inputs: object, folder: Path) -> Iterator[str]:
    """Yield inputs as ``padiff dump --inputs`` takes them; arrays are written to files."""
    for place, one in enumerate(_listed(inputs)):
        if isinstance(one, (str, Path)):
            yield str(one)
        elif isinstance(one, np.ndarray):
            path = folder / f"input{place}.npy"
            np.save(path, one, allow_pickle=False)
            yield str(path)
        elif _is_shape(one):
            yield f"auto:{'x'.join(map(str, one))}"
        else:
            raise ConfigError(
                f"cannot use input {place}: expected a shape, a text, a file or an array of numpy, "
                f"found {type(one).__name__}"
            )


def _listed(inputs: object) -> Sequence[object]:
    if isinstance(inputs, list) or (isinstance(inputs, tuple) and not _is_shape(inputs)):
        return inputs
    return [inputs]


def _is_shape(thing: object) -> TypeGuard[tuple[int, ...]]:
    return isinstance(thing, tuple) and bool(thing) and all(type(size) is int for size in thing)


def _dump(python: Path | str, model: object, path: Path, options: Sequence[str]) -> Path:
    """Dump a model in a process of its own.

    Raises:
        RecordError: It cannot be run, or fails; with what it said.
    """
    command = [str(python), "-m", "padiff", "dump", "--model", str(model), *options]
    command += ["--out", str(path.parent), "--name", path.name]
    what = f"cannot dump the {path.name} {str(model)!r}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RecordError(f"{what}: {error}") from error
    if done.returncode:
        said = done.stderr.strip().removeprefix("padiff: error: ")
        said = said or f"its process ended with status {done.returncode}"
        raise RecordError(f"{what}: {said}")
    return path
