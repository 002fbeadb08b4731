"""How alike names are, in words that authors use for the same thing; singly or in arrays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_NUMBER = re.compile(r"\d{1,15}")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_SYNONYMS = {
    "attention": "attn", "mha": "attn", "attentions": "attn",
    "query": "q", "key": "k", "value": "v", "wq": "q", "wk": "k", "wv": "v", "wo": "out",
    "projection": "proj", "output": "out", "o": "out", "dense": "linear", "fc": "linear",
    "layernorm": "norm", "ln": "norm", "rmsnorm": "norm", "batchnorm": "bn", "groupnorm": "gn",
    "embeddings": "embed", "embedding": "embed", "emb": "embed",
    "layers": "layer", "blocks": "layer", "block": "layer", "h": "layer", "stages": "stage",
    "convolution": "conv", "downsample": "shortcut", "ffn": "mlp", "feed": "mlp", "forward": "mlp",
    "intermediate": "mlp", "word": "token", "tokens": "token", "wte": "token",
    "positions": "position", "positional": "position", "pos": "position", "wpe": "position",
    "cls": "classifier", "class": "classifier", "head": "classifier",
    "dropout": "drop", "activation": "act",
    "multihead": "cross", "encdec": "cross", "enc": "encoder", "dec": "decoder",
    "pooling": "pool", "pooler": "pool", "maxpool": "pool", "avgpool": "pool",
}  # fmt: skip
_SPLITS = {
    "qkv": ("q", "k", "v"), "kv": ("k", "v"), "layernorm": ("norm",), "attn": ("attn",),
    "selfattn": ("self", "attn"), "input": ("in",), "sa": ("self", "attn"),
}  # fmt: skip
_CROSS = re.compile(
    r"(enc(oder)?_?dec(oder)?|encoder|enc|src|inter|context|cross)_?(?=att)", re.IGNORECASE
)
"""What authors put before ``attn`` where a decoder looks at the encoder."""
_EMPTY = frozenset({"module", "model", "net", "backbone", "features", "layer", "proj", "sub"})
"""Words that tell little: they count, but a quarter."""


_PLACES = frozenset({"pre", "post", "before", "after", "in", "final", "last", "first"})
"""Words that say where something stands, and turn what follows into its contrary:
``post_attention_layernorm`` comes before the network that ``ffn_norm`` comes before."""


_NAMING = {
    "conv": frozenset({"conv"}),
    "norm": frozenset({"norm", "bn", "gn", "batch", "group", "instance", "rms"}),
    "embedding": frozenset({"embed"}),
    "linear": frozenset({"linear", "proj"}),
}
"""Words that say what a layer is, not which one, by what is in the name of its kind."""
_MAX_PARTS = 32
"""So many components of a path count, the innermost ones."""
_MAX_LENGTH = 1024
"""So many characters of these count, the last ones."""


def innermost(path: str) -> str:
    """Return the end of a path: what stands further out than 32 levels says nothing of a module.

    The paths of a tree that is n deep take n² characters; reading only their ends keeps the time
    for n paths linear. Of a name that is longer than any author's only the end counts, too.

    >>> innermost("a.b"), innermost("x." * 40 + "y") == "x." * 31 + "y"
    ('a.b', True)
    """
    end = path[-_MAX_LENGTH:]
    return end if len(end) < _MAX_PARTS else ".".join(end.rsplit(".", _MAX_PARTS)[-_MAX_PARTS:])


def places_in(words: frozenset[str]) -> frozenset[str]:
    """Return those of the words that say where something stands."""
    return words & _PLACES


@lru_cache(maxsize=256)
def kind_words(kind: str | None) -> frozenset[str]:
    """Return the words that name a layer's kind, and tell it from no other of this kind.

    >>> "norm" in kind_words("group_norm"), kind_words(None)
    (True, frozenset())
    """
    found = (words for part, words in _NAMING.items() if kind is not None and part in kind)
    return frozenset().union(*found)


@lru_cache(maxsize=65536)
def words_of(path: str) -> frozenset[str]:
    """Return the words of a dotted path, without numbers, synonyms made one.

    >>> sorted(words_of("encoder.layer.3.attention.self.query"))
    ['attn', 'encoder', 'layer', 'q', 'self']
    >>> sorted(words_of("EncDecAttention")) == sorted(words_of("encoder_attn"))
    True
    """
    return frozenset().union(*map(_words_in, innermost(path).split(".")))


@lru_cache(maxsize=65536)
def _words_in(part: str) -> frozenset[str]:
    """Return the words of one component of a path; most stand in many paths."""
    found: set[str] = set()
    if "att" in part.lower():
        part = _CROSS.sub("cross_", part)
    for word in _WORD.findall(part):
        lower = word.lower()
        found.update(_SPLITS.get(lower, (_SYNONYMS.get(lower, lower),)))
    return frozenset(found)


@lru_cache(maxsize=65536)
def numbers_in(path: str) -> tuple[int, ...]:
    """Return the numbers on a path.

    >>> numbers_in("layers.3.conv1")
    (3, 1)
    """
    return tuple(map(int, _NUMBER.findall(innermost(path))))


def likeness(reference: frozenset[str], candidate: frozenset[str]) -> float:
    """Return the weighted share of common words, in [0, 1]; 0 where neither has any.

    >>> likeness(words_of("layers.0.q_proj"), words_of("layer.0.query"))
    0.8333333333333334
    """
    common = reference & candidate
    return weight_of(common) / weight_of(reference | candidate) if common else 0.0


def weight_of(words: Collection[str]) -> float:
    """Return how much distinct words tell: 1 each, those that tell little a quarter."""
    return len(words) - 0.75 * len(_EMPTY.intersection(words))


Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_MAX_WORDS = 256
"""So many of the words that both sides use are compared, the most frequent ones."""


class WordTable:
    """The words of two lists of names.

    >>> table = WordTable([frozenset({"q", "attn"})], [frozenset({"q"}), frozenset({"k"})])
    >>> table.likeness(np.array([0, 0]), np.array([0, 1])).tolist()
    [0.5, 0.0]
    """

    def __init__(
        self, reference: Sequence[frozenset[str]], candidate: Sequence[frozenset[str]]
    ) -> None:
        """Take both lists; names of no words are like nothing."""
        sides = [set(side) for side in (reference, candidate)]
        shared = frozenset().union(*sides[0]) & frozenset().union(*sides[1])
        if len(shared) > _MAX_WORDS:
            counts = Counter(word for side in sides for words in side for word in words & shared)
            shared = frozenset(sorted(shared, key=lambda word: (-counts[word], word))[:_MAX_WORDS])
        columns = {word: place for place, word in enumerate(sorted(shared))}
        self._weights = np.array([weight_of([word]) for word in columns])
        self._numbers, self._rows, self._totals = zip(
            _encoded(reference, columns), _encoded(candidate, columns), strict=True
        )

    def likeness(self, rows: Places, columns: Places) -> Floats:
        """Return the weighted share of common words, in [0, 1], element by element."""
        if not len(self._weights):
            return np.zeros(len(rows))
        one, two = self._numbers[0][rows], self._numbers[1][columns]
        common = (self._rows[0][one] & self._rows[1][two]) @ self._weights
        union = self._totals[0][one] + self._totals[1][two] - common
        return np.asarray(np.divide(common, union, out=np.zeros_like(union), where=union > 0))


def _encoded(
    names: Sequence[frozenset[str]], columns: dict[str, int]
) -> tuple[Places, npt.NDArray[np.bool_], Floats]:
    """Return for each name the row of its words, the rows, and what all words of each row weigh."""
    known: dict[tuple[frozenset[str], float], int] = {}
    of_words: dict[frozenset[str], int] = {}
    kept = frozenset(columns)
    for words in dict.fromkeys(names):
        of_words[words] = known.setdefault((words & kept, weight_of(words)), len(known))
    numbers = np.array([of_words[words] for words in names], np.int64)
    rows = np.zeros((len(known), len(columns)), np.bool_)
    for (words, _), number in known.items():
        rows[number, [columns[word] for word in words]] = True
    return numbers, rows, np.array([total for _, total in known])
