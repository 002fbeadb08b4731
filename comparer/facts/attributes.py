"""Differences of configuration between two modules, in one vocabulary over the frameworks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.comparer.result import Kind
from padiff.pairing import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
