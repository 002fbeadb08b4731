"""Execute a lowered program, or a slice of it, in float64 numpy.

Nothing of a dump is run: primitives are a closed set, and what each one makes is known and held
against the limits before it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from threadpoolctl import ThreadpoolController

from padiff.dumpfile import ProgramError

from .primitives import VOCABULARY, Array, Primitive, Spec
from .resizing import COUNTED, fit

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from .lowering import Lowered, Node
    from .resizing import Fitted
    from .rounding import Rounding

Leaf: TypeAlias = Array | Callable[[], Array]
"""The elements of a value, or a function that loads them when they are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an execution may take; a program beyond it is an error before anything is allocated."""

    value_bytes: int = 4 << 30
    """Size of one value in float64, also of one that is a view."""
    total_bytes: int = 12 << 30
    """All values at one time, with what the next primitive needs."""
    work: int = 10**14
    """Multiplications and additions of the whole execution: about three hours of one core."""
    counts_anew: bool = False
    """Whether a search may find more or fewer elements than were recorded."""


def execute(
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    wanted: Iterable[int],
    *,
    limits: Limits | None = None,
    rounding: Rounding | None = None,
    observe: Callable[[int, Array], None] | None = None,
    chosen: Mapping[int, Array] | None = None,
) -> dict[int, Array]:
    """Compute values of a program.

    Only what the wanted values need is run, and nothing above values that ``leaves`` holds: with
    values in the middle of the program this executes a slice.

    Args:
        lowered: The program.
        leaves: Elements by the program's value ids, for leaves, outputs of opaque operators and
            whatever else shall be replaced. Floats of any dtype; integers and bools as they are.
        wanted: Ids of values.
        limits: None for the default.
        rounding: Errors to make in each primitive; None makes none.
        observe: Called with each term that is computed, before it is freed, and its elements.
        chosen: What stood first in some sorts, by the term of their places: of equal elements
            any may.

    Returns:
        float64, int64, bool or complex128 arrays by value id; they may share memory.

    Raises:
        ProgramError: A leaf is missing or has another shape, a limit is passed, or the elements
            contradict the program, such as an index beyond its axis.
    """
    wanted = list(wanted)
    unknown = [id_ for id_ in (*wanted, *leaves) if id_ not in lowered.terms]
    if unknown:
        raise ProgramError(f"cannot execute: expected values of the program, found {unknown[0]}")
    run = Execution(lowered, leaves, limits or Limits(), rounding)
    run.observe = observe
    run.chosen = chosen or {}
    return run.compute(wanted)


def on_one_thread() -> AbstractContextManager[object]:
    """Let products of matrices run on one thread as long as the context lasts.

    Their last bits depend on how many threads share them. Most of an execution passes over
    elements, on one thread; those of BLAS, which wait for the next product meanwhile, take as much
    processor time again and save none (``docs/benchmarks.md``).
    """
    _keep_freed_memory()
    limits: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return limits


@cache
def _libraries() -> ThreadpoolController:
    """Find numpy's BLAS and the like, once: it takes a walk over all that is loaded."""
    return ThreadpoolController()


def _keep_freed_memory() -> None:
    """Let the allocator keep freed memory for the next array.

    That of glibc gives it back to the system, which clears each page anew, above twice the size of
    the largest block that was ever freed (mallopt(3), M_MMAP_THRESHOLD). So one as large as counts
    is taken and freed; nothing is written to it. Other allocators do as they do.
    """
    np.empty(_LARGEST_BLOCK_BYTES, np.uint8)


_LARGEST_BLOCK_BYTES = (32 << 20) - (64 << 10)
"""32 MiB is the most that glibc counts (DEFAULT_MMAP_THRESHOLD_MAX), the block's head included."""


