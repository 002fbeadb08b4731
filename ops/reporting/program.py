"""A case as a program to run: of either framework alone, or of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.ops.cases import Argument, Case, Dtype, Layout, Tensor, signs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from padiff.ops.judging import Finding
    from padiff.ops.table import Call, Row

_TENSOR = {"torch": "torch.tensor({0}, dtype=torch.{1})", "paddle": "paddle.to_tensor({0}, '{1}')"}
_TRANSPOSED = {"torch": "{0}.permute({1})", "paddle": "{0}.transpose([{1}])"}
_GRADED = {"torch": "{0}.requires_grad_()", "paddle": "{0}.stop_gradient = False"}
_BACKWARD = {
    "torch": "torch.autograd.grad(ends, [{0}], arriving, allow_unused=True)",
    "paddle": "paddle.grad(ends, [{0}], arriving, allow_unused=True)",
}
_CLASS = {"torch": "torch.Tensor", "paddle": "paddle.Tensor"}


def program_of(row: Row, case: Case, finding: Finding, frameworks: Iterable[str]) -> str:
    """Return the text of a program that shows a finding.

    It defines a function for each framework, and calls those that are named on its command line,
    or all of them.
    """
    names = list(frameworks)
    lines = [f"# {finding.bucket.name}", "import runpy", "import sys", "", "import numpy as np", ""]
    lines += ["nan, inf = float('nan'), float('inf')", ""]
    variables = _variables(case)
    for tensor, name in variables.values():
        lines.append(f"{name} = {literal(tensor)}")
    for place, shape in enumerate(finding.shapes):
        lines.append(
            f"arriving_{place} = {array_text(signs(int(np.prod(shape)), case.seed + place), shape)}"
        )
    for framework in names:
        difference = row.frameworks[framework]
        lines += ["", "", *_function(framework, difference.call(case), variables, finding)]
    lines += ["", "", "for name in sys.argv[1:] or " + repr(names) + ":"]
    lines.append("    {" + ", ".join(f"{one!r}: with_{one}" for one in names) + "}[name]()")
    return "\n".join(lines) + "\n"


def _variables(case: Case) -> dict[int, tuple[Tensor, str]]:
    """Return each tensor of a case with the name of its elements, by identity."""
    return {
        id(tensor): (tensor, name.replace("[", "_").replace("]", ""))
        for name, tensor in case.named_tensors
    }


def array_text(
    array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], shape: tuple[int, ...]
) -> str:
    """Return an array as Python."""
    return f"np.array({array.reshape(shape).tolist()!r}).reshape({shape!r})"


def literal(tensor: Tensor) -> str:
    """Return the elements of a tensor as Python."""
    array = tensor.array()
    if array.dtype.kind in "fV":
        array = array.astype(np.float64)
    return array_text(array, tensor.shape)


def _function(
    framework: str, call: Call, variables: Mapping[int, tuple[Tensor, str]], finding: Finding
) -> list[str]:
    """Return the lines of the function of one framework."""
    lines = [f"import {framework}", ""]
    graded = []
    for tensor, name in variables.values():
        variable = f"{name}_"
        lines += made_lines(framework, tensor, name, variable)
        if tensor.takes_gradient:
            graded.append(variable)
    text = call_text(framework, call, lambda one: f"{variables[id(one)][1]}_")
    lines.append(f"out = {text}")
    if call.taken:
        lines.append(f"out = {call.taken}")
    lines.append(f"out = [out] if isinstance(out, {_CLASS[framework]}) else list(out)")
    if call.slots is not None:
        lines.append(f"out = [out[slot] for slot in {list(call.slots)!r}]")
    lines += ["for one in out:", f"    print({framework!r}, one)"]
    if finding.shapes and graded:
        lines += _backward(framework, graded, finding)
    return [f"def with_{framework}():", *(f"    {one}" if one else "" for one in lines)]


def made_lines(framework: str, tensor: Tensor, name: str, variable: str) -> list[str]:
    """Return the lines that make a tensor, laid out as in the case."""
    ndim, text = len(tensor.shape), _TENSOR[framework].format(name, tensor.dtype)
    if tensor.layout is Layout.TRANSPOSED and ndim > 1:
        axes = ", ".join(map(str, reversed(range(ndim))))
        turned = _TENSOR[framework].format(f"{name}.T.copy()", tensor.dtype)
        text = _TRANSPOSED[framework].format(turned, axes)
    elif tensor.layout is Layout.STRIDED and ndim:
        wide = _TENSOR[framework].format(f"np.repeat({name}, 2, axis=-1)", tensor.dtype)
        text = f"{wide}[..., ::2]"
    lines = [f"{variable} = {text}"]
    return [*lines, _GRADED[framework].format(variable)] if tensor.takes_gradient else lines


def _backward(framework: str, graded: list[str], finding: Finding) -> list[str]:
    given = ", ".join(f"arriving_{place}" for place in range(len(finding.shapes)))
    has_graph = "one.requires_grad" if framework == "torch" else "not one.stop_gradient"
    made = "torch.tensor(array)" if framework == "torch" else "paddle.to_tensor(array)"
    cast = ".to(one.dtype)" if framework == "torch" else ".astype(one.dtype)"
    return [
        f"pairs = [(one, {made}{cast}) for one, array in zip(out, [{given}]) if {has_graph}]",
        "if pairs:",
        "    ends, arriving = map(list, zip(*pairs))",
        f"    for one in {_BACKWARD[framework].format(', '.join(graded))}:",
        f"        print({framework + ' gradient'!r}, one)",
    ]


def call_text(framework: str, call: Call, named: Callable[[Tensor], str]) -> str:
    """Return a call as Python; ``named`` returns the variable of a tensor."""
    passed = [_expression(one, framework, named) for one in call.positional]
    for name, one in call.keywords.items():
        text = _expression(one, framework, named)
        if name in call.wrapped and one is not None:
            text = f"(lambda x: {call.wrapped[name]})({text})"
        passed.append(f"{name}={text}")
    file, colon, name = call.name.rpartition(":")
    function = f"runpy.run_path({file!r})[{name!r}]" if colon else call.name
    return f"{function}({', '.join(passed)})"


def _expression(one: Argument, framework: str, named: Callable[[Tensor], str]) -> str:
    if isinstance(one, Tensor):
        return named(one)
    if isinstance(one, Dtype):
        return f"{framework}.{one.name}"
    if isinstance(one, tuple):
        return "[" + ", ".join(_expression(each, framework, named) for each in one) + "]"
    return repr(one)
