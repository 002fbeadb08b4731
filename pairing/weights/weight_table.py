"""The table of weight rules: what each class calls its parameters and how it lays them out.

A line is ``CLASS LOCAL = ATOM[, ATOM …] [| RULE]``: the parameter that the class calls LOCAL holds
these atoms, laid out by RULE. An atom is a parameter in the neutral form that all classes of a kind
share (torch's, with packed ones taken apart), so every pair of frameworks and both directions
follow from one line each. A parameter without a line is the atom of its own name. ``~`` before
LOCAL: it may stay without partner. ``{i}`` and ``{j}`` stand for numbers, ``{w}`` for a parameter
of a recurrent cell, ``{p}`` for ``q``, ``k`` or ``v``. ``LOCAL = !`` is another name of a parameter
that has a line of its own.

Facts: measured on torch 2.13 and paddle 3.3 in float64, forward, input and parameter gradients;
mindspore 2.10 in float32; flax 0.12; keras 3.15.
"""

from __future__ import annotations

TABLE = """
p.Linear                     weight = weight | transpose
i.FusedLinear                weight = weight | transpose
f.ColumnParallelLinear       weight = weight | transpose
f.RowParallelLinear          weight = weight | transpose
transformers.pytorch_utils.Conv1D weight = weight | transpose

p.Bilinear                   bias = bias | reshape 1 -1

m.Conv1d                     weight = weight | insert 2
m.Conv1dTranspose            weight = weight | insert 2

t.BatchNorm                  ~running_mean = mean
t.BatchNorm                  ~running_var = variance
t.BatchNorm                  ~num_batches_tracked = count
p.BatchNorm                  ~_mean = mean
p.BatchNorm                  ~_variance = variance
m.BatchNorm                  ~gamma = weight
m.BatchNorm                  ~beta = bias
m.BatchNorm                  ~moving_mean = mean
m.BatchNorm                  ~moving_variance = variance
m.BatchNorm                  ~bn2d.gamma = weight
m.BatchNorm                  ~bn2d.beta = bias
m.BatchNorm                  ~bn2d.moving_mean = mean
m.BatchNorm                  ~bn2d.moving_variance = variance

t.InstanceNorm               ~running_mean = mean
t.InstanceNorm               ~running_var = variance
t.InstanceNorm               ~num_batches_tracked = count
p.InstanceNorm               scale = weight
m.InstanceNorm               gamma = weight
m.InstanceNorm               beta = bias
m.InstanceNorm               ~moving_mean = mean
m.InstanceNorm               ~moving_variance = variance

p.LayerNorm                  weight = weight | reshape
p.LayerNorm                  bias = bias | reshape
m.LayerNorm                  gamma = weight
m.LayerNorm                  beta = bias
m.GroupNorm                  gamma = weight
m.GroupNorm                  beta = bias

m.Embedding                  embedding_table = weight

x.Linear                     kernel = weight | transpose
x.LinearGeneral              kernel = weight | transpose | reshape
x.LinearGeneral              bias = bias | reshape
x.Conv                       kernel = weight | permute 2 3 1 0
x.BatchNorm                  scale = weight
x.BatchNorm                  ~mean = mean
x.BatchNorm                  ~var = variance
x.LayerNorm                  scale = weight
x.Embed                      embedding = weight

k.Dense                      kernel = weight | transpose
k.Conv1D                     kernel = weight | permute 2 1 0
k.Conv2D                     kernel = weight | permute 2 3 1 0
k.Conv3D                     kernel = weight | permute 2 3 4 1 0
k.BatchNormalization         gamma = weight
k.BatchNormalization         beta = bias
k.BatchNormalization         ~moving_mean = mean
k.BatchNormalization         ~moving_variance = variance
k.LayerNormalization         gamma = weight
k.LayerNormalization         beta = bias
k.RMSNormalization           scale = weight
k.Embedding                  embeddings = weight

p.PReLU                      _weight = weight
m.PReLU                      w = weight

t.RNN                        {w}_l{i} = {i}.fw.{w}
t.RNN                        weight_hr_l{i} = {i}.fw.weight_hr
t.RNN                        {w}_l{i}_reverse = {i}.bw.{w}
t.RNN                        weight_hr_l{i}_reverse = {i}.bw.weight_hr
p.SimpleRNN                  {i}.cell.{w} = {i}.fw.{w}
p.SimpleRNN                  {i}.cell.weight_ho = {i}.fw.weight_hr | transpose
p.SimpleRNN                  {i}.cell_fw.{w} = {i}.fw.{w}
p.SimpleRNN                  {i}.cell_fw.weight_ho = {i}.fw.weight_hr | transpose
p.SimpleRNN                  {i}.cell_bw.{w} = {i}.bw.{w}
p.SimpleRNN                  {i}.cell_bw.weight_ho = {i}.bw.weight_hr | transpose
p.SimpleRNN                  {w}_l{i} = !
p.SimpleRNN                  {w}_l{i}_reverse = !
p.RNN                        cell.{w} = 0.fw.{w}
p.RNN                        cell.weight_ho = 0.fw.weight_hr | transpose
p.RNN                        cell_fw.{w} = 0.fw.{w}
p.RNN                        cell_fw.weight_ho = 0.fw.weight_hr | transpose
p.RNN                        cell_bw.{w} = 0.bw.{w}
p.RNN                        cell_bw.weight_ho = 0.bw.weight_hr | transpose

t.MultiheadAttention         in_proj_weight = q.weight, k.weight, v.weight | concat 0
t.MultiheadAttention         in_proj_bias = q.bias, k.bias, v.bias | concat 0
t.MultiheadAttention         {p}_proj_weight = {p}.weight
t.MultiheadAttention         {p}_proj_bias = {p}.bias
t.MultiheadAttention         out_proj.weight = out.weight
t.MultiheadAttention         out_proj.bias = out.bias
t.MultiheadAttention         bias_k = extra.k
t.MultiheadAttention         bias_v = extra.v
p.MultiHeadAttention         {p}_proj.weight = {p}.weight | transpose
p.MultiHeadAttention         out_proj.weight = out.weight | transpose
p.MultiHeadAttention         {p}_proj.bias = {p}.bias
p.MultiHeadAttention         out_proj.bias = out.bias
x.MultiHeadAttention         query.kernel = q.weight | transpose | split 1
x.MultiHeadAttention         key.kernel = k.weight | transpose | split 1
x.MultiHeadAttention         value.kernel = v.weight | transpose | split 1
x.MultiHeadAttention         out.kernel = out.weight | transpose | split 0
x.MultiHeadAttention         query.bias = q.bias | split 0
x.MultiHeadAttention         key.bias = k.bias | split 0
x.MultiHeadAttention         value.bias = v.bias | split 0
x.MultiHeadAttention         out.bias = out.bias
k.MultiHeadAttention         _query_dense.kernel = q.weight | transpose | split 1
k.MultiHeadAttention         _key_dense.kernel = k.weight | transpose | split 1
k.MultiHeadAttention         _value_dense.kernel = v.weight | transpose | split 1
k.MultiHeadAttention         _output_dense.kernel = out.weight | transpose | split 0
k.MultiHeadAttention         _query_dense.bias = q.bias | split 0
k.MultiHeadAttention         _key_dense.bias = k.bias | split 0
k.MultiHeadAttention         _value_dense.bias = v.bias | split 0
k.MultiHeadAttention         _output_dense.bias = out.bias

t.AdaptiveLogSoftmaxWithLoss head.weight = head.weight
t.AdaptiveLogSoftmaxWithLoss head.bias = head.bias
t.AdaptiveLogSoftmaxWithLoss tail.{i}.{j}.weight = tail.{i}.{j}
p.AdaptiveLogSoftmaxWithLoss head_weight = head.weight | transpose
p.AdaptiveLogSoftmaxWithLoss head_bias = head.bias
p.AdaptiveLogSoftmaxWithLoss tail_weights.{i}.{j} = tail.{i}.{j} | transpose
p.AdaptiveLogSoftmaxWithLoss tail_w{i}_{j} = tail.{i}.{j} | transpose
"""

