"""Files of ONNX as graphs. The one place that reads them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import checker, helper, inliner, numpy_helper, shape_inference

from padiff.dumper.graphs.graph import Graph, Leaf, Node, Port, Scope
from padiff.dumper.graphs.scopes import in_order
from padiff.dumper.runs.target import near_names
from padiff.dumpfile import (
    DTYPE_NAMES,
    Argument,
    ConfigError,
    Dtype,
    LeafKind,
    Opaque,
    SourceLine,
    is_floating,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

OPSETS = range(13, 29)
"""Those whose operators the lowering table knows; ONNX's node tests run on it."""
_DOMAINS = {"": "onnx.", "ai.onnx": "onnx."}
_META = "pkg.torch.onnx."
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_RULES = "pkg.onnxscript.rewriter.rule_name"
_FOLDED_FROM = "pkg.onnxscript.optimizer.folded_from"
_DAMAGED = "copy it again, or export it again"
_TARGET = re.compile(r"^(\w+): (PARAMETER|BUFFER) target='([^']*)'", re.MULTILINE)
_FRAME = re.compile(r'^\s*File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
_KINDS = {"PARAMETER": LeafKind.PARAMETER, "BUFFER": LeafKind.BUFFER}
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
     "RandomUniformLike"}
)  # fmt: skip
_LINEAR = "aten.linear.default"
"""Multiplies by its weight with the axes exchanged."""
_MATRIX = 2
_PRODUCTS = {
    "onnx.Conv": {axes + 2: f"torch.nn.modules.conv.Conv{axes}d" for axes in (1, 2, 3)},
    "onnx.ConvTranspose": {
        axes + 2: f"torch.nn.modules.conv.ConvTranspose{axes}d" for axes in (1, 2, 3)
    },
    "onnx.Gemm": {_MATRIX: "torch.nn.modules.linear.Linear"},
}
"""Operators that norms are folded into, with the class of the layer by the axes of its weight."""


