"""Einstein's notation in terms of sums, transposes and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from padiff.program.lowering.builder import Builder, NotLoweredError, Term

from .shaping import move_axis, reshape, transpose


def einsum(b: Builder, equation: str, operands: Sequence[Term]) -> Term:
    """Contract operands from left to right."""
    inputs, output = _labels(equation.replace(" ", ""), operands)
    parts = [_without_repeats(b, x, labels) for x, labels in zip(operands, inputs, strict=True)]
    x, labels = parts[0]
    for index, (other, other_labels) in enumerate(parts[1:], 1):
        later = set(output).union(*(labels_ for _, labels_ in parts[index + 1 :]))
        x, labels = _contract(b, (x, labels), (other, other_labels), later)
    x, labels = _summed(b, x, labels, set(output))
    return transpose(b, x, [labels.index(label) for label in output])


def _labels(equation: str, operands: Sequence[Term]) -> tuple[list[list[str]], list[str]]:
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(operands):
        raise NotLoweredError("an equation for another number of operands")
    wide = max(
        (x.ndim - len(text.replace("...", "")) for text, x in zip(texts, operands, strict=True)
         if "..." in text),
        default=0,
    )  # fmt: skip
    rest = [f"<{place}>" for place in range(wide)]
    inputs = []
    for text, x in zip(texts, operands, strict=True):
        before, dots, after = text.partition("...")
        count = x.ndim - len(before) - len(after) if dots else 0
        inputs.append([*before, *rest[wide - count :], *after])
        if len(inputs[-1]) != x.ndim:
            raise NotLoweredError("labels that do not fit the axes")
    if arrow:
        before, dots, after = right.partition("...")
        return inputs, [*before, *(rest if dots else []), *after]
    flat = [label for labels in inputs for label in labels]
    once = sorted(label for label in set(flat) if flat.count(label) == 1 and label not in rest)
    return inputs, [*rest, *once]


def _without_repeats(b: Builder, x: Term, labels: list[str]) -> tuple[Term, list[str]]:
    """Take the diagonal of axes with one label."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i, j = [place for place, each in enumerate(labels) if each == label][:2]
            x = b("diagonal", move_axis(b, x, [i, j], [x.ndim - 2, x.ndim - 1]), offset=0)
            labels = [each for place, each in enumerate(labels) if place not in {i, j}] + [label]
    return x, labels


def _summed(b: Builder, x: Term, labels: list[str], kept: set[str]) -> tuple[Term, list[str]]:
    gone = tuple(place for place, label in enumerate(labels) if label not in kept)
    if not gone:
        return x, labels
    total = b("sum", x, axes=gone, keepdims=False)
    return total, [label for label in labels if label in kept]


def _contract(
    b: Builder, first: tuple[Term, list[str]], second: tuple[Term, list[str]], later: set[str]
) -> tuple[Term, list[str]]:
    """Contract two operands to the labels that are needed later, as a product of matrices."""
    x, x_labels = _summed(b, *first, later | set(second[1]))
    y, y_labels = _summed(b, *second, later | set(first[1]))
    both = [label for label in x_labels if label in y_labels]
    size: dict[str, int] = {}
    for term, labels in ((x, x_labels), (y, y_labels)):
        for label, extent in zip(labels, term.shape, strict=True):
            size[label] = max(extent, size.get(label, 1)) if extent else 0
    x, y = _grown(b, x, x_labels, size, both), _grown(b, y, y_labels, size, both)
    batch = [label for label in both if label in later]
    inner = [label for label in both if label not in later]
    rows = [label for label in x_labels if label not in both]
    columns = [label for label in y_labels if label not in both]

    def group(labels: list[str]) -> int:
        return math.prod(size[label] for label in labels)

    x = transpose(b, x, [x_labels.index(label) for label in (*batch, *rows, *inner)])
    y = transpose(b, y, [y_labels.index(label) for label in (*batch, *inner, *columns)])
    outer = [size[label] for label in batch]
    x = reshape(b, x, (*outer, group(rows), group(inner)))
    y = reshape(b, y, (*outer, group(inner), group(columns)))
    labels = [*batch, *rows, *columns]
    return reshape(b, x @ y, [size[label] for label in labels]), labels


def _grown(b: Builder, x: Term, labels: list[str], size: dict[str, int], both: list[str]) -> Term:
    """Broadcast axes of size one where the other operand has more."""
    shape = tuple(
        size[label] if label in both else extent
        for label, extent in zip(labels, x.shape, strict=True)
    )
    return x if shape == x.shape else b("expand", x, shape=shape)


def tensordot(b: Builder, x: Term, y: Term, x_axes: Sequence[int], y_axes: Sequence[int]) -> Term:
    """Sum products over pairs of axes; the free axes of both remain in order."""
    x_axes = [axis % x.ndim for axis in x_axes]
    y_axes = [axis % y.ndim for axis in y_axes]
    x_free = [axis for axis in range(x.ndim) if axis not in x_axes]
    y_free = [axis for axis in range(y.ndim) if axis not in y_axes]
    inner = math.prod(x.shape[axis] for axis in x_axes)
    shape = [x.shape[axis] for axis in x_free] + [y.shape[axis] for axis in y_free]
    left = reshape(b, transpose(b, x, [*x_free, *x_axes]), (x.spec.count // max(inner, 1), inner))
    right = reshape(b, transpose(b, y, [*y_axes, *y_free]), (inner, y.spec.count // max(inner, 1)))
    return reshape(b, left @ right, shape)