SAME_FORM = {
    "t.BatchNorm": "t.BatchNorm1d t.BatchNorm2d t.BatchNorm3d t.SyncBatchNorm "
    "t.LazyBatchNorm1d t.LazyBatchNorm2d t.LazyBatchNorm3d",
    "p.BatchNorm": "p.BatchNorm1D p.BatchNorm2D p.BatchNorm3D p.SyncBatchNorm",
    "m.BatchNorm": "m.BatchNorm1d m.BatchNorm2d m.BatchNorm3d m.SyncBatchNorm",
    "t.InstanceNorm": "t.InstanceNorm1d t.InstanceNorm2d t.InstanceNorm3d "
    "t.LazyInstanceNorm1d t.LazyInstanceNorm2d t.LazyInstanceNorm3d",
    "p.InstanceNorm": "p.InstanceNorm1D p.InstanceNorm2D p.InstanceNorm3D",
    "m.InstanceNorm": "m.InstanceNorm1d m.InstanceNorm2d m.InstanceNorm3d",
    "x.LayerNorm": "x.GroupNorm x.RMSNorm",
    "k.LayerNormalization": "k.GroupNormalization",
    "t.RNN": "t.LSTM t.GRU m.LSTM m.GRU m.RNN",
    "p.SimpleRNN": "p.LSTM p.GRU",
    "p.RNN": "p.BiRNN",
    "t.MultiheadAttention": "c.MultiheadAttention m.MultiheadAttention",
}
"""Classes that share the lines of another class."""

SWITCHED = {"paddle.incubate.nn.FusedLinear": ("transpose_weight", "torch.nn.Linear")}
"""Classes that lie as another class does where an attribute is set: attribute, other class."""

PASSIVE_BUFFERS = (
    "inv_freq", "original_inv_freq", "position_ids", "token_type_ids", "causal_mask", "attn_mask",
    "masked_bias", "relative_position_index", "relative_coords_table", "cos_cached", "sin_cached",
)  # fmt: skip
"""Buffers that a constructor computes, which a port seldom keeps as a buffer too."""
