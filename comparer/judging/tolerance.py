"""How large a difference may be: by dtype, by the user's options, and for gradients by scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.result import Tolerance
from padiff.comparer.selection import matches
from padiff.dumpfile import Address, ConfigError, Phase, RecordInfo, Role

from .numbered import numbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .basis import Basis, BasisColumns
    from .blocks import Array

STATE_ROLES = frozenset({Role.WEIGHT, Role.BUFFER})
"""The roles whose records are loaded, not computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceRule:
    """An exception to the tolerance for some modules."""

    pattern: str
    """Glob over module paths or weights, or ``type:ClassName``."""
    atol: float | None = None
    """None leaves what holds without the rule."""
    rtol: float | None = None
    role: Role | None = None
    """None takes all roles."""

    @classmethod
    def parse(cls, text: str) -> ToleranceRule:
        """Read ``PATTERN:atol=1e-3,rtol=1e-2,role=weight_grad``.

        Raises:
            ConfigError: The text is no rule.

        >>> ToleranceRule.parse("type:LayerNorm:atol=1e-3").pattern
        'type:LayerNorm'
        """
        pattern, _, options = text.rpartition(":")
        fields: dict[str, str] = {}
        for option in options.split(","):
            name, equals, value = (part.strip() for part in option.partition("="))
            if name not in {"atol", "rtol", "role"} or not equals or name in fields:
                raise _refuse_rule(text)
            fields[name] = value
        if not pattern or not fields.keys() & {"atol", "rtol"}:
            raise _refuse_rule(text)
        role = fields.get("role")
        if role is not None and role not in set(Role):
            raise ConfigError(
                f"cannot read the rule {text!r}: unknown role {role!r}",
                hint="roles are " + ", ".join(Role),
            )
        return cls(
            pattern=pattern,
            atol=_number(text, fields.get("atol")),
            rtol=_number(text, fields.get("rtol")),
            role=None if role is None else Role(role),
        )

    def __str__(self) -> str:
        """Give the text form, which ``parse`` reads back."""
        fields = (("atol", self.atol), ("rtol", self.rtol), ("role", self.role))
        options = ",".join(f"{name}={value}" for name, value in fields if value is not None)
        return f"{self.pattern}:{options}"

    def applies_to(self, *addresses: Address | None) -> bool:
        """Tell whether the rule names one of the two sides of a pair."""
        return any(
            address is not None
            and (self.role is None or self.role is address.role)
            and matches(self.pattern, address.module, address.class_name, address.slot)
            for address in addresses
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTolerance:
    """A tolerance and where it is from."""

    tolerance: Tolerance
    rules: tuple[int, ...] = ()
    """Positions of the user's rules that took part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """What the tolerances of all pairs of one role, phase and dtypes have in common."""

    loosest: Tolerance
    """Of the pairs' dtypes, and of what was computed also of the models'."""
    atol: float | None
    """The user's."""
    rtol: float | None
    is_computed: bool
    """Whether a measured floor says anything of them: not of weights that a run began with."""

    def tolerance(self, basis: Basis) -> Tolerance:
        """Give the tolerance of one of the pairs."""
        atol, rtol = self.loosest.atol, self.loosest.rtol
        if rtol <= 0:
            return Tolerance(atol=atol, rtol=rtol)
        if 0 < basis.largest_gradient < 1:
            atol *= basis.largest_gradient
        if self.atol is not None:
            is_literal = self.rtol is not None
            atol = self.atol if is_literal else max(self.atol, atol)
        if self.rtol is not None:
            rtol = self.rtol
        if self.is_computed:
            atol = max(atol, basis.noise or 0.0)
        return Tolerance(atol=atol, rtol=rtol)


@dataclass(frozen=True, slots=True, kw_only=True)
class TolerancePolicy:
    """Finds the tolerance of a pair."""

    atol: float | None = None
    rtol: float | None = None
    rules: tuple[ToleranceRule, ...] = ()

    def choose(self, reference: Address, candidate: Address, basis: Basis) -> ChosenTolerance:
        """Find the tolerance of a pair.

        The looser default of the two dtypes, and of what was computed also of the models' dtypes.
        An ``atol`` alone only loosens: it counts where it is above the default. An ``rtol`` alone
        takes the place of the default one. Both together are taken literally, and nothing but a
        noise floor that was asked for is added to them. Then the rules that name either side, later
        ones winning. Integers and booleans are exact unless a rule names them.

        A gradient's unit is that of the loss, which may be anything. So where all gradients of the
        reference are below 1, the default atol is the dtype's times the largest of them: what is
        small is not the same for that.

        Args:
            reference: Address on the reference.
            candidate: Address on the candidate.
            basis: What is known of the pair.
        """
        tolerance = self._by_dtype(reference, basis)
        used: list[int] = []
        for place, rule in enumerate(self.rules):
            if rule.applies_to(reference, candidate):
                used.append(place)
                tolerance = Tolerance(
                    atol=tolerance.atol if rule.atol is None else rule.atol,
                    rtol=tolerance.rtol if rule.rtol is None else rule.rtol,
                )
        return ChosenTolerance(tolerance=tolerance, rules=tuple(used))

    def choose_all(
        self,
        references: Sequence[Address],
        candidates: Sequence[Address],
        bases: Sequence[Basis],
    ) -> tuple[list[Tolerance], frozenset[int]]:
        """Find the tolerance of each pair, and the user's rules that took part in any.

        Args:
            references: Addresses on the reference.
            candidates: Addresses on the candidate.
            bases: What is known of the pairs.
        """
        chosen = list(map(self.choose, references, candidates, bases))
        return [one.tolerance for one in chosen], frozenset(
            place for one in chosen for place in one.rules
        )

    def choose_plain(
        self, references: Sequence[RecordInfo], bases: Sequence[Basis], *, step: int
    ) -> list[Tolerance]:
        """Find the tolerance of each pair where the user has no rules; see ``choose``.

        What pairs have in common is worked out once.

        Args:
            references: The reference's records.
            bases: What is known of the pairs.
            step: The number of the step that they are of.
        """
        groups: dict[tuple[object, ...], _Group] = {}
        found = []
        for record, basis in zip(references, bases, strict=True):
            key = record.role, record.phase, basis.dtypes, basis.model_dtypes
            group = groups.get(key)
            if group is None:
                group = groups[key] = self._group(record.role, record.phase, step, basis)
            found.append(group.tolerance(basis))
        return found

    def choose_columns(
        self, references: Sequence[RecordInfo], bases: BasisColumns, *, step: int
    ) -> tuple[Array, Array]:
        """Do the same as columns, where no floor was measured either.

        Args:
            references: The reference's records.
            bases: What is known of the pairs.
            step: The number of the step that they are of.

        Returns:
            Each pair's atol and rtol, float64.
        """
        dtypes = list({id(both): both for both in bases.dtypes}.values())
        code = numbered([record.role for record in references], Role) * len(Phase)
        code += numbered([record.phase for record in references], Phase)
        code = code * len(dtypes) + numbered(bases.dtypes, dtypes)
        atol, rtol = np.zeros(code.size), np.zeros(code.size)
        for number in sorted(set(code.tolist())):  # np.unique would load numpy.ma, for 10 ms
            at = np.flatnonzero(code == number)
            first, (basis,) = references[at[0]], bases.rows(at[:1])
            chosen = self._group(first.role, first.phase, step, basis).tolerance(basis)
            atol[at], rtol[at] = chosen.atol, chosen.rtol
        return atol, rtol

    def _by_dtype(self, reference: Address, basis: Basis) -> Tolerance:
        """Choose without the user's rules."""
        at = reference
        return self._group(at.role, at.phase, at.step, basis).tolerance(basis)

    def _group(self, role: Role, phase: Phase, step: int, basis: Basis) -> _Group:
        names: tuple[str, ...] = basis.dtypes
        is_state = role in STATE_ROLES
        if not is_state and all(map(has_default, names)):
            names = names + basis.model_dtypes
        is_updated = phase is Phase.UPDATE
        return _Group(
            loosest=loosest_of(names),
            atol=self.atol,
            rtol=self.rtol,
            is_computed=not is_state or is_updated or step > 0,
        )

    def unused(self, used: Iterable[int]) -> tuple[str, ...]:
        """Give the rules that named no pair."""
        places = set(used)
        return tuple(str(rule) for place, rule in enumerate(self.rules) if place not in places)


def _number(text: str, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        raise _refuse_rule(text) from None
    if not (math.isfinite(number) and number >= 0):
        raise _refuse_rule(text)
    return number


def _refuse_rule(text: str) -> ConfigError:
    return ConfigError(
        f"cannot read the rule {text!r}: expected PATTERN:atol=NUMBER,rtol=NUMBER[,role=ROLE]",
        hint="for example 'encoder.*.norm1:atol=1e-3' or 'type:LayerNorm:rtol=1e-4,role=output'",
    )


EXACT = Tolerance(atol=0.0, rtol=0.0)
"""For integers and booleans: token ids, masks and counters are right or wrong."""

_DEFAULTS = {
    "float16": Tolerance(atol=1e-5, rtol=1e-3),
    "bfloat16": Tolerance(atol=1e-5, rtol=1.6e-2),
    "float32": Tolerance(atol=1e-5, rtol=1.3e-6),
    "float64": Tolerance(atol=1e-7, rtol=1e-7),
    "complex64": Tolerance(atol=1e-5, rtol=1.3e-6),
    "complex128": Tolerance(atol=1e-7, rtol=1e-7),
    # Not in torch's table. Its bfloat16 row is two units in the last place; so are these.
    "float8_e4m3fn": Tolerance(atol=1e-5, rtol=0.25),
    "float8_e4m3fnuz": Tolerance(atol=1e-5, rtol=0.25),
    "float8_e5m2": Tolerance(atol=1e-5, rtol=0.5),
    "float8_e5m2fnuz": Tolerance(atol=1e-5, rtol=0.5),
}
"""Source: ``_DTYPE_PRECISIONS`` in torch/testing/_comparison.py, torch 2.13."""

_EPSILONS = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}
"""Spacing of 1.0 by dtype (IEEE 754); of complex numbers, that of their parts."""


@lru_cache(maxsize=256)
def loosest_of(dtypes: tuple[str, ...]) -> Tolerance:
    """Take the loosest of each default of some dtypes, at least one."""
    defaults = [_DEFAULTS.get(name, EXACT) for name in dtypes]
    return Tolerance(
        atol=max(default.atol for default in defaults),
        rtol=max(default.rtol for default in defaults),
    )


def epsilon_of(dtype: str) -> float:
    """Give the spacing of 1.0 in a dtype, 0 for one that has none."""
    return _EPSILONS.get(dtype, 0.0)


def default_of(dtype: str) -> Tolerance:
    """Give the tolerance that a dtype has without any option."""
    return _DEFAULTS.get(dtype, EXACT)


def has_default(dtype: str) -> bool:
    """Tell whether a dtype has a tolerance above 0 without any option."""
    return dtype in _DEFAULTS
