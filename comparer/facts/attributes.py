"""Differences of configuration between two modules, in one vocabulary over the frameworks.

Defaults in which the frameworks are known to differ are hints beside an origin. Every row was
measured with torch 2.13.0, paddle 3.3.1 and mindspore 2.10.0 on Linux x86_64 CPU;
docs/differences.md lists them with their size. A hint is given only where the two sides come from
the two frameworks, the modules are of the kind, and the settings are those under which they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.comparer.result import Kind
from padiff.pairing import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from padiff.comparer.result import Divergence
    from padiff.dumpfile import JSON, Index, ModuleInfo
    from padiff.pairing import Pairing


_NAMES = {
    "activation_fn": "activation",
    "axis": "dim",
    "delta": "beta",
    "divisor": "divisor_override",
    "dropout_p": "p",
    "dropout_prob": "p",
    "end_axis": "end_dim",
    "scaling": "scale",
    "softmax_scale": "scale",
    "unflattened_size": "shape",
    "epsilon": "eps",
    "layer_norm_eps": "eps",
    "layer_norm_epsilon": "eps",
    "norm_eps": "eps",
    "rms_norm_eps": "eps",
    "variance_epsilon": "eps",
    "dilations": "dilation",
    "filter_size": "kernel_size",
    "kernel_sizes": "kernel_size",
    "ksize": "kernel_size",
    "head_size": "head_dim",
    "attention_head_size": "head_dim",
    "heads": "num_heads",
    "n_head": "num_heads",
    "n_heads": "num_heads",
    "nhead": "num_heads",
    "num_attention_heads": "num_heads",
    "max": "max_val",
    "min": "min_val",
    "normalize_before": "norm_first",
    "output_sizes": "output_size",
    "paddings": "padding",
    "return_mask": "return_indices",
    "start_axis": "start_dim",
    "stop_axis": "end_dim",
    "strides": "stride",
}
"""Other words for one thing; torch's word is padiff's."""

_IGNORED = frozenset(
    {
        "activation_relu_or_gelu", "bias_attr", "could_use_cudnn", "data_format", "data_layout",
        "device", "dtype", "full_name", "fuse_with_relu", "in_place", "init", "inplace", "is_test",
        "flat_weights_names", "name", "op_type", "param_attr", "reversed_padding_repeated_twice",
        "sparse", "state_components", "trainable_statistics",
        "affine", "elementwise_affine", "updated_padding", "use_cudnn", "weight_attr",
        "weight_norm_dim",
    }
)  # fmt: skip
"""What does not change a computation, or says what another attribute says already."""

BATCH_ALWAYS = "of the batch, always"
_RECURRENT = frozenset({"lstm", "gru", "rnn"})
"""Without dropout these compute the same in both modes; Paddle's are recorded in training mode."""
_USUAL = "of the batch in training, else running"
_STATISTICS: Mapping[str, Mapping[bool, JSON]] = {
    "track_running_stats": {True: _USUAL, False: BATCH_ALWAYS},
    "use_global_stats": {True: "running, always", False: BATCH_ALWAYS},
}
"""Which statistics a BatchNorm takes, as either framework says it."""
_UNKNOWN = "(not stated)"
_DEFAULTS: Mapping[str, JSON] = {
    "add_zero_attn": False,
    "align_mode": 0,
    "batch_first": True,
    "bias_k": None,
    "bias_v": None,
    "dilation": 1,
    "dim": None,
    "divisor_override": None,
    "dropout_mode": "upscale_in_train",
    "output_ratio": None,
    "pos_weight": None,
    "proj_size": 0,
    "soft_label": False,
    "statistics": _USUAL,
    "use_softmax": True,
}
"""What a layer of the one framework does that has no such setting, where the other's has one."""

