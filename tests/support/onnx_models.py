"""Models exported to ONNX, and faults to plant in the files."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

from padiff import record
from padiff.dumper import RecordSettings
from padiff.dumper.graphs import GraphSettings, dump_graph
from padiff.dumper.runs.inputs import InputFile
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = [
    "FAULTS",
    "MODELS",
    "Block",
    "Convolutional",
    "Derived",
    "Stack",
    "dump_file",
    "dump_torch",
    "export",
    "node_of",
    "small_file",
]

Inputs = dict[str, torch.Tensor]


class Block(nn.Module):
    """A norm, two products and a residual, with a number that the code states."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(8), nn.Linear(8, 16)
        self.down = nn.Linear(16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return x + y * 0.3


class Stack(nn.Module):
    """Two blocks, whose norms hold the same numbers, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.head = nn.Sequential(Block(), Block()), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(self.blocks(x)), -1)


class Convolutional(nn.Module):
    """A convolution, a norm that exporters fold into it, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(64, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.pool(self.norm(self.conv(x)).relu()).flatten(1))
        return made


class Derived(nn.Module):
    """Numbers that are computed from weights, which an exporter folds."""

    def __init__(self) -> None:
        super().__init__()
        self.decay, self.mix = nn.Parameter(torch.rand(8)), nn.Parameter(torch.randn(8, 8))
        self.up = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.up(x) * -torch.exp(self.decay)
        return y @ self.mix.t() + self.mix[0]


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _words() -> torch.Tensor:
    return torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(1))


def _stack() -> tuple[nn.Module, Inputs]:
    return Stack(), {"x": _numbers(3, 5, 8)}


def _convolutional() -> tuple[nn.Module, Inputs]:
    model = Convolutional()
    norm = model.norm
    nn.init.uniform_(norm.weight, 0.5, 2.0)
    nn.init.normal_(norm.bias)
    norm.running_mean, norm.running_var = _numbers(4), _numbers(4).abs() + 0.5
    return model, {"x": _numbers(2, 3, 8, 8)}


def _resnet() -> tuple[nn.Module, Inputs]:
    from transformers import ResNetConfig, ResNetForImageClassification  # noqa: PLC0415

    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[2, 2, 2, 2], layer_type="basic"
    )
    return ResNetForImageClassification(config), {"pixel_values": _numbers(1, 3, 32, 32)}


def _bert() -> tuple[nn.Module, Inputs]:
    from transformers import BertConfig, BertModel  # noqa: PLC0415

    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=40,
    )  # fmt: skip
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    return BertModel(config), {"input_ids": _words(), "attention_mask": mask}


def _derived() -> tuple[nn.Module, Inputs]:
    return Derived(), {"x": _numbers(3, 8)}


def _llama(*, is_tied: bool = False) -> tuple[nn.Module, Inputs]:
    from transformers import LlamaConfig, LlamaForCausalLM  # noqa: PLC0415

    config = LlamaConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=64, use_cache=False, tie_word_embeddings=is_tied,
    )  # fmt: skip
    return LlamaForCausalLM(config), {"input_ids": _words()}


def _vit() -> tuple[nn.Module, Inputs]:
    from transformers import ViTConfig, ViTModel  # noqa: PLC0415

    config = ViTConfig(
        image_size=16, patch_size=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64,
    )  # fmt: skip
    return ViTModel(config), {"pixel_values": _numbers(2, 3, 16, 16)}


MODELS: Mapping[str, Callable[[], tuple[nn.Module, Inputs]]] = {
    "stack": _stack,
    "convolutional": _convolutional,
    "resnet": _resnet,
    "bert": _bert,
    "derived": _derived,
    "llama": _llama,
    "tied llama": lambda: _llama(is_tied=True),
    "vit": _vit,
}


