"""Canonical kinds of modules: which classes of the frameworks do the same job.

One table holds every layer of all frameworks. A module is looked up by its *full* class path,
then by those of its bases, so that ``paddle.compat.nn.Linear`` is never taken for
``paddle.nn.Linear`` and a parametrised or quantizable Linear of torch is a Linear. A line with
``#`` stands for three: 1, 2 and 3 axes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.dumpfile import ModuleInfo

_SPACES = {
    "t": "torch.nn",
    "p": "paddle.nn",
    "c": "paddle.compat.nn",
    "i": "paddle.incubate.nn",
    "f": "paddle.distributed.fleet.layers.mpu.mp_layers",
    "m": "mindspore.nn",
    "x": "flax.nnx",
    "k": "keras.layers",
}

_TABLE = """
linear              t.Linear t.LazyLinear p.Linear c.Linear i.FusedLinear f.ColumnParallelLinear f.RowParallelLinear m.Dense x.Linear x.LinearGeneral k.Dense
linear              transformers.pytorch_utils.Conv1D
bilinear            t.Bilinear p.Bilinear m.BiDense
conv#d              t.Conv#d t.LazyConv#d p.Conv#D m.Conv#d k.Conv#D
conv2d              x.Conv
conv_transpose#d    t.ConvTranspose#d t.LazyConvTranspose#d p.Conv#DTranspose m.Conv#dTranspose
batch_norm          t.BatchNorm1d t.BatchNorm2d t.BatchNorm3d t.LazyBatchNorm1d t.LazyBatchNorm2d t.LazyBatchNorm3d t.SyncBatchNorm
batch_norm          p.BatchNorm p.BatchNorm1D p.BatchNorm2D p.BatchNorm3D p.SyncBatchNorm
batch_norm          m.BatchNorm1d m.BatchNorm2d m.BatchNorm3d m.SyncBatchNorm x.BatchNorm k.BatchNormalization
instance_norm       t.InstanceNorm1d t.InstanceNorm2d t.InstanceNorm3d t.LazyInstanceNorm1d t.LazyInstanceNorm2d t.LazyInstanceNorm3d
instance_norm       p.InstanceNorm1D p.InstanceNorm2D p.InstanceNorm3D m.InstanceNorm1d m.InstanceNorm2d m.InstanceNorm3d
layer_norm          t.LayerNorm p.LayerNorm m.LayerNorm x.LayerNorm k.LayerNormalization
group_norm          t.GroupNorm p.GroupNorm m.GroupNorm x.GroupNorm k.GroupNormalization
rms_norm            t.RMSNorm x.RMSNorm k.RMSNormalization
local_response_norm t.LocalResponseNorm p.LocalResponseNorm
cross_map_lrn       t.CrossMapLRN2d
spectral_norm       p.SpectralNorm
embedding           t.Embedding p.Embedding f.VocabParallelEmbedding m.Embedding x.Embed k.Embedding
embedding_bag       t.EmbeddingBag
lstm                t.LSTM p.LSTM m.LSTM
gru                 t.GRU p.GRU m.GRU
rnn                 t.RNN p.SimpleRNN m.RNN
cell_runner         p.RNN
cell_runner2        p.BiRNN
lstm_cell           t.LSTMCell p.LSTMCell m.LSTMCell
gru_cell            t.GRUCell p.GRUCell m.GRUCell
rnn_cell            t.RNNCell p.SimpleRNNCell m.RNNCell
attention           t.MultiheadAttention p.MultiHeadAttention c.MultiheadAttention m.MultiheadAttention x.MultiHeadAttention k.MultiHeadAttention
fused_attention     i.FusedMultiHeadAttention
fused_feedforward   i.FusedFeedForward
fused_transformer   i.FusedMultiTransformer i.FusedTransformerEncoderLayer
transformer         t.Transformer p.Transformer m.Transformer
encoder             t.TransformerEncoder p.TransformerEncoder m.TransformerEncoder
decoder             t.TransformerDecoder p.TransformerDecoder m.TransformerDecoder
encoder_layer       t.TransformerEncoderLayer p.TransformerEncoderLayer m.TransformerEncoderLayer
decoder_layer       t.TransformerDecoderLayer p.TransformerDecoderLayer m.TransformerDecoderLayer
sequential          t.Sequential p.Sequential m.SequentialCell x.Sequential k.Sequential
module_list         t.ModuleList p.LayerList m.CellList x.List
module_dict         t.ModuleDict p.LayerDict m.CellDict x.Dict
parameter_list      t.ParameterList p.ParameterList
parameter_dict      t.ParameterDict p.ParameterDict
parametrizations    torch.nn.utils.parametrize.ParametrizationList
data_parallel       t.DataParallel torch.nn.parallel.distributed.DistributedDataParallel
identity            t.Identity p.Identity m.Identity k.Identity
relu                t.ReLU p.ReLU m.ReLU k.ReLU
relu6               t.ReLU6 p.ReLU6 m.ReLU6
gelu                t.GELU p.GELU m.GELU transformers.activations.GELUActivation
silu                t.SiLU p.Silu p.Swish m.SiLU transformers.activations.SiLUActivation
elu                 t.ELU p.ELU m.ELU k.ELU
celu                t.CELU p.CELU m.CELU
selu                t.SELU p.SELU m.SeLU
glu                 t.GLU p.GLU m.GLU
leaky_relu          t.LeakyReLU p.LeakyReLU m.LeakyReLU k.LeakyReLU
prelu               t.PReLU p.PReLU m.PReLU x.PReLU
rrelu               t.RReLU p.RReLU m.RReLU
sigmoid             t.Sigmoid p.Sigmoid m.Sigmoid
log_sigmoid         t.LogSigmoid p.LogSigmoid m.LogSigmoid
softmax             t.Softmax p.Softmax c.Softmax m.Softmax k.Softmax
softmax2d           t.Softmax2d p.Softmax2D m.Softmax2d
softmin             t.Softmin m.Softmin
log_softmax         t.LogSoftmax p.LogSoftmax m.LogSoftmax
softplus            t.Softplus p.Softplus
softshrink          t.Softshrink p.Softshrink m.SoftShrink
hardshrink          t.Hardshrink p.Hardshrink m.HShrink
tanhshrink          t.Tanhshrink p.Tanhshrink m.Tanhshrink
softsign            t.Softsign p.Softsign m.Softsign
hardsigmoid         t.Hardsigmoid p.Hardsigmoid m.HSigmoid
hardswish           t.Hardswish p.Hardswish m.HSwish
hardtanh            t.Hardtanh p.Hardtanh m.Hardtanh
tanh                t.Tanh p.Tanh m.Tanh
mish                t.Mish p.Mish m.Mish
threshold           t.Threshold p.ThresholdedReLU m.Threshold
maxout              p.Maxout
dropout             t.Dropout p.Dropout i.FusedDropout m.Dropout x.Dropout k.Dropout
dropout1d           t.Dropout1d m.Dropout1d
dropout2d           t.Dropout2d p.Dropout2D m.Dropout2d
dropout3d           t.Dropout3d p.Dropout3D m.Dropout3d
alpha_dropout       t.AlphaDropout p.AlphaDropout
feature_dropout     t.FeatureAlphaDropout p.FeatureAlphaDropout
dropout_add         i.FusedDropoutAdd i.FusedBiasDropoutResidualLayerNorm
max_pool#d          t.MaxPool#d p.MaxPool#D m.MaxPool#d k.MaxPooling#D
avg_pool#d          t.AvgPool#d p.AvgPool#D c.AvgPool#D m.AvgPool#d k.AveragePooling#D
adaptive_avg#d      t.AdaptiveAvgPool#d p.AdaptiveAvgPool#D m.AdaptiveAvgPool#d
adaptive_max#d      t.AdaptiveMaxPool#d p.AdaptiveMaxPool#D m.AdaptiveMaxPool#d
fractional_max2d    t.FractionalMaxPool2d p.FractionalMaxPool2D
fractional_max3d    t.FractionalMaxPool3d p.FractionalMaxPool3D
lp_pool1d           t.LPPool1d p.LPPool1D
lp_pool2d           t.LPPool2d p.LPPool2D
lp_pool3d           t.LPPool3d
max_unpool#d        t.MaxUnpool#d p.MaxUnPool#D
pad#d               t.ConstantPad#d t.ReflectionPad#d t.ReplicationPad#d t.ZeroPad#d t.CircularPad#d p.Pad#D p.ConstantPad#D p.ReflectionPad#D
pad#d               p.ReplicationPad#D p.ZeroPad#D p.CircularPad#D
upsample            t.Upsample p.Upsample
upsample_nearest    t.UpsamplingNearest2d p.UpsamplingNearest2D
upsample_bilinear   t.UpsamplingBilinear2d p.UpsamplingBilinear2D
flatten             t.Flatten p.Flatten m.Flatten k.Flatten
unflatten           t.Unflatten p.Unflatten
fold                t.Fold p.Fold
unfold              t.Unfold p.Unfold c.Unfold
pixel_shuffle       t.PixelShuffle p.PixelShuffle m.PixelShuffle
pixel_unshuffle     t.PixelUnshuffle p.PixelUnshuffle m.PixelUnshuffle
channel_shuffle     t.ChannelShuffle p.ChannelShuffle m.ChannelShuffle
cosine_similarity   t.CosineSimilarity p.CosineSimilarity
pairwise_distance   t.PairwiseDistance p.PairwiseDistance
adaptive_softmax    t.AdaptiveLogSoftmaxWithLoss p.AdaptiveLogSoftmaxWithLoss
hierarchical_softmax p.HSigmoidLoss
cross_entropy       t.CrossEntropyLoss p.CrossEntropyLoss
bce                 t.BCELoss p.BCELoss
bce_logits          t.BCEWithLogitsLoss p.BCEWithLogitsLoss
ctc                 t.CTCLoss p.CTCLoss
rnnt                p.RNNTLoss
mse                 t.MSELoss p.MSELoss
l1                  t.L1Loss p.L1Loss
smooth_l1           t.SmoothL1Loss t.HuberLoss p.SmoothL1Loss
nll                 t.NLLLoss t.NLLLoss2d p.NLLLoss
poisson_nll         t.PoissonNLLLoss p.PoissonNLLLoss
gaussian_nll        t.GaussianNLLLoss p.GaussianNLLLoss
kl_div              t.KLDivLoss p.KLDivLoss
margin_ranking      t.MarginRankingLoss p.MarginRankingLoss
hinge_embedding     t.HingeEmbeddingLoss p.HingeEmbeddingLoss
cosine_embedding    t.CosineEmbeddingLoss p.CosineEmbeddingLoss
soft_margin         t.SoftMarginLoss p.SoftMarginLoss
multi_margin        t.MultiMarginLoss p.MultiMarginLoss
multilabel_margin   t.MultiLabelMarginLoss p.MultiLabelMarginLoss
multilabel_soft     t.MultiLabelSoftMarginLoss p.MultiLabelSoftMarginLoss
triplet_margin      t.TripletMarginLoss p.TripletMarginLoss
triplet_distance    t.TripletMarginWithDistanceLoss p.TripletMarginWithDistanceLoss
"""  # noqa: E501


def expand(name: str) -> str:
    """Write out the short form of a class name that the tables use."""
    space, _, rest = name.partition(".")
    return f"{_SPACES[space]}.{rest}" if space in _SPACES else name


KINDS = {
    expand(name): words[0]
    for line in _TABLE.splitlines()
    for words in (
        (line.replace("#", axes).split() for axes in "123") if "#" in line else [line.split()]
    )
    if words
    for name in words[1:]
}
"""Kind by public full class name."""

ACTIVATIONS = frozenset(
    {
        *("relu", "relu6", "gelu", "silu", "elu", "celu", "selu", "leaky_relu", "rrelu", "mish"),
        *("sigmoid", "log_sigmoid", "tanh", "hardsigmoid", "hardswish", "hardtanh", "threshold"),
        *("softplus", "softsign", "softshrink", "hardshrink", "tanhshrink"),
        *("softmax", "softmax2d", "softmin", "log_softmax"),
    }
)
"""Kinds without parameters that make of each element, or of each row, another of the same size."""

_PUBLIC = (
    (re.compile(r"torch\.nn\.modules\.\w+\.(\w+)"), "torch.nn."),
    (re.compile(r"torch\.nn\.parallel\.data_parallel\.(\w+)"), "torch.nn."),
    (re.compile(r"paddle\.nn\.layer\.\w+\.(\w+)"), "paddle.nn."),
    (re.compile(r"paddle\.compat\.nn\.\w+\.(\w+)"), "paddle.compat.nn."),
    (re.compile(r"paddle\.incubate\.nn\.layer\.\w+\.(\w+)"), "paddle.incubate.nn."),
    (re.compile(r"flax\.nnx\.(?:nn\.\w+|helpers)\.(\w+)"), "flax.nnx."),
    (re.compile(r"keras\.src\.(?:layers\.\w+|models)\.\w+\.(\w+)"), "keras.layers."),
    (re.compile(r"mindspore\.nn\.(?:layer|cell|loss)\.\w+\.(\w+)"), "mindspore.nn."),
)


@lru_cache(maxsize=4096)
def public_name(class_path: str) -> str:
    """Return the name under which a framework publishes a class that it defines elsewhere.

    >>> public_name("paddle.nn.layer.common.Linear")
    'paddle.nn.Linear'
    """
    for pattern, space in _PUBLIC:
        match = pattern.fullmatch(class_path)
        if match:
            return space + match[1]
    return class_path


def known_class(module: ModuleInfo) -> str | None:
    """Return the framework class that a module is or derives from, by its public full name.

    The nearest one in method resolution order counts; None for a class of the user's own.
    """
    return _nearest_known((module.class_path, *module.bases))


@lru_cache(maxsize=4096)
def _nearest_known(paths: tuple[str, ...]) -> str | None:
    return next((name for name in map(public_name, paths) if name in KINDS), None)


def kind_of(module: ModuleInfo) -> str | None:
    """Return the canonical kind of a module: ``linear``, ``conv2d``, ``batch_norm``.

    Returns:
        None for a class that no framework knows, whose children say what it is.
    """
    name = known_class(module)
    return None if name is None else KINDS[name]