_PER_AXIS = frozenset(
    {"kernel_size", "stride", "padding", "dilation", "output_padding", "output_size"}
)
_FLAGS: Mapping[str, tuple[str, JSON, JSON]] = {
    "exclusive": ("count_include_pad", False, True),
    "time_major": ("batch_first", False, True),
    "approximate": ("approximate", "tanh", "none"),
}
"""Flags that the other side says in another way: its word, and what true and false mean there."""
_PADDINGS: Mapping[str, JSON] = {
    "Constant": "constant",
    "Zero": "constant",
    "Reflection": "reflect",
    "Replication": "replicate",
    "Circular": "circular",
}
_RENAMED: Mapping[tuple[str, str], str] = {
    ("norm", "pairwise_distance"): "p",
    ("mode", "dropout"): "dropout_mode",
    ("mode", "pad1d"): "padding_mode",
    ("mode", "pad2d"): "padding_mode",
    ("mode", "pad3d"): "padding_mode",
    ("head_dim", "attention"): "",
    ("dim", "cross_entropy"): "",
    ("threshold", "hardshrink"): "lambd",
    ("threshold", "softshrink"): "lambd",
    ("weight", "instance_norm"): "",
}
"""Words by kind of layer; empty for what follows from its other settings or its class, or has a
hint of its own among the known differences."""
_PADDLE = "paddle"
_ROUNDED = 1e-6
"""Relative difference within which numbers are equal: frameworks keep some as float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeDifference:
    """One setting that differs."""

    name: str
    """In padiff's vocabulary."""
    reference: JSON
    candidate: JSON

    def __str__(self) -> str:
        """Return one line of evidence."""
        return (
            f"attribute {self.name}: {self.reference!r} on the reference, "
            f"{self.candidate!r} on the candidate"
        )


def attribute_differences(
    reference: ModuleInfo, candidate: ModuleInfo, *, frameworks: tuple[str, str]
) -> tuple[AttributeDifference, ...]:
    """List the settings that both modules state and that differ, by name."""
    if frameworks[0] == frameworks[1] and _are_set_alike(reference, candidate):
        return ()
    known = canonical_attributes(reference, frameworks[0])
    found = canonical_attributes(candidate, frameworks[1])
    is_known = kind_of(reference) is not None and kind_of(candidate) is not None
    differences = []
    for name in sorted(known.keys() | found.keys()):
        default = _DEFAULTS.get(name, _UNKNOWN) if is_known else _UNKNOWN
        sides = known.get(name, default), found.get(name, default)
        if _UNKNOWN not in sides and not are_equal(*sides):
            differences.append(
                AttributeDifference(name=name, reference=sides[0], candidate=sides[1])
            )
    is_idle = kind_of(reference) in _RECURRENT and not any(
        side.get("dropout") for side in (known, found)
    )
    if reference.training != candidate.training and not is_idle:
        differences.append(
            AttributeDifference(
                name="training", reference=reference.training, candidate=candidate.training
            )
        )
    return tuple(differences)


def _are_set_alike(one: ModuleInfo, two: ModuleInfo) -> bool:
    """Return whether two modules are of one class and state the same, word for word."""
    is_one_class = one.class_path == two.class_path and one.bases == two.bases
    if not is_one_class or one.training != two.training or one.attributes != two.attributes:
        return False
    types = [[*map(type, module.attributes.values())] for module in (one, two)]
    return types[0] == types[1]  # 1 is no True


def canonical_attributes(module: ModuleInfo, framework: str) -> Mapping[str, JSON]:
    """Return a module's settings under the names and in the sense of torch.

    Paddle's BatchNorm momentum is 1 - torch's; its pooling says ``exclusive`` for not
    ``count_include_pad``; its GELU's ``approximate`` is a bool, torch's ``"tanh"`` or ``"none"``.
    Source: the two frameworks' documentation, measured in WEIGHT_RULES section 6.
    """
    found: dict[str, JSON] = {}
    for raw, value in module.attributes.items():
        name = canonical_name(raw)
        if name not in _IGNORED:
            found |= _canonical(name, value, is_paddle=framework == _PADDLE, module=module)
    _derive(found)
    if (kind_of(module) or "").startswith("pad"):
        _name_padding(found, module.class_name)
    return found


