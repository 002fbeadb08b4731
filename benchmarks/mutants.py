"""Mistakes in the source of models of transformers: ``python -m benchmarks.mutants [TYPE ...]``.

Of each type of model (``zoo.py``) some lines that it runs are changed, one at a time: an operand
left out, a sum for a difference, another number, axis or function, a statement less. A mutant that
computes something else has to diverge, and the report should name the line; one that computes the
same has to match. What is told of each is printed, and counted in the end; nothing is held against
a baseline, since which lines there are is transformers' to say.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

import padiff

from .zoo import build, count_outcomes, inputs_of, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    from .zoo import Inputs, Model

    Change = Callable[[Any, random.Random], ast.AST | None]

_OTHER = 1e-3
"""Of its size, by which a result or gradient differs at least that is another one; those that
differ by less are not counted."""
_TRIES = 8
"""For each mutant that is counted."""
_DRAWS = 10_000
"""Of a mistake and a place: in most places most mistakes are none."""
_TWO = 2
_BUILDING = frozenset({"__init__", "_init_weights", "extra_repr"})
_INSTEAD = {
    "cos": "sin", "exp": "expm1", "gelu": "relu", "max": "min", "mean": "sum", "min": "max",
    "ones": "zeros", "relu": "tanh", "rsqrt": "sqrt", "sigmoid": "tanh", "silu": "gelu",
    "sin": "cos", "softmax": "sigmoid", "sqrt": "rsqrt", "sum": "mean", "tanh": "sigmoid",
    "tril": "triu", "triu": "tril", "zeros": "ones",
}  # fmt: skip
"""Functions that take what others take."""
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip


def _turned(node: ast.BinOp, _draw: random.Random) -> ast.AST | None:
    other = _OPERATORS.get(type(node.op))
    return None if other is None else ast.BinOp(node.left, other(), node.right)


def _one_operand(node: ast.BinOp, draw: random.Random) -> ast.AST | None:
    return draw.choice([node.left, node.right]) if type(node.op) in _OPERATORS else None


def _other_number(node: ast.Constant, draw: random.Random) -> ast.AST | None:
    value = node.value
    if isinstance(value, bool):
        return ast.Constant(not value)
    if isinstance(value, int):
        return ast.Constant(value + draw.choice([-1, 1]))
    return ast.Constant(value * draw.choice([0.5, 1.1, 2])) if isinstance(value, float) else None


def _left_out(node: ast.Call, _draw: random.Random) -> ast.AST | None:
    has_operand = node.args and not isinstance(node.args[0], ast.Starred)
    return node.args[0] if has_operand else None


def _method_left_out(node: ast.Call, _draw: random.Random) -> ast.AST | None:
    return node.func.value if isinstance(node.func, ast.Attribute) else None


def _other_function(node: ast.Call, _draw: random.Random) -> ast.AST | None:
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _INSTEAD:
        return None
    function = ast.Attribute(node.func.value, _INSTEAD[node.func.attr], ast.Load())
    return ast.Call(function, node.args, node.keywords)


def _exchanged(node: ast.Call, _draw: random.Random) -> ast.AST | None:
    two, rest = node.args[:_TWO], node.args[_TWO:]
    return ast.Call(node.func, [*reversed(two), *rest], node.keywords) if two[1:] else None


def _keyword_left_out(node: ast.Call, draw: random.Random) -> ast.AST | None:
    is_class = isinstance(node.func, ast.Name) and node.func.id[0].isupper()
    if is_class or not node.keywords:
        return None  # what a model gives by a name is not there then
    gone = draw.choice(node.keywords)
    return ast.Call(node.func, node.args, [one for one in node.keywords if one is not gone])


def _sign_left_out(node: ast.UnaryOp, _draw: random.Random) -> ast.AST | None:
    is_sign = isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant)
    return node.operand if is_sign else None


def _statement_left_out(node: ast.Assign, _draw: random.Random) -> ast.AST | None:
    target = node.targets[0]
    names = {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)}
    return ast.Pass() if isinstance(target, ast.Name) and target.id in names else None


MISTAKES: Mapping[str, tuple[type[ast.AST], Change]] = {
    "turned": (ast.BinOp, _turned),
    "one operand": (ast.BinOp, _one_operand),
    "other number": (ast.Constant, _other_number),
    "left out": (ast.Call, _left_out),
    "method left out": (ast.Call, _method_left_out),
    "other function": (ast.Call, _other_function),
    "exchanged": (ast.Call, _exchanged),
    "keyword left out": (ast.Call, _keyword_left_out),
    "sign left out": (ast.UnaryOp, _sign_left_out),
    "statement left out": (ast.Assign, _statement_left_out),
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module's source with one mistake."""

    tree: ast.Module
    what: str
    lines: range


def lines_run(model: Model, inputs: Inputs, file: str) -> set[int]:
    """Return the lines of a file that a forward pass runs."""
    found: set[int] = set()

    def of_line(frame: FrameType, _event: str, _argument: object) -> object:
        found.add(frame.f_lineno)
        return of_line

    def of_call(frame: FrameType, event: str, argument: object) -> object:
        return of_line(frame, event, argument) if frame.f_code.co_filename == file else None

    sys.settrace(of_call)  # type: ignore[arg-type]
    try:
        with torch.no_grad():
            model(**inputs)
    finally:
        sys.settrace(None)
    return found


