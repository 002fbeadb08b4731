"""Any nested value comes apart into tensors, literals and container names."""

from __future__ import annotations

import enum
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

from padiff.dumper.recording.nested import MAX_DEPTH, MAX_TEXT, flatten, flatten_call, literal


class Leaf:
    """Stands for a tensor."""


@dataclass
class Plain:
    logits: object
    note: str = "x"


@dataclass
class Output(OrderedDict[str, Any]):
    """A mapping and a dataclass at once, as transformers' ModelOutput is."""

    logits: object = None


Pair = namedtuple("Pair", ["left", "right"])


class Color(enum.Enum):
    RED = 1


def is_leaf(value: object) -> bool:
    return isinstance(value, Leaf)


def test_bare_tensor_has_the_empty_slot() -> None:
    leaf = Leaf()

    assert flatten(leaf, is_leaf).tensors == [("", leaf)]


def test_slots_spell_the_way() -> None:
    a, b, c, d = (Leaf() for _ in range(4))

    flat = flatten({"k": [a, (b,)], 3: Pair(c, None), "it's": Plain(d)}, is_leaf)

    assert flat.tensors == [
        ("['k'][0]", a),
        ("['k'][1][0]", b),
        ("[3].left", c),
        ('["it\'s"].logits', d),
    ]
    assert flat.literals == {"[3].right": None, '["it\'s"].note': "x"}
    assert flat.containers == {"[3]": "Pair", '["it\'s"]': "Plain"}


def test_model_output_goes_by_fields() -> None:
    leaf = Leaf()

    flat = flatten(Output(logits=leaf), is_leaf)

    assert flat.tensors == [(".logits", leaf)]
    assert flat.containers == {"": "Output"}


def test_arguments_by_position_and_name() -> None:
    a, b = Leaf(), Leaf()

    flat = flatten_call((a, 3), {"mask": b, "causal": True, "shape": (1, 2)}, is_leaf)

    assert flat.tensors == [("[0]", a), ("['mask']", b)]
    assert flat.literals == {"[1]": 3, "['causal']": True, "['shape']": [1, 2]}


def test_cycle_ends() -> None:
    value: list[Any] = [Leaf()]
    value.append(value)

    flat = flatten(value, is_leaf)

    assert len(flat.tensors) == 1
    assert flat.literals == {"[1]": "<cycle>"}


def test_same_list_twice_is_no_cycle() -> None:
    inner = [Leaf()]

    assert len(flatten([inner, inner], is_leaf).tensors) == 2


def test_deep_nesting_ends() -> None:
    value: list[Any] = [Leaf()]
    for _ in range(MAX_DEPTH + 5):
        value = [value]

    flat = flatten(value, is_leaf)

    assert flat.tensors == []
    assert len(flat.literals) == 1


def test_empty_containers_leave_nothing() -> None:
    flat = flatten(((), [], {}), is_leaf)

    assert (flat.tensors, flat.literals, flat.containers) == ([], {}, {})


def test_literals_are_strict_json_and_short() -> None:
    assert literal(float("-inf")) == "-inf"
    assert literal(Color.RED) == "Color.RED"
    assert literal(2**80) == str(2**80)
    assert len(str(literal("x" * 1000))) == MAX_TEXT
    assert literal(Leaf) == f"<{__name__}.Leaf>"
    assert literal(Leaf()) == f"<{__name__}.Leaf>"
    assert literal(...) == "Ellipsis"


def test_long_list_of_numbers_is_walked_not_lost() -> None:
    flat = flatten(list(range(100)), is_leaf)

    assert len(flat.literals) == 100