def canonical_name(name: str) -> str:
    """Return the name that torch has for a setting."""
    stripped = name.lstrip("_")
    return _NAMES.get(stripped, stripped)


def _name_padding(found: dict[str, JSON], class_name: str) -> None:
    """Name how a padding layer pads, which torch says by its class; the value only if it counts."""
    word = next((word for word in _PADDINGS if class_name.startswith(word)), None)
    if word is not None:
        found["padding_mode"] = _PADDINGS[word]
    if found.get("padding_mode") != "constant":
        found.pop("value", None)


def _canonical(name: str, value: JSON, *, is_paddle: bool, module: ModuleInfo) -> dict[str, JSON]:
    """Return one attribute in padiff's words."""
    if isinstance(value, bool) and name in _FLAGS:
        word, yes, no = _FLAGS[name]
        return {word: yes if value else no}
    kind = kind_of(module) or ""
    if name in _STATISTICS and kind == "batch_norm":
        is_trainable = module.attributes.get("trainable_statistics")
        if is_trainable is not None and not value:  # paddle.nn.BatchNorm: its False says nothing
            value = False if is_trainable else None
        return {"statistics": _USUAL if value is None else _STATISTICS[name][value is True]}
    if (name, kind) in _RENAMED:
        word = _RENAMED[name, kind]
        return {word: value} if word else {}
    class_name = module.class_name.lower()
    if name == "num_directions":
        return {"bidirectional": value == 2}  # noqa: PLR2004
    if name == "momentum" and is_paddle and isinstance(value, int | float) and "norm" in class_name:
        return {name: 1 - value}
    return {name: _one_if_equal(value) if name in _PER_AXIS else _function_name(value)}


def _function_name(value: JSON) -> JSON:
    """Let ``<torch.nn.functional.relu>`` be ``relu``."""
    if isinstance(value, str) and value.startswith("<") and value.endswith(">"):
        return value.strip("<>").rpartition(".")[2].lstrip("_")
    return value


def _derive(found: dict[str, JSON]) -> None:
    """Write out what a setting means beside the others of its module."""
    if "kernel_size" in found and "stride" in found and found["stride"] is None:
        found["stride"] = found["kernel_size"]
    kernel = found.get("kernel_size")
    if "padding" in found:
        found["padding"] = _explicit(found["padding"], kernel, found.get("dilation", 1))
    if found.get("padding") == 0:
        found.pop("count_include_pad", None)


def _explicit(padding: JSON, kernel: JSON, dilation: JSON) -> JSON:
    """Return padding as elements on each side: one number, or one for each axis.

    Paddle's ``[top, bottom, left, right]`` of a two-dimensional kernel is ``[top, left]`` where
    both ends of an axis are alike. ``same`` is explicit only for odd kernels of one size, where
    it does not depend on the input.
    """
    if isinstance(padding, str):
        return _in_numbers(padding.lower(), kernel, dilation)
    if not isinstance(padding, list):
        return padding
    parts = [_one_if_equal(part) for part in padding]
    pairs = list(zip(parts[::2], parts[1::2], strict=False))
    axes = len(kernel) if isinstance(kernel, list) else len(pairs)
    is_both_ends = kernel is not None and len(parts) in {4, 6} and 2 * axes == len(parts)
    if is_both_ends and all(first == last for first, last in pairs):
        parts = [first for first, _ in pairs]
    return _one_if_equal(parts)


def _in_numbers(word: str, kernel: JSON, dilation: JSON) -> JSON:
    if word == "valid":
        return 0
    if word == "same" and isinstance(kernel, int) and isinstance(dilation, int) and kernel % 2:
        return dilation * (kernel - 1) // 2
    return word


