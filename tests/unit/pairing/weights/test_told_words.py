"""Names that single each other out: as the plain search over all pairs finds them."""

from __future__ import annotations

import random

from padiff.pairing.names import kind_words, likeness, places_in, words_of
from padiff.pairing.weights.resolve import told_by_words

VOCABULARY = ["q", "k", "v", "out", "attn", "mlp", "norm", "pre", "post", "model", "left", "right"]
MARGIN = 0.1
Words = frozenset[str]


def by_search(ours: list[Words], theirs: list[Words]) -> list[tuple[int, int]]:
    """Take the pair that is clearest, one after the other."""
    common = frozenset.intersection(*ours, *theirs)
    scores = {
        (one, two): likeness(first - common, second - common) * is_comparable(first, second)
        for one, first in enumerate(ours)
        for two, second in enumerate(theirs)
    }
    rows, columns = set(range(len(ours))), set(range(len(theirs)))
    found: list[tuple[int, int]] = []
    while True:
        clear = [
            (scores[one, two], one, two)
            for one in rows
            for two in columns
            if scores[one, two]
            >= MARGIN + max((scores[one, c] for c in columns - {two}), default=0)
            if scores[one, two] >= MARGIN + max((scores[r, two] for r in rows - {one}), default=0)
        ]
        if not clear:
            return sorted(found)
        _, one, two = max(clear)
        found.append((one, two))
        rows.remove(one)
        columns.remove(two)


def is_comparable(one: Words, two: Words) -> bool:
    has_norm = "norm" in one | two
    return not has_norm or places_in(one) == places_in(two)


def test_clear_names_are_those_of_a_search_over_all_pairs() -> None:
    generator = random.Random(0)
    counts = []
    for _ in range(400):
        sides = [
            [
                frozenset(generator.sample(VOCABULARY, generator.randint(1, 4)))
                for _ in range(generator.randint(1, 7))
            ]
            for _ in range(2)
        ]
        found = told_by_words(sides[0], sides[1])
        assert found == by_search(sides[0], sides[1]), sides
        counts.append(len(found))
    assert min(counts) == 0
    assert max(counts) > 2


def test_a_thousand_equal_names_are_told_by_none() -> None:
    names = [frozenset({"layer", "fc"})] * 1000
    assert told_by_words(names, [*names, frozenset({"other"})]) == []


def test_words_that_say_what_a_layer_is_tell_it_from_no_other() -> None:
    """``norm`` is no more ``norm2`` than ``group_norm``."""
    ours = [words_of("resnets.norm2"), words_of("attentions.group_norm")]
    theirs = [words_of("out_layers.0"), words_of("norm")]

    assert told_by_words(ours, theirs, kind_words("group_norm")) == []
    assert told_by_words(ours, theirs) == [(0, 1)]