def export(name: str, folder: Path, **options: Any) -> None:  # noqa: ANN401 - torch's own
    """Write a model's file, its inputs and its dump in torch below a folder, by its name."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.eval()
    arrays: dict[str, Any] = {key: value.numpy() for key, value in inputs.items()}
    np.savez(folder / f"{name}.npz", **arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (), str(folder / f"{name}.onnx"), kwargs=inputs, dynamo=True, verbose=False,
            **options,
        )  # fmt: skip
    dump_torch(model, inputs, folder, name)


def dump_torch(model: nn.Module, inputs: Inputs, folder: Path, name: str) -> Path:
    """Record a model in torch; returns where the dump is."""
    with record(model, name=f"{name}_torch", out=folder, phase=Phase.FORWARD) as recorder:
        model(**inputs)
    return recorder.path


def dump_file(file: Path, inputs: Path | None, **options: Any) -> Path:  # noqa: ANN401
    """Record a file of ONNX beside it; returns where the dump is."""
    settings = GraphSettings(
        model=file,
        record=RecordSettings(out=file.parent, overwrite=True),
        inputs=() if inputs is None else (InputFile(path=inputs),),
        **options,
    )
    return dump_graph(settings)


def node_of(model: Any, operator: str, scope: str, index: int = 0) -> Any:  # noqa: ANN401
    """Return a node by its type and a part of its scope."""
    found = [
        node
        for node in model.graph.node
        if node.op_type == operator
        and any(f"'{scope}'" in one.value for one in node.metadata_props if "scopes" in one.key)
    ]
    return found[index]


def _epsilon(model: Any) -> None:  # noqa: ANN401
    node = node_of(model, "LayerNormalization", "encoder.layer.1.output.LayerNorm")
    next(one for one in node.attribute if one.name == "epsilon").f = 1e-5


def _weight(model: Any) -> None:  # noqa: ANN401
    name = node_of(model, "MatMul", "encoder.layer.1.intermediate.dense").input[1]
    tensor = next(one for one in model.graph.initializer if one.name == name)
    array = numpy_helper.to_array(tensor).copy()
    array[3, 5] += 0.01
    tensor.CopyFrom(numpy_helper.from_array(array, name))


def _axis(model: Any) -> None:  # noqa: ANN401
    node = node_of(model, "Softmax", "encoder.layer.0.attention.self")
    next(one for one in node.attribute if one.name == "axis").i = -2


def _table(model: Any) -> None:  # noqa: ANN401
    name = node_of(model, "Add", "embeddings").input[1]
    tensor = next(one for one in model.graph.initializer if one.name == name)
    array = numpy_helper.to_array(tensor).copy()
    array[..., 3, 5] += 0.01
    tensor.CopyFrom(numpy_helper.from_array(array, name))


def _left_out(model: Any) -> None:  # noqa: ANN401
    node = node_of(model, "Add", "encoder.layer.0.output", 1)
    for other in model.graph.node:
        for place, name in enumerate(other.input):
            if name == node.output[0]:
                other.input[place] = node.input[0]
    model.graph.node.remove(node)


def _cast(model: Any) -> None:  # noqa: ANN401
    node = node_of(model, "Gelu", "encoder.layer.1.intermediate.intermediate_act_fn")
    place = list(model.graph.node).index(node)
    there = helper.make_node("Cast", [node.input[0]], ["coarse"], name="coarse", to=10)
    back = helper.make_node("Cast", ["coarse"], ["back"], name="back", to=1)
    for one in (there, back):
        one.metadata_props.extend(node.metadata_props)
    node.input[0] = "back"
    model.graph.node.insert(place, back)
    model.graph.node.insert(place, there)


FAULTS: Mapping[str, tuple[Callable[[Any], None], str, str]] = {
    "epsilon": (_epsilon, "encoder.layer.1.output.LayerNorm", "1e-05"),
    "weight": (_weight, "encoder.layer.1.intermediate.dense", "1 of 2,048 elements"),
    "axis": (_axis, "encoder.layer.0.attention.self", "axis of Softmax: -2"),
    "folded table": (_table, "embeddings", "BertEmbeddings"),
    "left out": (_left_out, "encoder.layer.0.output", "left out: add"),
    "cast": (_cast, "encoder.layer.1.intermediate.intermediate_act_fn", "float16"),
}
"""What changes the exported BERT, the module that is at fault, and what its cause says."""


def small_file(folder: Path, **changes: Any) -> Path:  # noqa: ANN401
    """Write a graph of two operators without any metadata, and its inputs; returns its path.

    Args:
        folder: Where.
        changes: ``opset``, ``domain`` of the second operator.
    """
    weight = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "fc.weight")
    domain = changes.get("domain", "")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "fc.weight"], ["y"], name="/fc/MatMul"),
            helper.make_node("Relu", ["y"], ["z"], name="/act/Relu", domain=domain),
        ],
        "small",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [2, 2])],
        [weight],
    )
    opsets = [helper.make_opsetid("", changes.get("opset", 20))]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, folder / "small.onnx")
    np.savez(folder / "x.npz", x=np.ones((2, 3), np.float32))
    return folder / "small.onnx"