class Execution:
    """One execution: what is held, and what it took so far."""

    def __init__(
        self,
        lowered: Lowered,
        leaves: Mapping[int, Leaf],
        limits: Limits,
        rounding: Rounding | None,
    ) -> None:
        self.lowered, self.limits, self.rounding = lowered, limits, rounding
        self.given = {lowered.terms[value]: (value, leaf) for value, leaf in leaves.items()}
        self.arrays: dict[int, Array] = {}
        self.memory = _Memory()
        self.work = 0
        self.observe: Callable[[int, Array], None] | None = None
        self.chosen: Mapping[int, Array] = {}
        self.is_resized = False
        """Whether a search found more or fewer elements than were recorded."""

    def compute(self, wanted: list[int]) -> dict[int, Array]:
        """Return wanted values by their ids."""
        terms = [self.lowered.terms[value] for value in wanted]
        self.run_all(self.needed(terms), terms)
        return {value: self.operand(term) for value, term in zip(wanted, terms, strict=True)}

    def run_all(self, nodes: list[Node], wanted: list[int]) -> None:
        """Run nodes in their order, and keep the terms that are wanted."""
        uses = Counter(operand for node in nodes for operand in node.operands)
        uses.update(wanted)
        with np.errstate(all="ignore"):
            for node in nodes:
                self.run_node(node, uses)

    def needed(self, terms: list[int]) -> list[Node]:
        """Return the nodes that make the terms from what is given, in their order."""
        places = self.lowered.behind(terms, known=self.given)
        return [self.lowered.nodes[place] for place in places]

    def run_node(self, node: Node, uses: Counter[int]) -> None:
        """Run one primitive, and free what nothing uses any more."""
        operands = [self.operand(term) for term in node.operands]
        primitive = VOCABULARY[node.primitive]
        attributes: dict[str, Any] = dict(node.attributes)
        specs = [self.lowered.specs[output] for output in node.outputs]
        fitted = self.fitted(node, operands)
        if fitted is None:
            self.check_limits(node, primitive, specs)
        else:
            operands, attributes, specs = fitted.operands, fitted.attributes, fitted.made
            self.count(node, _cost(primitive, fitted.taken, specs, attributes))
        if self.rounding is not None:
            operands = self.rounding.disturb_operands(node, operands)
        result = primitive.run(*operands, **attributes)
        results = result if isinstance(result, tuple) else (result,)
        if node.outputs[-1] in self.chosen:
            chosen = self.chosen[node.outputs[-1]]
            results = _chosen_first(operands[0], results[1], chosen, attributes["axis"])
        if self.rounding is not None:
            results = tuple(self.rounding.disturb_results(node, operands, results))
        for output, spec, array in zip(node.outputs, specs, results, strict=True):
            if uses[output] and output not in self.given:
                self.keep(output, _checked(array, spec, node))
                if self.observe is not None:
                    self.observe(output, self.arrays[output])
        del operands, result, results
        for term in node.operands:
            uses[term] -= 1
            if not uses[term]:
                self.free(term)

    def check_limits(self, node: Node, primitive: Primitive, specs: list[Spec]) -> None:
        """Count what a primitive takes, before it runs; raises ProgramError beyond a limit."""
        cost = self.lowered.costs.get(node.outputs[0])
        if cost is None:
            operands = [self.lowered.specs[term] for term in node.operands]
            cost = _cost(primitive, operands, specs, dict(node.attributes))
            self.lowered.costs[node.outputs[0]] = cost
        self.count(node, cost)

    def count(self, node: Node, cost: tuple[int, int, int]) -> None:
        """Count what a primitive takes; raises ProgramError beyond a limit."""
        largest, needed, work = cost
        self.work += work
        for what, found, allowed in (
            ("bytes for a value", largest, self.limits.value_bytes),
            ("bytes at one time", self.memory.held_bytes + needed, self.limits.total_bytes),
            ("operations", self.work, self.limits.work),
        ):
            if found > allowed:
                raise ProgramError(
                    f"cannot execute operator {node.operator} ({node.primitive}): "
                    f"expected at most {allowed} {what}, found {found}"
                )

    def fitted(self, node: Node, operands: list[Array]) -> Fitted | None:
        """Return a primitive for the sizes that its operands have; None for those recorded."""
        is_open = self.limits.counts_anew and (self.is_resized or node.primitive in COUNTED)
        recorded = (self.lowered.specs[term] for term in node.operands)
        found = fit(node, operands, [*recorded]) if is_open else None
        self.is_resized = self.is_resized or found is not None
        return found

    def operand(self, term: int) -> Array:
        """Return the elements of a term, loading those that are given."""
        if term not in self.arrays:
            value, leaf = self.given.get(term, (None, None))
            if leaf is None:
                missing = self.lowered.leaves.get(term)
                raise ProgramError(f"cannot execute: expected elements of value {missing}")
            spec = self.lowered.specs[term]
            if spec.size_bytes > self.limits.value_bytes:
                raise ProgramError(
                    f"cannot execute: expected at most {self.limits.value_bytes} bytes for value "
                    f"{value}, found {spec.size_bytes}"
                )
            elements = leaf() if callable(leaf) else leaf
            if elements.shape != spec.shape:
                raise ProgramError(
                    f"cannot execute: expected shape {spec.shape} for value {value}, "
                    f"found {elements.shape}"
                )
            self.keep(term, elements.astype(spec.kind.dtype, copy=False))
        return self.arrays[term]

    def keep(self, term: int, array: Array) -> None:
        """Hold the elements of a term."""
        self.arrays[term] = array
        self.memory.add(array)

    def free(self, term: int) -> None:
        """Let go of them."""
        self.memory.remove(self.arrays.pop(term))