class OnnxFormat:
    """Reads files of ONNX."""

    name = "onnx"

    def read(self, path: Path, *, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        """Read a file as a graph.

        Raises:
            ConfigError: It is damaged, or holds what is not supported.
        """
        model = _load(path)
        opset = _opset(model, path)
        _check_structure(model, path)
        _check_files(model, path)
        if model.functions:
            model = inliner.inline_local_functions(model)
        model = _with_shapes(model, shapes)
        return _Reader(model, path).graph(f"opset {opset}")


class _Reader:
    """Takes one model apart."""

    def __init__(self, model: Any, path: Path) -> None:  # noqa: ANN401 - onnx has no types
        self.proto, self.path = model.graph, path
        meta = {one.key: one.value for one in self.proto.metadata_props}
        found = _TARGET.findall(meta.get(_SIGNATURE, ""))
        self.targets = {name: (target, _KINDS[kind]) for name, kind, target in found}
        """Weights and buffers of the exported model, by the name that the exporter gave each."""
        self.folded: dict[str, str] = {}
        """The weight that each initializer was computed from, where that is one."""
        norms = (node for node in self.proto.node if node.op_type == "BatchNormalization")
        self.statistics = {name for node in norms for name in node.input[3:]}
        """Initializers that hold the running statistics of norms."""
        self.infos = {
            info.name: info
            for info in (*self.proto.value_info, *self.proto.input, *self.proto.output)
        }

    def graph(self, version: str) -> Graph:
        """Return the whole graph, whose operators are of a version."""
        constants = {node.output[0]: node for node in self.proto.node if _is_constant(node)}
        protos = [node for node in self.proto.node if not _is_constant(node)]
        leaves = {tensor.name: self.leaf(tensor.name, tensor) for tensor in self.proto.initializer}
        for name, node in constants.items():
            leaves[name] = self.leaf(name, _constant(node, self.path))
        nodes = self.with_own_weights([self.node(proto) for proto in protos], protos, leaves)
        held = {leaf.weight for leaf in leaves.values()}
        return Graph(
            version=version,
            nodes=tuple(in_order(nodes)),
            leaves=leaves,
            inputs=tuple(
                self.port(info.name) for info in self.proto.input if info.name not in leaves
            ),
            outputs=tuple(info.name for info in self.proto.output),
            ports={name: self.port(name) for name in self.infos},
            folded=tuple(target for target, _ in self.targets.values() if target not in held),
        )

    def with_own_weights(
        self, nodes: list[Node], protos: list[Any], leaves: dict[str, Leaf]
    ) -> list[Node]:
        """Return the nodes, each with the weights of its own module.

        The exporter merges equal initializers and exchanges the axes of those that it multiplies
        by; what each node was exported from names the weights that were meant.
        """
        groups: dict[str, list[int]] = {}
        for place, node in enumerate(nodes):
            if node.origin:
                groups.setdefault(node.origin, []).append(place)
        found = list(nodes)
        for places in groups.values():
            exported = _exported(protos[places[0]])
            weights = [self.targets[name] for name in exported.names if name in self.targets]
            taken = dict.fromkeys(name for place in places for name in nodes[place].inputs)
            held = [leaves[name] for name in taken if name in leaves and leaves[name].weight]
            absent = [one for one in weights if one[0] not in {leaf.weight for leaf in held}]
            spare = [leaf for leaf in held if leaf.weight not in {one[0] for one in weights}]
            if not absent or len(absent) != len(spare):
                absent, spare = [], []
            own = {
                leaf.name: replace(leaf, name=name, weight=name, kind=kind)
                for leaf, (name, kind) in zip(spare, absent, strict=True)
            }
            leaves.update({leaf.name: leaf for leaf in own.values()})
            for place in places:
                inputs = tuple(
                    own[name].name if name in own else name for name in nodes[place].inputs
                )
                found[place] = replace(nodes[place], inputs=inputs)
                if nodes[place].operator == "onnx.MatMul" and exported.target == _LINEAR:
                    self.turn(found[place], leaves)
        for name, leaf in leaves.items():
            if leaf.weight in self.folded.values() and not leaf.is_transposed:
                is_other = name in self.folded or leaf.weight != name
                kept = replace(leaf, kind=LeafKind.CONSTANT, weight="") if is_other else leaf
                leaves[name] = kept
        _part_tied(found, leaves)
        return [
            self.with_folded_norm(node, leaves) if _folds_norm(proto) else node
            for node, proto in zip(found, protos, strict=True)
        ]

    def turn(self, node: Node, leaves: dict[str, Leaf]) -> None:
        """State that a product multiplies by the weight of its module with the axes exchanged."""
        leaf = leaves.get(node.inputs[1])
        if leaf is not None and leaf.weight and len(leaf.shape) == _MATRIX:
            leaves[leaf.name] = replace(leaf, is_transposed=True)

    def with_folded_norm(self, node: Node, leaves: dict[str, Leaf]) -> Node:
        """Return a product in the module that owns its weight.

        A norm was folded into it: the exporter notes the norm's scope, and the product has a bias
        that only it takes.
        """
        weight = leaves.get(node.inputs[1]) if node.inputs[1:] else None
        kind = _PRODUCTS.get(node.operator)
        if kind is None or weight is None or not weight.weight or not node.scopes:
            return node
        owner = weight.weight.rpartition(".")[0]
        if owner in {scope.path for scope in node.scopes}:
            return node
        bias = leaves.get(node.inputs[2]) if node.inputs[2:] else None
        if bias is not None and not bias.weight:
            name = f"{owner}.bias"
            leaves[bias.name] = replace(bias, weight=name, kind=LeafKind.PARAMETER)
        around = [
            one for one in node.scopes if not one.path or f"{owner}.".startswith(f"{one.path}.")
        ]
        made = Scope(path=owner, class_path=kind[len(weight.shape)])
        return replace(node, scopes=(*around, made))

    def node(self, proto: Any) -> Node:  # noqa: ANN401
        """Return one operator."""
        meta = {one.key: one.value for one in proto.metadata_props}
        scopes, origin = _scopes(proto.name, meta)
        prefix = _DOMAINS.get(proto.domain, f"onnx.{proto.domain}.")
        return Node(
            operator=f"{prefix}{proto.op_type}",
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes={one.name: _attribute(one) for one in proto.attribute},
            scopes=scopes,
            origin=origin,
            sites=tuple(_sites(meta.get(f"{_META}stack_trace", ""))),
            is_random=proto.op_type in _RANDOM,
        )

    def port(self, name: str) -> Port:
        """Return what the file says of the type of a value."""
        kind = self.infos[name].type.tensor_type
        sizes = tuple(
            one.dim_value if one.HasField("dim_value") else None for one in kind.shape.dim
        )
        return Port(name=name, dtype=_dtype(kind.elem_type), shape=sizes)

    def leaf(self, name: str, tensor: Any) -> Leaf:  # noqa: ANN401
        """Return a value that stands in the file."""
        dtype = _dtype(tensor.data_type)
        is_array = is_floating(dtype) and bool(tensor.dims)
        source, kind = self.source_of(name, is_array=is_array)
        if dtype not in DTYPE_NAMES:
            raise ConfigError(
                f"cannot read model {str(self.path)!r}: expected numbers in the initializer "
                f"{name!r}, found {dtype}"
            )
        return Leaf(
            name=name,
            dtype=dtype,
            shape=tuple(tensor.dims),
            read=partial(_elements, tensor, self.path),
            kind=kind,
            weight=source,
        )

    def source_of(self, name: str, *, is_array: bool) -> tuple[str, LeafKind]:
        """Return the weight or buffer that an initializer holds, and which kind of leaf it is.

        Where the exporter did not note its weights, those are weights that can be trained.
        """
        if not self.targets:
            kept = LeafKind.BUFFER if name in self.statistics else LeafKind.PARAMETER
            return (name, kept) if is_array else ("", LeafKind.CONSTANT)
        kinds = dict(self.targets.values())
        if name in kinds:
            return name, kinds[name]
        info = self.infos.get(name)
        props = () if info is None else info.metadata_props
        meta = {one.key: one.value for one in props}
        sources = _names(meta.get(_FOLDED_FROM, ""))
        if len(sources) == 1 and sources[0] in kinds:
            self.folded[name] = sources[0]
            return sources[0], kinds[sources[0]]
        return "", LeafKind.CONSTANT


@dataclass(frozen=True, slots=True)
class _Exported:
    """What a node was exported from."""

    target: str
    """The operator: ``aten.linear.default``."""
    names: tuple[str, ...]
    """What it took, by the exporter's names."""


def _exported(proto: Any) -> _Exported:  # noqa: ANN401
    meta = {one.key: one.value for one in proto.metadata_props}
    text = meta.get(f"{_META}fx_node", "")
    target = re.search(r"target=(?:torch\.ops\.)?([\w.]+)", text)
    taken = text.partition("](")[2]
    return _Exported("" if target is None else target[1], tuple(re.findall(r"%(\w+)", taken)))


def _part_tied(nodes: Sequence[Node], leaves: dict[str, Leaf]) -> None:
    """Name weights after the modules that take them, where two leaves hold one.

    A weight that is tied is in the file twice: as it is, and turned.
    """
    counts = Counter(leaf.weight for leaf in leaves.values() if leaf.weight)
    for node in nodes:
        path = node.scopes[-1].path if node.scopes else ""
        for name in node.inputs:
            leaf = leaves.get(name)
            if leaf is not None and path and counts[leaf.weight] > 1:
                local = leaf.weight.rpartition(".")[2]
                leaves[name] = replace(leaf, weight=f"{path}.{local}")


def _folds_norm(proto: Any) -> bool:  # noqa: ANN401
    """Return whether the exporter folded a norm into a product."""
    rules = (one.value for one in proto.metadata_props if one.key == _RULES)
    return any("FuseBatchNorm" in rule for rule in rules)


def _load(path: Path) -> Any:  # noqa: ANN401
    """Read a file without the elements that lie in other files.

    Raises:
        ConfigError: There is none, or it is damaged.
    """
    what = f"cannot read model {str(path)!r}"
    if not path.is_file():
        siblings = path.parent.glob("*.onnx") if path.parent.is_dir() else ()
        raise ConfigError(f"{what}: no such file", hint=near_names(str(path), map(str, siblings)))
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError) as error:
        raise ConfigError(
            f"{what}: expected a file of ONNX, found something else", hint=_DAMAGED
        ) from error
    if not model.graph.node or not model.opset_import:
        raise ConfigError(f"{what}: expected a graph with operators, found none", hint=_DAMAGED)
    return model


