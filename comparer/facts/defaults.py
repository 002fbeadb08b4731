"""Defaults in which the frameworks are known to differ, as hints beside an origin.

Every row was measured with torch 2.13.0, paddle 3.3.1 and mindspore 2.10.0 on Linux x86_64 CPU;
docs/differences.md lists them with their size. A hint is given only where the two sides come from
the two frameworks, the modules are of the kind, and the settings are those under which they
differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.pairing import kind_of

from .attributes import BATCH_ALWAYS, canonical_attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.dumpfile import JSON, ModuleInfo


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
    """Find the known differences that may explain what diverged at a pair of modules.

    Args:
        reference: The reference's module.
        candidate: The candidate's.
        frameworks: The reference's and the candidate's.
        role: Role of the record that diverged, or ``VARIANCE``.
    """
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
        and any(_names(pattern, kind) for pattern in known.kinds)
        and known.applies(torch, other)
    )


def _names(pattern: str, kind: str) -> bool:
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


_PADDLE = frozenset({"torch", "paddle"})
_MINDSPORE = frozenset({"torch", "mindspore"})
_KNOWN = (
    KnownDifference(
        kinds=("batch_norm",), frameworks=_PADDLE, roles=(VARIANCE,), applies=_always,
        text="torch updates the running variance with the unbiased batch variance, n / (n - 1), "
        "paddle with the biased one; outputs are equal while training",
    ),
    KnownDifference(
        kinds=("batch_norm",), frameworks=_PADDLE, roles=("buffer", VARIANCE),
        applies=_differs("momentum"),
        text="BatchNorm's momentum is the share of the new statistics in torch, of the old ones in "
        "paddle: torch's 0.1 is paddle's 0.9",
    ),
    KnownDifference(
        kinds=("batch_norm",), frameworks=_PADDLE, roles=("grad_input",),
        applies=_takes_the_batch,
        text="without tracked statistics in eval mode (torch track_running_stats=False, paddle "
        "use_global_stats=False) the input gradients differ",
    ),
    KnownDifference(
        kinds=("embedding",), frameworks=_PADDLE, roles=("output",), applies=_has("padding_idx"),
        text="at padding_idx torch returns the stored row, paddle zeros",
    ),
    KnownDifference(
        kinds=("instance_norm",), frameworks=_PADDLE, roles=("output", "weight", "grad_input"),
        applies=_differs("bias"),
        text="InstanceNorm has scale and bias by default in paddle, not in torch; "
        "weight_attr=False, bias_attr=False takes them away",
    ),
    KnownDifference(
        kinds=("avg_pool*",), frameworks=_PADDLE, applies=_differs("count_include_pad"),
        text="padded average pooling counts the padding in torch (count_include_pad=True) and "
        "not in paddle (exclusive=True)",
    ),
    KnownDifference(
        kinds=("softmax", "log_softmax"), frameworks=_PADDLE, applies=_is_implicit,
        text="without dim, torch takes axis 0 of inputs with 0, 1 or 3 axes, else 1; paddle the "
        "last",
    ),
    KnownDifference(
        kinds=("cross_entropy",), frameworks=_PADDLE, applies=_is_ignoring,
        text="with ignore_index=-100 torch divides by the number of valid labels, paddle by that "
        "of all; with more than two axes the class axis is 1 in torch, the last in paddle",
    ),
    KnownDifference(
        kinds=("smooth_l1",), frameworks=_PADDLE, applies=_has_other_beta,
        text="for beta other than 1 torch's SmoothL1 is paddle's with is_huber=False",
    ),
    KnownDifference(
        kinds=("attention", "encoder*", "decoder*", "transformer"), frameworks=_PADDLE,
        applies=_always,
        text="a boolean attention mask is True for masked in torch, True for kept in paddle; "
        "torch's attention returns weights averaged over heads by default, paddle's none",
    ),
    KnownDifference(
        kinds=("lstm", "gru", "rnn", "attention"), frameworks=_PADDLE,
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