def _one_if_equal(value: JSON) -> JSON:
    """Let ``[3, 3]`` be 3: a size per axis that is the same for all."""
    if isinstance(value, list) and value and all(axis == value[0] for axis in value):
        return value[0]
    return value


def are_equal(reference: JSON, candidate: JSON) -> bool:
    """Compare settings; numbers up to float32 rounding; None and False as equally absent."""
    numbers = (int, float)
    if isinstance(reference, numbers) and isinstance(candidate, numbers):
        return abs(reference - candidate) <= _ROUNDED * max(abs(reference), abs(candidate))
    if isinstance(reference, list) and isinstance(candidate, list):
        return len(reference) == len(candidate) and all(
            are_equal(one, other) for one, other in zip(reference, candidate, strict=True)
        )
    if isinstance(reference, str) and isinstance(candidate, str):
        return reference.lower() == candidate.lower()
    return reference == candidate or {repr(reference), repr(candidate)} == {"None", "False"}


_Settings = tuple[str, str, tuple[str, ...], bool, str]
MOST_LINES = 6
"""Differences that are written out, those of the most modules first."""
MOST_NAMES = 3
"""Modules that are written out for each."""


def attribute_notes(
    pairing: Pairing,
    sides: tuple[Index, Index],
    frameworks: tuple[str, str],
    divergences: Sequence[Divergence],
) -> tuple[str, ...]:
    """Return a line for each setting that differs in paired layers other than the origins.

    Only layers of a known kind, or of one class of one framework, whose settings mean the same.

    Args:
        pairing: Which module is which.
        sides: The reference's index and the candidate's.
        frameworks: The reference's and the candidate's, for the vocabulary of attributes.
        divergences: Of the step; origins say their own differences.
    """
    told = {
        found.pair.reference.module
        for found in divergences
        if found.kind is Kind.ORIGIN and found.pair.reference is not None
    }
    where: dict[str, dict[str, None]] = {}
    seen: dict[tuple[_Settings, _Settings], tuple[str, ...]] = {}
    for one, two in _modules(pairing, sides):
        known, found = sides[0].modules[one], sides[1].modules[two]
        if known.id in told or (known is found and frameworks[0] == frameworks[1]):
            continue
        key = _settings(known), _settings(found)
        if key not in seen:
            seen[key] = _differences(known, found, frameworks)
        for text in seen[key]:
            where.setdefault(text, {})[known.path or "(root)"] = None
    lines = [
        f"{text}: in {_names(list(modules))}, which {'are' if len(modules) > 1 else 'is'} no origin"
        for text, modules in sorted(where.items(), key=lambda one: -len(one[1]))
    ]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"{len(lines) - MOST_LINES} more attributes differ elsewhere"]
    return tuple(lines)


def _modules(pairing: Pairing, sides: tuple[Index, Index]) -> Iterator[tuple[int, int]]:
    """Yield the paired modules, and those whose calls are paired: one may stand for several."""
    found = [(pair.reference, pair.candidate) for pair in pairing.modules]
    yield from found
    called = {
        (sides[0].calls[pair.reference].module, sides[1].calls[pair.candidate].module)
        for pair in pairing.calls
    }
    yield from sorted(called.difference(found))


def _settings(module: ModuleInfo) -> _Settings:
    """Return all that a comparison of settings looks at: most modules of a class are set alike."""
    said = repr(module.attributes) if module.attributes else ""  # 1 is neither True nor 1.0
    return module.class_path, module.class_name, module.bases, module.training, said


def _differences(
    known: ModuleInfo, found: ModuleInfo, frameworks: tuple[str, str]
) -> tuple[str, ...]:
    """Return what differs between two modules, as text; nothing where that means nothing."""
    if not _are_comparable(known, found, frameworks):
        return ()
    return tuple(map(str, attribute_differences(known, found, frameworks=frameworks)))


def _are_comparable(known: ModuleInfo, found: ModuleInfo, frameworks: tuple[str, str]) -> bool:
    kinds = kind_of(known), kind_of(found)
    if None not in kinds:
        return kinds[0] == kinds[1]
    return frameworks[0] == frameworks[1] and known.class_path == found.class_path


