"""Rules for classes of users' own: what such a class calls its parameters and how it lays them out.

They say what a line of the table of weight rules says of a framework's class, in the same words::

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

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError
from padiff.pairing.kinds import KINDS, public_name
from padiff.pairing.rule import Rule
from padiff.pairing.steps import JOINING, Verb

from .weight_rules import Form, Held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.dumpfile import ModuleInfo

__all__ = [
    "ClassRule",
    "forget_class",
    "register_class",
    "registered_classes",
    "rule_for",
    "unused_rules",
]


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
        return cls(
            class_name=class_name,
            kind=kind,
            form=Form(class_name=class_name, exact=exact),
            name=name,
        )

    def covers(self, class_path: str) -> bool:
        """Tell whether the rule is about the class of this full name."""
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
    """Give the registered rules, the latest first."""
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
    head, bar, tail = text.partition("|")
    words = head.replace(",", " ").split()
    if not words:
        raise ConfigError(f"{local!r}: expected a name or a layout rule, found {text!r}")
    own = local.removeprefix("~")
    is_rule_alone = words[0] in {*Verb, "identity"}
    atoms = (own,) if is_rule_alone else tuple(words)
    rule = Rule.parse(text if is_rule_alone else tail if bar else "")
    _check(own, atoms, rule)
    return Held(atoms=atoms, rule=rule, may_stay_alone=local.startswith("~"))


def _check(local: str, atoms: tuple[str, ...], rule: Rule) -> None:
    is_join = bool(rule.steps) and rule.steps[0].verb in JOINING
    rest = Rule(rule.steps[1:]) if is_join else rule
    if is_join != (len(atoms) > 1):
        expected = "'concat' or 'interleave' first" if len(atoms) > 1 else "one that joins nothing"
        raise ConfigError(f"{local!r}: expected a rule with {expected}, found {str(rule)!r}")
    if rest.inverse is None or any(step.verb is Verb.STACK for step in rule.steps):
        raise ConfigError(f"{local!r}: the rule {str(rule)!r} cannot be undone")