def _opset(model: Any, path: Path) -> int:  # noqa: ANN401
    """Return the opset of a model.

    Raises:
        ConfigError: It is not supported.
    """
    found: int = next((one.version for one in model.opset_import if one.domain in _DOMAINS), 0)
    if found not in OPSETS:
        raise ConfigError(
            f"cannot read model {str(path)!r}: expected opset {OPSETS[0]} to {OPSETS[-1]}, found "
            f"{found or 'none'}",
            hint="convert it with onnx.version_converter, or export it with another opset_version",
        )
    return found


def _check_files(model: Any, path: Path) -> None:  # noqa: ANN401
    """Check that the elements that lie in other files are there, and beside the model.

    Raises:
        ConfigError: They are not.
    """
    folder = path.parent.resolve()
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        place = {one.key: one.value for one in tensor.external_data}
        what = f"cannot read the initializer {tensor.name!r} of model {str(path)!r}"
        file = folder / place.get("location", "")
        if folder not in file.resolve().parents:
            raise ConfigError(
                f"{what}: expected its elements below the model's folder, found "
                f"{place.get('location', '')!r}",
                hint="save the model with its data beside it: onnx.save(…, location='model.data')",
            )
        ends = int(place.get("offset", 0)) + int(place.get("length", 0))
        if not file.is_file() or file.stat().st_size < ends:
            found = "is not there" if not file.is_file() else f"has fewer than {ends} bytes"
            raise ConfigError(
                f"{what}: its elements lie in {place.get('location', '')!r}, which {found}",
                hint="copy the data file beside the model, or export it again",
            )