def _names(modules: list[str]) -> str:
    shown = ", ".join(modules[:MOST_NAMES])
    more = len(modules) - MOST_NAMES
    return f"{shown} and {more} more modules" if more > 0 else shown


SOURCE = "docs/differences.md"
VARIANCE = "running_variance"
"""What stands for the role of that one buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """One known way in which two frameworks compute the same layer differently."""

    kinds: tuple[str, ...]
    """Kinds of ``padiff.pairing.kind_of``, a trailing ``*`` matches the rest."""
    frameworks: frozenset[str]
    text: str
    """What differs, and the way out."""
    applies: Callable[[Mapping[str, JSON], Mapping[str, JSON]], bool]
    """Whether the settings (torch's side, the other's) are those under which they differ."""
    roles: tuple[str, ...] = ("output", "grad_input")
    """Roles of the record that shows the divergence."""

    def __str__(self) -> str:
        """Return one line of evidence."""
        return f"known difference: {self.text} ({SOURCE})"


def known_differences(
    reference: ModuleInfo, candidate: ModuleInfo, *, frameworks: tuple[str, str], role: str
) -> tuple[KnownDifference, ...]:
    """Find the known differences that may explain what diverged at a pair of modules."""
    if frameworks[0] == frameworks[1] or "torch" not in frameworks:
        return ()
    kind = kind_of(reference) or kind_of(candidate)
    if kind is None:
        return ()
    sides = [
        canonical_attributes(module, framework)
        for module, framework in zip((reference, candidate), frameworks, strict=True)
    ]
    torch, other = sides if frameworks[0] == "torch" else sides[::-1]
    return tuple(
        known
        for known in _KNOWN
        if known.frameworks == frozenset(frameworks)
        and role in known.roles
        and any(_default_names(pattern, kind) for pattern in known.kinds)
        and known.applies(torch, other)
    )


def _default_names(pattern: str, kind: str) -> bool:
    return kind.startswith(pattern[:-1]) if pattern.endswith("*") else kind == pattern


def _always(torch: Mapping[str, JSON], other: Mapping[str, JSON]) -> bool:
    return bool(torch is not other)


def _differs(name: str) -> Callable[[Mapping[str, JSON], Mapping[str, JSON]], bool]:
    def applies(torch: Mapping[str, JSON], other: Mapping[str, JSON]) -> bool:
        return torch.get(name) != other.get(name)

    return applies


def _has(name: str) -> Callable[[Mapping[str, JSON], Mapping[str, JSON]], bool]:
    def applies(torch: Mapping[str, JSON], other: Mapping[str, JSON]) -> bool:
        return torch.get(name) is not None or other.get(name) is not None

    return applies


def _takes_the_batch(torch: Mapping[str, JSON], other: Mapping[str, JSON]) -> bool:
    return torch.get("statistics") == other.get("statistics") == BATCH_ALWAYS


def _is_ignoring(torch: Mapping[str, JSON], other: Mapping[str, JSON]) -> bool:
    return torch.get("ignore_index") == other.get("ignore_index") == -100  # noqa: PLR2004


def _is_implicit(torch: Mapping[str, JSON], _: Mapping[str, JSON]) -> bool:
    return torch.get("dim") is None


def _has_other_beta(torch: Mapping[str, JSON], other: Mapping[str, JSON]) -> bool:
    return torch.get("beta") != 1 or other.get("beta") != 1


_IN_PADDLE = frozenset({"torch", "paddle"})
_MINDSPORE = frozenset({"torch", "mindspore"})
_KNOWN = (
    KnownDifference(
        kinds=("batch_norm",), frameworks=_IN_PADDLE, roles=(VARIANCE,), applies=_always,
        text="torch updates the running variance with the unbiased batch variance, n / (n - 1), "
        "paddle with the biased one; outputs are equal while training",
    ),
    KnownDifference(
        kinds=("batch_norm",), frameworks=_IN_PADDLE, roles=("buffer", VARIANCE),
        applies=_differs("momentum"),
        text="BatchNorm's momentum is the share of the new statistics in torch, of the old ones in "
        "paddle: torch's 0.1 is paddle's 0.9",
    ),
    KnownDifference(
        kinds=("batch_norm",), frameworks=_IN_PADDLE, roles=("grad_input",),
        applies=_takes_the_batch,
        text="without tracked statistics in eval mode (torch track_running_stats=False, paddle "
        "use_global_stats=False) the input gradients differ",
    ),
    KnownDifference(
        kinds=("embedding",), frameworks=_IN_PADDLE, roles=("output",), applies=_has("padding_idx"),
        text="at padding_idx torch returns the stored row, paddle zeros",
    ),
    KnownDifference(
        kinds=("instance_norm",), frameworks=_IN_PADDLE, roles=("output", "weight", "grad_input"),
        applies=_differs("bias"),
        text="InstanceNorm has scale and bias by default in paddle, not in torch; "
        "weight_attr=False, bias_attr=False takes them away",
    ),
    KnownDifference(
        kinds=("avg_pool*",), frameworks=_IN_PADDLE, applies=_differs("count_include_pad"),
        text="padded average pooling counts the padding in torch (count_include_pad=True) and "
        "not in paddle (exclusive=True)",
    ),
    KnownDifference(
        kinds=("softmax", "log_softmax"), frameworks=_IN_PADDLE, applies=_is_implicit,
        text="without dim, torch takes axis 0 of inputs with 0, 1 or 3 axes, else 1; paddle the "
        "last",
    ),
    KnownDifference(
        kinds=("cross_entropy",), frameworks=_IN_PADDLE, applies=_is_ignoring,
        text="with ignore_index=-100 torch divides by the number of valid labels, paddle by that "
        "of all; with more than two axes the class axis is 1 in torch, the last in paddle",
    ),
    KnownDifference(
        kinds=("smooth_l1",), frameworks=_IN_PADDLE, applies=_has_other_beta,
        text="for beta other than 1 torch's SmoothL1 is paddle's with is_huber=False",
    ),
    KnownDifference(
        kinds=("attention", "encoder*", "decoder*", "transformer"), frameworks=_IN_PADDLE,
        applies=_always,
        text="a boolean attention mask is True for masked in torch, True for kept in paddle; "
        "torch's attention returns weights averaged over heads by default, paddle's none",
    ),
    KnownDifference(
        kinds=("lstm", "gru", "rnn", "attention"), frameworks=_IN_PADDLE,
        applies=_differs("batch_first"),
        text="the first axis is time in torch, the batch in paddle, unless batch_first or "
        "time_major say otherwise",
    ),
    KnownDifference(
        kinds=("layer_norm",), frameworks=_MINDSPORE, applies=_always,
        text="LayerNorm's epsilon is 1e-5 in torch, 1e-7 in mindspore",
    ),
    KnownDifference(
        kinds=("gelu",), frameworks=_MINDSPORE, applies=_always,
        text="GELU is exact in torch, the tanh approximation in mindspore",
    ),
    KnownDifference(
        kinds=("leaky_relu",), frameworks=_MINDSPORE, applies=_always,
        text="the slope of LeakyReLU is 0.01 in torch, 0.2 in mindspore",
    ),
    KnownDifference(
        kinds=("conv*",), frameworks=_MINDSPORE, applies=_always,
        text="convolutions pad by 0 and have a bias in torch, pad_mode='same' and none in "
        "mindspore",
    ),
    KnownDifference(
        kinds=("max_pool*", "avg_pool*"), frameworks=_MINDSPORE, applies=_always,
        text="the stride of a pooling is its kernel's size in torch, 1 in mindspore",
    ),
)  # fmt: skip
"""Source: measured, docs/differences.md."""
