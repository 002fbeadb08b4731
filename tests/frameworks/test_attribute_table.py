"""Layers of both frameworks: equal ones show no difference, one changed setting shows just that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch

from padiff.comparer.facts.attributes import VARIANCE, attribute_differences, known_differences
from padiff.dumper.recording.tree import attributes_of, framework_names
from padiff.dumpfile import ModuleInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

Settings = dict[str, Any]
Change = tuple[Settings, Settings, list[str]]
"""Of torch's layer, of Paddle's, and what must be named."""
NAMES = {
    "torch": framework_names([torch.nn.Module]),
    "paddle": framework_names([paddle.nn.Layer]),
}
EPS = {"eps": 1e-3}, {"epsilon": 1e-3}, ["eps"]

CONV: list[Change] = [
    ({"stride": 2}, {"stride": 2}, ["stride"]),
    ({"padding": 1}, {"padding": 1}, ["padding"]),
    ({"dilation": 2}, {"dilation": 2}, ["dilation"]),
    ({"groups": 2}, {"groups": 2}, ["groups"]),
    ({"bias": False}, {"bias_attr": False}, ["bias"]),
]
MODES: list[Change] = [
    ({"padding": "same"}, {"padding": "SAME"}, ["padding"]),
    ({"padding_mode": "circular"}, {"padding_mode": "circular"}, ["padding_mode"]),
]
DECONV = [*CONV, ({"stride": 2, "output_padding": 1}, {"stride": 2, "output_padding": 1},
                  ["output_padding", "stride"])]  # fmt: skip
NORM: list[Change] = [
    EPS,
    ({"momentum": 0.3}, {"momentum": 0.7}, ["momentum"]),
    ({"affine": False}, {"weight_attr": False, "bias_attr": False}, ["bias", "weight"]),
]
BATCH_NORM = [*NORM, ({"track_running_stats": False}, {"use_global_stats": False}, ["statistics"])]
INSTANCE: list[Change] = [
    EPS,
    ({"momentum": 0.3}, {"momentum": 0.7}, ["momentum"]),
    ({"affine": True}, {"weight_attr": None, "bias_attr": None}, ["bias"]),
]
PLAIN: Settings = {"weight_attr": False, "bias_attr": False}
POOL: list[Change] = [
    ({"stride": 3}, {"stride": 3}, ["stride"]),
    ({"padding": 1}, {"padding": 1}, ["padding"]),
    ({"ceil_mode": True}, {"ceil_mode": True}, ["ceil_mode"]),
]
AVERAGE = [({"count_include_pad": False}, {"exclusive": True}, ["count_include_pad"])]
TWO: Settings = {"kernel_size": 2, "stride": 2}
CUBE: Settings = {"in_channels": 4, "out_channels": 4, "kernel_size": 3}
RECURRENT: list[Change] = [
    ({"num_layers": 3}, {"num_layers": 3}, ["num_layers"]),
    ({"bidirectional": True}, {"direction": "bidirect"}, ["bidirectional"]),
    ({"dropout": 0.3}, {"dropout": 0.3}, ["dropout"]),
    ({"batch_first": False}, {"time_major": True}, ["batch_first"]),
]
SIZES: Settings = {"input_size": 4, "hidden_size": 5, "num_layers": 2}
CELL: Settings = {"input_size": 4, "hidden_size": 5}
REDUCTION: list[Change] = [({"reduction": "sum"}, {"reduction": "sum"}, ["reduction"])]
MARGIN: list[Change] = [({"margin": 0.3}, {"margin": 0.3}, ["margin"])]


def same(**values: Any) -> list[Change]:  # noqa: ANN401
    """List settings that have one name on both sides, and each a changed value."""
    return [({name: value}, {name: value}, [name]) for name, value in values.items()]


P: Settings = {"p": 0.3}
TABLE: list[tuple[str, str, Settings, Settings, list[Change]]] = [
    ("Conv1d", "Conv1D", CUBE, CUBE, [*CONV, *MODES]),
    ("Conv2d", "Conv2D", CUBE, CUBE, [*CONV, *MODES]),
    ("Conv3d", "Conv3D", CUBE, CUBE, [*CONV, *MODES]),
    ("ConvTranspose1d", "Conv1DTranspose", CUBE, CUBE, DECONV),
    ("ConvTranspose2d", "Conv2DTranspose", CUBE, CUBE, DECONV),
    ("ConvTranspose3d", "Conv3DTranspose", CUBE, CUBE, DECONV),
    ("BatchNorm1d", "BatchNorm1D", {"num_features": 4}, {"num_features": 4}, BATCH_NORM),
    ("BatchNorm2d", "BatchNorm2D", {"num_features": 4}, {"num_features": 4}, BATCH_NORM),
    ("BatchNorm3d", "BatchNorm3D", {"num_features": 4}, {"num_features": 4}, BATCH_NORM),
    ("SyncBatchNorm", "SyncBatchNorm", {"num_features": 4}, {"num_features": 4}, NORM[:2]),
    ("InstanceNorm1d", "InstanceNorm1D", {"num_features": 4}, {"num_features": 4, **PLAIN},
     INSTANCE),
    ("InstanceNorm2d", "InstanceNorm2D", {"num_features": 4}, {"num_features": 4, **PLAIN},
     INSTANCE),
    ("InstanceNorm3d", "InstanceNorm3D", {"num_features": 4}, {"num_features": 4, **PLAIN},
     INSTANCE),
    ("LayerNorm", "LayerNorm", {"normalized_shape": 8}, {"normalized_shape": 8},
     [EPS, ({"elementwise_affine": False}, PLAIN, ["bias", "weight"])]),
    ("GroupNorm", "GroupNorm", {"num_groups": 2, "num_channels": 4},
     {"num_groups": 2, "num_channels": 4}, [EPS, *same(num_groups=4)]),
    ("LocalResponseNorm", "LocalResponseNorm", {"size": 3}, {"size": 3},
     same(size=5, alpha=1e-3, beta=0.5, k=2.0)),
    ("Linear", "Linear", {"in_features": 4, "out_features": 5},
     {"in_features": 4, "out_features": 5}, [({"bias": False}, {"bias_attr": False}, ["bias"])]),
    ("Bilinear", "Bilinear", {"in1_features": 3, "in2_features": 4, "out_features": 5},
     {"in1_features": 3, "in2_features": 4, "out_features": 5},
     [({"bias": False}, {"bias_attr": False}, ["bias"])]),
    ("Embedding", "Embedding", {"num_embeddings": 7, "embedding_dim": 4},
     {"num_embeddings": 7, "embedding_dim": 4}, same(padding_idx=2)),
    ("MaxPool1d", "MaxPool1D", TWO, TWO, POOL), ("MaxPool2d", "MaxPool2D", TWO, TWO, POOL),
    ("MaxPool3d", "MaxPool3D", TWO, TWO, POOL),
    ("AvgPool1d", "AvgPool1D", {**TWO, "padding": 1}, {**TWO, "padding": 1, "exclusive": False},
     AVERAGE),
    ("AvgPool2d", "AvgPool2D", {**TWO, "padding": 1}, {**TWO, "padding": 1, "exclusive": False},
     AVERAGE),
    ("AvgPool3d", "AvgPool3D", {**TWO, "padding": 1}, {**TWO, "padding": 1, "exclusive": False},
     AVERAGE),
    ("AvgPool2d", "AvgPool2D", TWO, TWO, [*POOL[::2], *same(divisor_override=3)]),
    ("LPPool1d", "LPPool1D", {"norm_type": 2, **TWO}, {"norm_type": 2, **TWO}, same(norm_type=3)),
    ("LPPool2d", "LPPool2D", {"norm_type": 2, **TWO}, {"norm_type": 2, **TWO}, same(norm_type=3)),
    *[(f"Adaptive{word}Pool{axes}d", f"Adaptive{word}Pool{axes}D", {"output_size": 2},
       {"output_size": 2}, same(output_size=3)) for word in ("Avg", "Max") for axes in (1, 2, 3)],
    *[(name, name, SIZES, SIZES, RECURRENT) for name in ("LSTM", "GRU")],
    ("RNN", "SimpleRNN", SIZES, SIZES, RECURRENT[:2]),
    ("LSTMCell", "LSTMCell", CELL, CELL, []), ("GRUCell", "GRUCell", CELL, CELL, []),
    ("MultiheadAttention", "MultiHeadAttention", {"embed_dim": 8, "num_heads": 2},
     {"embed_dim": 8, "num_heads": 2}, same(num_heads=4, dropout=0.2)),
    ("TransformerEncoderLayer", "TransformerEncoderLayer",
     {"d_model": 8, "nhead": 2, "dim_feedforward": 16},
     {"d_model": 8, "nhead": 2, "dim_feedforward": 16},
     [({"norm_first": True}, {"normalize_before": True}, ["norm_first"]),
      *same(activation="gelu")]),
    ("Dropout", "Dropout", P, P, same(p=0.4)), ("Dropout2d", "Dropout2D", P, P, same(p=0.4)),
    ("Dropout3d", "Dropout3D", P, P, same(p=0.4)),
    ("AlphaDropout", "AlphaDropout", P, P, same(p=0.4)),
    ("GELU", "GELU", {}, {}, [({"approximate": "tanh"}, {"approximate": True}, ["approximate"])]),
    ("ELU", "ELU", {}, {}, same(alpha=0.5)), ("CELU", "CELU", {}, {}, same(alpha=0.5)),
    ("LeakyReLU", "LeakyReLU", {}, {}, same(negative_slope=0.2)),
    ("Hardshrink", "Hardshrink", {}, {}, [({"lambd": 0.3}, {"threshold": 0.3}, ["lambd"])]),
    ("Softshrink", "Softshrink", {}, {}, [({"lambd": 0.3}, {"threshold": 0.3}, ["lambd"])]),
    ("Hardtanh", "Hardtanh", {}, {}, [({"min_val": -2}, {"min": -2}, ["min_val"])]),
    ("Softplus", "Softplus", {}, {}, same(beta=2, threshold=10)),
    ("RReLU", "RReLU", {}, {}, same(lower=0.2)), ("GLU", "GLU", {}, {},
     [({"dim": 1}, {"axis": 1}, ["dim"])]),
    ("Softmax", "Softmax", {"dim": -1}, {"axis": -1}, [({"dim": 1}, {"axis": 1}, ["dim"])]),
    ("LogSoftmax", "LogSoftmax", {"dim": -1}, {"axis": -1}, [({"dim": 1}, {"axis": 1}, ["dim"])]),
    *[(name, name, {}, {}, []) for name in
      ("ReLU", "ReLU6", "Sigmoid", "Tanh", "SELU", "Hardswish", "Hardsigmoid", "Mish", "LogSigmoid",
       "Softsign", "Tanhshrink", "Identity")],
    ("SiLU", "Silu", {}, {}, []), ("PReLU", "PReLU", {}, {}, [({"num_parameters": 4},
     {"num_parameters": 4}, ["num_parameters"])]),
    ("Upsample", "Upsample", {"scale_factor": 2, "mode": "bilinear"},
     {"scale_factor": 2, "mode": "bilinear"}, same(align_corners=True, scale_factor=3)),
    *[(f"ReflectionPad{axes}d", f"Pad{axes}D", {"padding": 1}, {"padding": 1, "mode": "reflect"},
       same(padding=2)) for axes in (1, 2, 3)],
    ("ConstantPad2d", "Pad2D", {"padding": (1, 2, 0, 0), "value": 0.5},
     {"padding": [1, 2, 0, 0], "value": 0.5}, same(value=0.7)),
    ("ReplicationPad2d", "Pad2D", {"padding": 1}, {"padding": 1, "mode": "replicate"},
     [({}, {"mode": "circular"}, ["padding_mode"])]),
    ("ZeroPad2d", "ZeroPad2D", {"padding": 1}, {"padding": 1}, same(padding=2)),
    ("PixelShuffle", "PixelShuffle", {"upscale_factor": 2}, {"upscale_factor": 2},
     same(upscale_factor=3)),
    ("PixelUnshuffle", "PixelUnshuffle", {"downscale_factor": 2}, {"downscale_factor": 2},
     same(downscale_factor=3)),
    ("ChannelShuffle", "ChannelShuffle", {"groups": 2}, {"groups": 2}, same(groups=4)),
    ("Flatten", "Flatten", {}, {}, [({"start_dim": 2}, {"start_axis": 2}, ["start_dim"])]),
    ("Unflatten", "Unflatten", {"dim": 1, "unflattened_size": [2, 2]}, {"axis": 1, "shape": [2, 2]},
     [({"unflattened_size": [4, 1]}, {"shape": [4, 1]}, ["shape"])]),
    ("Unfold", "Unfold", {"kernel_size": 2}, {"kernel_sizes": 2},
     [({"stride": 2}, {"strides": 2}, ["stride"]),
      ({"dilation": 2}, {"dilations": 2}, ["dilation"])]),
    ("Fold", "Fold", {"output_size": (4, 4), "kernel_size": 2},
     {"output_sizes": [4, 4], "kernel_sizes": 2}, [({"padding": 1}, {"paddings": 1}, ["padding"])]),
    ("CosineSimilarity", "CosineSimilarity", {}, {}, [({"dim": 0}, {"axis": 0}, ["dim"])]),
    ("PairwiseDistance", "PairwiseDistance", {"p": 2.0}, {"p": 2.0}, same(p=1.0)),
    ("CrossEntropyLoss", "CrossEntropyLoss", {}, {},
     [*REDUCTION, *same(ignore_index=2, label_smoothing=0.1)]),
    ("NLLLoss", "NLLLoss", {}, {}, [*REDUCTION, *same(ignore_index=2)]),
    *[(name, name, {}, {}, REDUCTION) for name in
      ("MSELoss", "L1Loss", "BCELoss", "BCEWithLogitsLoss", "SoftMarginLoss", "CTCLoss",
       "MultiLabelSoftMarginLoss", "PoissonNLLLoss", "GaussianNLLLoss")],
    ("KLDivLoss", "KLDivLoss", {}, {}, [*REDUCTION, *same(log_target=True)]),
    *[(name, name, {}, {}, [*REDUCTION, *MARGIN]) for name in
      ("MarginRankingLoss", "HingeEmbeddingLoss", "CosineEmbeddingLoss", "TripletMarginLoss",
       "MultiMarginLoss")],
    ("SmoothL1Loss", "SmoothL1Loss", {}, {}, [*REDUCTION, ({"beta": 2.0}, {"delta": 2.0},
     ["beta"])]),
]  # fmt: skip
"""torch's class, paddle's, settings that make them equal, and changes with what must be named."""


def described(framework: str, name: str, settings: Mapping[str, Any]) -> ModuleInfo:
    """Build a layer and give what a dump would hold of it."""
    made = getattr({"torch": torch.nn, "paddle": paddle.nn}[framework], name)(**settings)
    kind = type(made)
    return ModuleInfo(
        id=0,
        path="m",
        class_name=kind.__name__,
        class_path=f"{kind.__module__}.{kind.__qualname__}",
        parent=None,
        attributes=attributes_of(made, NAMES[framework]),
    )


def differences(torch_side: ModuleInfo, paddle_side: ModuleInfo) -> list[str]:
    found = attribute_differences(torch_side, paddle_side, frameworks=("torch", "paddle"))
    return [difference.name for difference in found]


CASES = [
    pytest.param(*row[:4], *change, id=f"{row[0]}-{'-'.join(change[2])}-{place}")
    for place, row in enumerate(TABLE)
    for change in row[4]
]


@pytest.mark.parametrize(
    ("ours", "theirs", "given", "other"), [row[:4] for row in TABLE], ids=lambda x: str(x)[:20]
)
def test_equal_layers_show_no_difference(
    ours: str, theirs: str, given: Settings, other: Settings
) -> None:
    given = {"batch_first": True, **given} if ours in {"LSTM", "GRU", "RNN"} else given
    given = {"batch_first": True, **given} if "Attention" in ours else given

    found = differences(described("torch", ours, given), described("paddle", theirs, other))

    assert found == []


@pytest.mark.parametrize(("ours", "theirs", "given", "other", "mine", "changed", "named"), CASES)
def test_one_changed_setting_is_the_one_that_is_named(
    ours: str,
    theirs: str,
    given: Settings,
    other: Settings,
    mine: Settings,
    changed: Settings,
    named: list[str],
) -> None:
    needs_order = ours in {"LSTM", "GRU", "RNN", "MultiheadAttention"}
    given = {"batch_first": True, **given} if needs_order else given
    ones = described("torch", ours, given), described("torch", ours, given | mine)
    others = described("paddle", theirs, other), described("paddle", theirs, other | changed)

    assert differences(ones[0], others[1]) == named
    assert not mine or differences(ones[1], others[1]) == []
    assert not mine or differences(ones[1], others[0]) == named
    same_framework = attribute_differences(ones[0], ones[1], frameworks=("torch", "torch"))
    assert not mine or [difference.name for difference in same_framework] == named


def test_what_only_one_framework_can_do_is_named_against_the_others_default() -> None:
    dilated = described("torch", "MaxPool2d", {"kernel_size": 2, "dilation": 2})
    smaller = described("paddle", "Dropout", {"p": 0.3, "mode": "downscale_in_infer"})

    assert differences(dilated, described("paddle", "MaxPool2D", {"kernel_size": 2})) == [
        "dilation"
    ]
    assert differences(described("torch", "Dropout", P), smaller) == ["dropout_mode"]


@pytest.mark.parametrize(
    ("ours", "theirs", "given", "other", "role", "word"),
    [
        ("BatchNorm2d", "BatchNorm2D", {"num_features": 4}, {"num_features": 4}, VARIANCE,
         "unbiased"),
        ("BatchNorm2d", "BatchNorm2D", {"num_features": 4, "momentum": 0.1},
         {"num_features": 4, "momentum": 0.1}, "buffer", "torch's 0.1 is paddle's 0.9"),
        ("Embedding", "Embedding", {"num_embeddings": 7, "embedding_dim": 4, "padding_idx": 0},
         {"num_embeddings": 7, "embedding_dim": 4, "padding_idx": 0}, "output", "padding_idx"),
        ("InstanceNorm2d", "InstanceNorm2D", {"num_features": 4}, {"num_features": 4}, "output",
         "weight_attr=False"),
        ("AvgPool2d", "AvgPool2D", {**TWO, "padding": 1}, {**TWO, "padding": 1}, "output",
         "exclusive=True"),
        ("Softmax", "Softmax", {}, {}, "output", "without dim"),
        ("CrossEntropyLoss", "CrossEntropyLoss", {}, {}, "output", "ignore_index"),
        ("SmoothL1Loss", "SmoothL1Loss", {"beta": 2.0}, {"delta": 2.0}, "output", "is_huber"),
        ("MultiheadAttention", "MultiHeadAttention", {"embed_dim": 8, "num_heads": 2},
         {"embed_dim": 8, "num_heads": 2}, "output", "mask"),
        ("LSTM", "LSTM", SIZES, SIZES, "output", "first axis"),
    ],
)  # fmt: skip
def test_a_measured_difference_of_defaults_is_hinted_with_its_source(
    ours: str, theirs: str, given: Settings, other: Settings, role: str, word: str
) -> None:
    sides = described("torch", ours, given), described("paddle", theirs, other)

    found = known_differences(*sides, frameworks=("torch", "paddle"), role=role)

    assert any(word in str(one) for one in found)
    assert all("docs/differences.md" in str(one) for one in found)


def test_users_own_settings_compare_under_common_words() -> None:
    class Torch(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scaling = 0.125
            self.eps = 1e-6
            self.num_heads = 4

    class Paddle(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 0.25
            self.epsilon = 1e-5
            self.n_head = 4

    sides = [
        ModuleInfo(
            id=0,
            path="m",
            class_name="Attention",
            class_path=f"net.{name}",
            parent=None,
            attributes=attributes_of(made, NAMES[name]),
        )
        for name, made in (("torch", Torch()), ("paddle", Paddle()))
    ]

    assert differences(*sides) == ["eps", "scale"]