def mutants(tree: ast.Module, lines: set[int], draw: random.Random) -> Iterator[Mutant]:
    """Yield copies of a module with one mistake each in some lines."""
    inside = [
        place
        for place, node in enumerate(ast.walk(tree))
        if getattr(node, "lineno", -1) in lines and not _is_building(tree, node)
    ]
    for _ in range(_DRAWS if inside else 0):
        kind = draw.choice(list(MISTAKES))
        mutant = copy.deepcopy(tree)
        node: Any = list(ast.walk(mutant))[draw.choice(inside)]
        wanted, change = MISTAKES[kind]
        other = change(node, draw) if isinstance(node, wanted) else None
        if other is not None:
            before = ast.unparse(node)
            lines_of = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            what = f"{kind} in line {node.lineno}: {before} -> {ast.unparse(other)}"
            _Replacing(node, ast.copy_location(other, node)).visit(mutant)
            yield Mutant(ast.fix_missing_locations(mutant), what, lines_of)


def _is_building(tree: ast.Module, node: ast.AST) -> bool:
    functions = (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))
    building = [one for one in functions if one.name in _BUILDING]
    line = getattr(node, "lineno", -1)
    return any(one.lineno <= line <= (one.end_lineno or one.lineno) for one in building)


class _Replacing(ast.NodeTransformer):
    def __init__(self, before: ast.AST, after: ast.AST) -> None:
        self._before, self._after = before, after

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._before:
            return self._after
        return self.generic_visit(node)


def _with_source(model: Model, tree: ast.Module) -> Model:
    """Build a model once more from other source."""
    module = sys.modules[type(model).__module__]
    other = ModuleType(module.__name__)
    other.__dict__.update({name: getattr(module, name) for name in ("__file__", "__package__")})
    exec(compile(tree, module.__file__ or "", "exec"), other.__dict__)
    torch.manual_seed(0)
    found = getattr(other, type(model).__name__)(copy.deepcopy(model.config)).eval()
    found.load_state_dict(model.state_dict())
    return found


def _results(model: Model, inputs: Inputs) -> list[torch.Tensor]:
    """Return all results and gradients; these of the first result."""
    torch.manual_seed(1)
    model.zero_grad()
    output = model(**inputs)
    output[0].float().square().mean().backward()
    results = [one.detach() for one in output.values() if isinstance(one, torch.Tensor)]
    gradients = [one.grad for one in model.parameters()]
    model.zero_grad()
    return [*results, *(torch.zeros(()) if one is None else one for one in gradients)]


def _distance(known: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> float:
    """Return the largest difference over the size of what differs; infinity for other shapes.

    Of what is not finite nobody says what it should be: nan.
    """
    largest = 0.0
    for one, two in zip(known, found, strict=True):
        if not torch.isfinite(two).all():
            return float("nan")
        if one.shape != two.shape:
            return float("inf")
        size = float(one.abs().max()) if one.numel() else 0.0
        off = float((one - two).abs().max()) if one.numel() else 0.0
        largest = max(largest, off / size if size else off)
    return largest


def outcomes(name: str, folder: Path, count: int) -> Iterator[str]:
    """Yield what becomes of the mutants of a type: a word for each."""
    model = build(name, "eager")
    model.config.use_cache = False
    inputs, known = inputs_of(model), None
    file = sys.modules[type(model).__module__].__file__ or ""
    lines, right = lines_run(model, inputs, file), _results(model, inputs)
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    draw, left = random.Random(name), count
    for _, mutant in zip(range(_TRIES * count), mutants(tree, lines, draw), strict=False):
        try:
            candidate = _with_source(model, mutant.tree)
            distance = _distance(right, _results(candidate, inputs))
        except Exception:  # such a mistake nobody overlooks
            continue
        if not (distance == 0 or distance > _OTHER):
            continue
        known = known or recorded(folder, "reference", model, inputs)
        found = recorded(folder, "candidate", candidate, inputs)
        report = padiff.compare(known, found).report(width=240)
        first = report.partition("\n")[0]
        is_told = any(f"{Path(file).name}:{line}" in report for line in mutant.lines)
        word = _word(distance, is_match=first.startswith("MATCH"), is_told=is_told)
        print(f"{name}: {word}: {first[:60]}: {mutant.what}"[:300], flush=True)
        yield word
        left -= 1
        if not left:
            return


def _word(distance: float, *, is_match: bool, is_told: bool) -> str:
    if not distance:
        return "computes the same: " + ("match" if is_match else "FALSE ALARM")
    if is_match:
        return "computes something else: FALSE MATCH"
    return "computes something else: " + ("line told" if is_told else "told otherwise")


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*", help="of transformers; all")
    parser.add_argument("--each", type=int, default=3, help="mutants of each type")
    chosen = parser.parse_args()
    counts = count_outcomes(chosen.types, lambda name, folder: outcomes(name, folder, chosen.each))
    return int(any("FALSE" in what for what in counts))


if __name__ == "__main__":
    sys.exit(_main())
