"""Which atom each parameter of a class holds: by the table of weight rules, or as users say.

Rules for classes of users' own say what a line of the table of weight rules says of a framework's
class, in the same words::

    [[rule]]
    class = "mylib.layers.PackedLinear"
    kind = "linear"
    weight = "weight | transpose"
    shift = "bias"

The text after a parameter's name is ``ATOM[, ATOM …] [| RULE]``: it holds these parameters of the
neutral form (torch's, with packed ones taken apart), laid out by the rule. A rule alone is that of
the parameter of the same name. ``~`` before the name: it may stay without partner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing.kinds import KINDS, expand, known_class, public_name
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.steps import JOINING, Verb

from .weight_table import PASSIVE_BUFFERS, SAME_FORM, SWITCHED, TABLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import ModuleInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one parameter holds, in the neutral form of its kind."""

    atoms: tuple[str, ...]
    """Neutral names; several where the class packs them into one."""
    rule: Rule = IDENTITY
    """Makes the parameter of its atoms."""
    may_stay_alone: bool = False
    """Whether the other side may lack it."""
    is_alias: bool = False
    """Whether it is only another name of a parameter that is listed too."""

    @property
    def is_needed(self) -> bool:
        """Return whether the parameter must have a partner."""
        return not (self.may_stay_alone or self.is_alias)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How one class names and lays out its parameters."""

    class_name: str
    """Public full name."""
    exact: Mapping[str, Held]
    """By local name."""
    patterns: tuple[tuple[re.Pattern[str], Held], ...] = ()
    """For names with numbers in them; atoms are templates."""

    @property
    def is_nested(self) -> bool:
        """Return whether parameters of child modules belong to the form."""
        return any("." in name for name in self.exact) or any(
            r"\." in pattern.pattern for pattern, _ in self.patterns
        )

    def find(self, local: str, siblings: Collection[str]) -> Held | None:
        """Return what a parameter holds.

        Args:
            local: Name below the module: ``weight``, ``out_proj.bias``,
                ``parametrizations.weight.original0``.
            siblings: All names below the module, which tell reparametrisations apart.

        Returns:
            None if the form has no line for it, which then only a direct parameter of the module
            itself holds as it is.
        """
        part = _part_of(local, siblings)
        if part is not None:
            return self._find_part(*part)
        return self._find_plain(local)

    def _find_plain(self, local: str) -> Held | None:
        if local in self.exact:
            return self.exact[local]
        for pattern, held in self.patterns:
            match = pattern.fullmatch(local)
            if match:
                atoms = tuple(atom.format_map(match.groupdict()) for atom in held.atoms)
                return replace(held, atoms=atoms)
        return None if "." in local else Held(atoms=(local,))

    def _find_part(self, base: str, part: str) -> Held | None:
        held = self._find_plain(base)
        if held is None:
            return None
        atoms = tuple(f"{atom}:{part}" for atom in held.atoms)
        if part == "g":
            return Held(atoms=atoms, rule=Rule.parse("reshape"))
        return Held(atoms=atoms, rule=IDENTITY if part in {"u", "v"} else held.rule)


def form_of(module: ModuleInfo) -> Form | None:
    """Return the form of the framework class that a module is or derives from.

    Returns:
        None for a class of the user's own: its parameters' layout is not known from the class.
    """
    name = known_class(module)
    if name is None:
        return None
    switch, other = SWITCHED.get(name, ("", ""))
    if switch and module.attributes.get(switch):
        name = other
    return _forms().get(name) or _plain_form(name)


@cache
def _plain_form(name: str) -> Form:
    """Return the form of a framework class that lays nothing out in a way of its own."""
    return Form(class_name=name, exact={})


def is_passive(local: str) -> bool:
    """Return whether a buffer of this name holds what a constructor computed."""
    return local.rpartition(".")[2] in PASSIVE_BUFFERS


_PARTS = (
    ("_g", "_v", "g"),
    ("_v", "_g", "direction"),
    ("_orig", "_u", "direction"),
    ("_u", "_orig", "u"),
    ("_v", "_orig", "v"),
)
"""Suffix of a reparametrised name, suffix that a sibling must have, part."""
_PLACEHOLDERS = {"w": "(?:weight|bias)_(?:ih|hh)", "p": "[qkv]"}
"""What the letters of the table stand for; all others are numbers."""
_PARAMETRISED = re.compile(r"parametrizations\.(\w+)\.(original[01]?|0\._[uv])")


def _part_of(local: str, siblings: Collection[str]) -> tuple[str, str] | None:
    """Take a reparametrised name apart: (base name, part)."""
    match = _PARAMETRISED.fullmatch(local)
    if match:
        part = {"original0": "g", "original1": "direction", "original": "direction"}
        return match[1], part.get(match[2], match[2][-1])
    for suffix, other, part_name in _PARTS:
        base = local.removesuffix(suffix)
        if base != local and base + other in siblings:
            return base, part_name
    return None


@cache
def _forms() -> Mapping[str, Form]:
    exact: dict[str, dict[str, Held]] = {}
    patterns: dict[str, list[tuple[re.Pattern[str], Held]]] = {}
    for line in TABLE.splitlines():
        if not line:
            continue
        class_name, local, held = _read(line)
        if "{" in local:
            pattern = re.sub(r"\\{(\w)\\}", _placeholder, re.escape(local))
            patterns.setdefault(class_name, []).append((re.compile(pattern), held))
        else:
            exact.setdefault(class_name, {})[local] = held
    forms: dict[str, Form] = {}
    for name in {**exact, **patterns}:
        for alias in (name, *SAME_FORM.get(name, "").split()):
            forms[expand(alias)] = Form(
                class_name=expand(alias),
                exact=exact.get(name, {}),
                patterns=tuple(patterns.get(name, ())),
            )
    return forms


def _placeholder(found: re.Match[str]) -> str:
    stands_for = _PLACEHOLDERS.get(found[1], r"\d+")
    return f"(?P<{found[1]}>{stands_for})"


def _read(line: str) -> tuple[str, str, Held]:
    left, _, right = line.partition(" = ")
    class_name, local = left.split()
    return class_name, local.removeprefix("~"), _held(local, right)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """How one class names and lays out its parameters."""

    class_name: str
    """Full name as ``padiff show`` gives it, or a glob of it: ``*.PackedLinear``."""
    kind: str | None
    """The canonical kind whose job it does; None if it does that of no known layer."""
    form: Form
    name: str = "class rule"
    """Where it was written, for messages."""

    @classmethod
    def parse(
        cls,
        class_name: str,
        weights: Mapping[str, str],
        *,
        kind: str | None = None,
        name: str = "class rule",
    ) -> ClassRule:
        """Read what each parameter of a class holds.

        Args:
            class_name: Full name of the class, or a glob of it.
            weights: By local name (``weight``, ``inner.bias``), the text of what it holds.
            kind: Canonical kind, such as ``linear``.
            name: Where it was written, for messages.

        Raises:
            ConfigError: No such kind, or a text is no rule that can be undone.
        """
        if kind is not None and kind not in set(KINDS.values()):
            raise ConfigError(
                f"unknown kind {kind!r}", hint=f"known: {', '.join(sorted(set(KINDS.values())))}"
            )
        if not weights:
            raise ConfigError(f"the rule of {class_name!r} names no parameter")
        exact = {local.removeprefix("~"): _held(local, text) for local, text in weights.items()}
        for local, held in exact.items():
            _check(local, held.atoms, held.rule)
        return cls(
            class_name=class_name,
            kind=kind,
            form=Form(class_name=class_name, exact=exact),
            name=name,
        )

    def covers(self, class_path: str) -> bool:
        """Return whether the rule is about the class of this full name."""
        names = (class_path, public_name(class_path))
        return any(fnmatchcase(name, self.class_name) for name in names)


@dataclass(slots=True)
class _Registry:
    """The rules that the process has registered, the latest first."""

    rules: list[ClassRule] = field(default_factory=list)


_REGISTRY = _Registry()


def register_class(
    class_name: str, weights: Mapping[str, str], *, kind: str | None = None
) -> ClassRule:
    """Make a rule known to every plan of this process; a map file's rules come before it.

    >>> rule = register_class("mylib.Packed", {"kernel": "weight | transpose"}, kind="linear")
    >>> forget_class(rule)

    Args:
        class_name: Full name of the class, or a glob of it.
        weights: By local name, what each parameter holds: ``ATOM[, ATOM …] [| RULE]``.
        kind: Canonical kind, such as ``linear``.

    Raises:
        ConfigError: As ``ClassRule.parse``.
    """
    made = ClassRule.parse(class_name, weights, kind=kind, name="registered rule")
    _REGISTRY.rules.insert(0, made)
    return made


def forget_class(rule: ClassRule) -> None:
    """Take a registered rule back."""
    _REGISTRY.rules.remove(rule)


def registered_classes() -> tuple[ClassRule, ...]:
    """Return the registered rules, the latest first."""
    return tuple(_REGISTRY.rules)


def rule_for(module: ModuleInfo, rules: Sequence[ClassRule]) -> ClassRule | None:
    """Find the rule of a module's class, or of its nearest base; a framework's class ends it."""
    for path in (module.class_path, *module.bases):
        for rule in rules:
            if rule.covers(path):
                return rule
        if public_name(path) in KINDS:
            return None
    return None


def unused_rules(rules: Sequence[ClassRule], modules: Iterable[ModuleInfo]) -> Iterator[str]:
    """Remark on rules that are about no class of these modules."""
    paths = {path for module in modules for path in (module.class_path, *module.bases)}
    for rule in rules:
        if not any(rule.covers(path) for path in paths):
            yield f"map entry {rule.name} is unused: no module is of class {rule.class_name!r}"


def _held(local: str, text: str) -> Held:
    head, _, tail = text.partition("|")
    words = head.replace(",", " ").split()
    if not words:
        raise ConfigError(f"{local!r}: expected a name or a layout rule, found {text!r}")
    if words == ["!"]:
        return Held(atoms=(), may_stay_alone=local.startswith("~"), is_alias=True)
    is_rule_alone = words[0] in {*Verb, "identity"}
    return Held(
        atoms=(local.removeprefix("~"),) if is_rule_alone else tuple(words),
        rule=Rule.parse(text if is_rule_alone else tail),
        may_stay_alone=local.startswith("~"),
    )


def _check(local: str, atoms: tuple[str, ...], rule: Rule) -> None:
    is_join = bool(rule.steps) and rule.steps[0].verb in JOINING
    rest = Rule(rule.steps[1:]) if is_join else rule
    if is_join != (len(atoms) > 1):
        expected = "'concat' or 'interleave' first" if len(atoms) > 1 else "one that joins nothing"
        raise ConfigError(f"{local!r}: expected a rule with {expected}, found {str(rule)!r}")
    if rest.inverse is None or any(step.verb is Verb.STACK for step in rule.steps):
        raise ConfigError(f"{local!r}: the rule {str(rule)!r} cannot be undone")