def _check_structure(model: Any, path: Path) -> None:  # noqa: ANN401
    """Check what ONNX asks of a model.

    Raises:
        ConfigError: It is not so.
    """
    context = checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {one.domain: one.version for one in model.opset_import}
    try:
        for node in model.graph.node:
            checker.check_node(node, context)
    except (checker.ValidationError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"cannot read model {str(path)!r}: it is no valid graph: {first}", hint=_DAMAGED
        ) from error


def _with_shapes(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> Any:  # noqa: ANN401
    """Return a model with the types of all values that follow from the inputs'."""
    for info in model.graph.input:
        if info.name in shapes:
            dims = info.type.tensor_type.shape
            del dims.dim[:]
            for size in shapes[info.name]:
                dims.dim.add().dim_value = size
    return shape_inference.infer_shapes(model, data_prop=True)


def _is_constant(proto: Any) -> bool:  # noqa: ANN401
    return proto.op_type == "Constant" and proto.domain in _DOMAINS


def _constant(proto: Any, path: Path) -> Any:  # noqa: ANN401
    """Return the tensor that a node ``Constant`` states."""
    attribute = proto.attribute[0]
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return value
    kind = {"f": np.float32, "i": np.int64}.get(attribute.name.removeprefix("value_")[:1])
    if kind is None:
        raise ConfigError(
            f"cannot read model {str(path)!r}: expected a constant of numbers, found "
            f"{attribute.name!r} of {proto.name!r}"
        )
    return numpy_helper.from_array(np.array(value, kind), proto.output[0])


def _elements(tensor: Any, path: Path) -> Any:  # noqa: ANN401
    return np.asarray(numpy_helper.to_array(tensor, base_dir=str(path.parent)))


def _dtype(number: int) -> str:
    if number == onnx.TensorProto.BFLOAT16:
        return "bfloat16"
    try:
        return str(np.dtype(helper.tensor_dtype_to_np_dtype(number)).name)
    except KeyError:
        return "unknown"


def _names(text: str) -> list[str]:
    """Read a list of names as Python writes it."""
    try:
        found = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError):
        return []
    return [str(one) for one in found]


def _scopes(name: str, meta: Mapping[str, str]) -> tuple[tuple[Scope, ...], str]:
    """Return the modules around a node, and what it was exported from."""
    paths = _names(meta.get(f"{_META}name_scopes", ""))
    if paths:
        classes = _names(meta.get(f"{_META}class_hierarchy", ""))
        classes += [""] * (len(paths) - len(classes))
        pairs = zip(paths[:-1], classes[: len(paths) - 1], strict=True)
        return tuple(Scope(path=path, class_path=kind) for path, kind in pairs), paths[-1]
    return tuple(Scope(path=path) for path in _paths_in(name)), ""


def _paths_in(name: str) -> list[str]:
    """Return the module paths in a node's name, the root's first.

    The children of a list repeat its name.

    >>> _paths_in("/encoder/layers/layers.0/up/MatMul")
    ['', 'encoder', 'encoder.layers', 'encoder.layers.0', 'encoder.layers.0.up']
    """
    parts = name.split("/")
    if len(parts) < _MATRIX or parts[0]:
        return []
    found, above = [""], ""
    for before, part in pairwise(parts[:-1]):
        inside = part.removeprefix(f"{before}.") if before else part
        above = f"{above}.{inside}".lstrip(".")
        found.append(above)
    return found


def _sites(text: str) -> Iterable[SourceLine]:
    """Yield the user's lines of a stack trace, the outermost first."""
    for file, line, function in _FRAME.findall(text):
        if "-packages/torch/" not in file:
            short = file.rpartition("-packages/")[2] if "-packages/" in file else file
            name = short if short != file else file.rpartition("/")[2]
            yield SourceLine(file=name, line=int(line), function=function)


def _attribute(proto: Any) -> Argument:  # noqa: ANN401
    """Return an attribute as a program holds it.

    Numbers of float32 become the shortest decimal number that is rounded to them: an epsilon of
    1e-5 was meant, not 9.99999974e-06.
    """
    kinds = onnx.AttributeProto
    value = helper.get_attribute_value(proto)
    if proto.type in (kinds.GRAPH, kinds.GRAPHS):
        return Opaque("<a graph>")
    if proto.type == kinds.TENSOR:
        return tuple(numpy_helper.to_array(value).reshape(-1).tolist())
    if proto.name in {"to", "dtype", "output_dtype", "softmax_precision"}:
        return Dtype(_dtype(value))
    return _plain(value)


def _plain(value: Any) -> Argument:  # noqa: ANN401
    if isinstance(value, float):
        return float(str(np.float32(value)))
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, int | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return Opaque(f"<{type(value).__name__}>")
