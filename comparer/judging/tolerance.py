"""How large a difference may be: by dtype, by the user's options, and for gradients by scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.result import Tolerance
from padiff.comparer.selection import matches
from padiff.dumpfile import Address, ConfigError, Phase, RecordInfo, Role

from .blocks import numbered

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
        """Return the text form, which ``parse`` reads back."""
        fields = (("atol", self.atol), ("rtol", self.rtol), ("role", self.role))
        options = ",".join(f"{name}={value}" for name, value in fields if value is not None)
        return f"{self.pattern}:{options}"

    def applies_to(self, *addresses: Address | None) -> bool:
        """Return whether the rule names one of the two sides of a pair."""
        return any(
            address is not None
            and (self.role is None or self.role is address.role)
            and matches(self.pattern, address.module, address.class_name, address.slot)
            for address in addresses
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """What the tolerances of all pairs of one role, phase and dtypes have in common."""

    loosest: Tolerance
    """Of the pairs' dtypes, and of what was computed also of the models'."""
    atol: float | None
    """The user's."""
    rtol: float | None
    has_noise: bool
    """Whether a measured floor says anything of them: not of integers, nor of weights that a run
    began with."""

    def tolerance(self, largest_gradient: float) -> Tolerance:
        """Return the tolerance of the pairs whose reference has gradients up to a size."""
        atol, rtol = self.loosest.atol, self.loosest.rtol
        if rtol <= 0:
            return self.loosest
        if 0 < largest_gradient < 1:
            atol *= largest_gradient
        if self.atol is not None:
            is_literal = self.rtol is not None
            atol = self.atol if is_literal else max(self.atol, atol)
        return Tolerance(atol=atol, rtol=rtol if self.rtol is None else self.rtol)


@dataclass(frozen=True, slots=True, kw_only=True)
class TolerancePolicy:
    """Finds the tolerance of a pair."""

    atol: float | None = None
    rtol: float | None = None
    rules: tuple[ToleranceRule, ...] = ()

    def choose(self, reference: Address, candidate: Address, basis: Basis) -> Tolerance:
        """Find the tolerance of a pair.

        The looser default of the two dtypes, and of what was computed also of the models' dtypes.
        An ``atol`` alone only loosens: it counts where it is above the default. An ``rtol`` alone
        takes the place of the default one. Both together are taken literally, and nothing but a
        noise floor that was asked for is added to them. Then the rules that name either side, later
        ones winning. Integers and booleans are exact unless a rule names them.

        A gradient's unit is that of the loss, which may be anything. So where all gradients of the
        reference are below 1, the default atol is the dtype's times the largest of them: what is
        small is not the same for that.
        """
        at = reference
        group = self._group(at.role, at.phase, at.step, basis.dtypes, basis.model_dtypes)
        tolerance = group.tolerance(basis.largest_gradient)
        if group.has_noise and basis.noise is not None:
            tolerance = replace(tolerance, atol=max(tolerance.atol, basis.noise))
        for rule in self.rules:
            if rule.applies_to(reference, candidate):
                tolerance = Tolerance(
                    atol=tolerance.atol if rule.atol is None else rule.atol,
                    rtol=tolerance.rtol if rule.rtol is None else rule.rtol,
                )
        return tolerance

    def choose_all(
        self, references: Sequence[RecordInfo], bases: BasisColumns, *, step: int
    ) -> tuple[Array, Array]:
        """Find the tolerance of each pair, but for the user's rules; see ``choose``.

        What pairs have in common is worked out once.

        Returns:
            Each pair's atol and rtol, float64.
        """
        dtypes = list({id(both): both for both in bases.dtypes}.values())
        code = numbered([record.role for record in references], Role) * len(Phase)
        code += numbered([record.phase for record in references], Phase)
        code = code * len(dtypes) + numbered(bases.dtypes, dtypes)
        atol, rtol = np.zeros(code.size), np.zeros(code.size)
        noises = np.array([one or 0.0 for one in bases.noise or ()])
        for number in sorted(set(code.tolist())):  # np.unique would load numpy.ma, for 10 ms
            at = np.flatnonzero(code == number)
            first, both = references[at[0]], bases.dtypes[at[0]]
            group = self._group(first.role, first.phase, step, both, bases.model_dtypes)
            chosen = group.tolerance(bases.largest_gradient[at[0]])
            atol[at], rtol[at] = chosen.atol, chosen.rtol
            if group.has_noise and bases.noise is not None:
                atol[at] = np.maximum(chosen.atol, noises[at])
        return atol, rtol

    def apply_rules(
        self,
        atol: Array,
        rtol: Array,
        references: Sequence[Address],
        candidates: Sequence[Address],
    ) -> frozenset[int]:
        """Let the user's rules have the last word on tolerances, in place.

        Returns:
            Positions of the rules that named a pair.
        """
        used = set()
        for place, rule in enumerate(self.rules):
            at = np.array([*map(rule.applies_to, references, candidates)], np.bool_)
            if at.any():
                used.add(place)
                atol[at] = atol[at] if rule.atol is None else rule.atol
                rtol[at] = rtol[at] if rule.rtol is None else rule.rtol
        return frozenset(used)

    def _group(
        self, role: Role, phase: Phase, step: int, dtypes: tuple[str, ...], models: tuple[str, ...]
    ) -> _Group:
        is_state = role in STATE_ROLES
        loosest = loosest_of(
            dtypes + models if not is_state and all(map(has_default, dtypes)) else dtypes
        )
        is_computed = not is_state or phase is Phase.UPDATE or step > 0
        return _Group(
            loosest=loosest,
            atol=self.atol,
            rtol=self.rtol,
            has_noise=is_computed and loosest.rtol > 0,
        )

    def unused(self, used: Iterable[int]) -> tuple[str, ...]:
        """Return the rules that named no pair."""
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
    """Return the spacing of 1.0 in a dtype, 0 for one that has none."""
    return _EPSILONS.get(dtype, 0.0)


def default_of(dtype: str) -> Tolerance:
    """Return the tolerance that a dtype has without any option."""
    return _DEFAULTS.get(dtype, EXACT)


def has_default(dtype: str) -> bool:
    """Return whether a dtype has a tolerance above 0 without any option."""
    return dtype in _DEFAULTS