def _cost(
    primitive: Primitive, operands: list[Spec], specs: list[Spec], attributes: dict[str, Any]
) -> tuple[int, int, int]:
    """Return the bytes of the largest result, all bytes that are needed, and the operations."""
    made = sum(spec.size_bytes for spec in specs)
    extra = primitive.workspace(*operands, **attributes) if primitive.workspace else made
    work = (
        primitive.work(*operands, **attributes)
        if primitive.work
        else max(spec.count for spec in (*specs, *operands))
    )
    return max(spec.size_bytes for spec in specs), made + extra, work


class _Memory:
    """What the kept arrays hold; views count as the array that they look into."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._owners: Counter[int] = Counter()

    def add(self, array: Array) -> None:
        owner = _owner(array)
        if not self._owners[id(owner)]:
            self.held_bytes += owner.nbytes
        self._owners[id(owner)] += 1

    def remove(self, array: Array) -> None:
        owner = _owner(array)
        self._owners[id(owner)] -= 1
        if not self._owners[id(owner)]:
            del self._owners[id(owner)]
            self.held_bytes -= owner.nbytes


def _owner(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _chosen_first(taken: Array, places: Array, chosen: Array, axis: int) -> tuple[Array, Array]:
    """Return the elements of a sort, and their places, of which some come first."""
    ranks = np.argsort(places, axis=axis, kind="stable")
    first = np.arange(chosen.shape[axis]) - chosen.shape[axis]
    shape = [-1 if at == axis % taken.ndim else 1 for at in range(taken.ndim)]
    np.put_along_axis(ranks, chosen, np.broadcast_to(first.reshape(shape), chosen.shape), axis)
    order = np.argsort(ranks, axis=axis, kind="stable")
    return np.take_along_axis(taken, order, axis), order


def _checked(array: object, spec: Spec, node: Node) -> Array:
    result, dtype = np.asarray(array), spec.kind.dtype
    if result.shape != spec.shape or result.dtype.kind != dtype.kind:
        raise ProgramError(
            f"cannot execute operator {node.operator} ({node.primitive}): expected "
            f"{spec.kind.value}{list(spec.shape)}, found {result.dtype}{list(result.shape)}"
        )
    return result if result.dtype == dtype else result.astype(dtype)
