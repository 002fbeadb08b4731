"""The script that runs one extracted layer alone.

Its text is the same for all layers of a framework: everything that came out of the dump is read as
data when the script runs, and classes are taken from the framework's own ``nn`` only.
"""

from __future__ import annotations

import re

_LAYER = {
    "torch": re.compile(r"torch\.nn(\.[A-Za-z_][A-Za-z0-9_]*)+", re.ASCII),
    "paddle": re.compile(r"paddle\.nn(\.[A-Za-z_][A-Za-z0-9_]*)+", re.ASCII),
}

_HEAD = '''\
"""Run the extracted layer of the {side} alone, and compare with what was recorded.
{against}
Exit code 0 if the outputs agree with the recorded ones, 1 if not.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import {framework}

FOLDER = Path(__file__).parent
ABOUT = json.loads((FOLDER / "{side}.json").read_text())
DATA = np.load(FOLDER / "{side}.npz")
EXPECTED = None
if sys.argv[1:] == ["--against", "reference"] and "{side}" == "candidate":
    EXPECTED = np.load(FOLDER / "against.npz")
elif sys.argv[1:]:
    sys.exit(f"expected {usage}, found {{' '.join(sys.argv[1:])}}")
RTOL, ATOL = 1e-4, 1e-5
'''

_AGAINST = """
With --against reference it is given what the reference was given, and compared with what that made
of it: a layer that was repaired agrees.
"""

_BUILD_KNOWN = '''

def build():
    """Make the layer from its class and the recorded attributes, and the layers inside it."""
    return made("")


CONTAINERS = ("Sequential", "ModuleList", "LayerList", "ModuleDict", "LayerDict")
DERIVED = {{
    "d_model": ("self_attn", "embed_dim"),
    "nhead": ("self_attn", "num_heads"),
    "dim_feedforward": ("linear1", "out_features"),
    "batch_first": ("self_attn", "batch_first"),
    "dropout": ("dropout", "p"),
}}


def made(path):
    """Make the framework's layer at a path inside the extracted one."""
    import importlib
    import inspect

    about = ABOUT["modules"][path]
    if re.fullmatch(r"{framework}\\.nn(\\.\\w+)+", about["class"]) is None:
        raise NotImplementedError(f"make {{path!r}} here: {{about['class']}} is a class of yours")
    home, _, name = about["class"].rpartition(".")
    layer = getattr(importlib.import_module(home), name)
    if not (isinstance(layer, type) and issubclass(layer, {framework}.nn.{base})):
        raise NotImplementedError(f"make {{path!r}} here: {{about['class']}} is no layer")
    inner = [one for one in ABOUT["modules"] if one and one.rpartition(".")[0] == path]
    if name in CONTAINERS:
        whole = layer()
        for one in inner:
            add = getattr(whole, "add_module", None) or whole.add_sublayer
            add(one.rpartition(".")[2], made(one))
        return whole
    accepted = {{}}
    for kind in layer.__mro__:
        own = inspect.signature(kind.__init__).parameters
        accepted = {{**own, **accepted}}
        if not any(one.kind is one.VAR_KEYWORD for one in own.values()):
            break
    found = arguments_of(path, about["attributes"], accepted)
    if name in ("RNN", "LSTM", "GRU"):  # these give their base its mode themselves
        found.pop("mode", None)
    for word, single in (("encoder_layer", "layers.0"), ("decoder_layer", "layers.0")):
        if word in accepted:
            found[word] = made(f"{{path}}.{{single}}" if path else single)
            found["num_layers"] = sum(
                one.rpartition(".")[0] == (f"{{path}}.layers" if path else "layers")
                for one in ABOUT["modules"]
            )
    try:
        return layer(**found)
    except TypeError as error:
        raise NotImplementedError(f"make the layer here, the attributes are not enough: {{error}}")


def arguments_of(path, attributes, accepted):
    """Find what the class was made with."""
    start = f"{{path}}." if path else ""
    entries = [one for one in ABOUT["arrays"] if one["role"] == "weight"]
    shapes = {{one["name"].removeprefix("."): one["shape"] for one in entries}}
    own = {{one[len(start) :]: size for one, size in shapes.items() if one.startswith(start)}}
    found = {{key: value for key, value in attributes.items() if key in accepted}}
    for known, word in (("ksize", "kernel_size"), ("return_mask", "return_indices")):
        if known in attributes and word in accepted:
            found.setdefault(word, attributes[known])
    for option in ("weight_attr", "bias_attr", "device", "dtype", "name"):
        found.pop(option, None)
    has_bias = any(one.endswith("bias") for one in own)
    if "bias" in accepted and not isinstance(found.get("bias"), bool):
        found["bias"] = has_bias
    if "bias_attr" in accepted and not has_bias:
        found["bias_attr"] = False
    if "in_features" in accepted and "in_features" not in found and "weight" in own:
        found["in_features"], found["out_features"] = own["weight"]
    if "direction" in accepted and attributes.get("num_directions") == 2:
        found["direction"] = "bidirect"
    for word, (inner, attribute) in DERIVED.items():
        held = ABOUT["modules"].get(f"{{start}}{{inner}}", {{}}).get("attributes", {{}})
        if word in accepted and word not in found and attribute in held:
            found[word] = held[attribute]
    if "dim_feedforward" in accepted and "linear1.weight" in own:
        found.setdefault("dim_feedforward", own["linear1.weight"][1])
    function = re.fullmatch(r"<.*\\.(\\w+)>", str(found.get("activation")))
    if function:
        found["activation"] = function[1]
    return found
'''

_BUILD_STUB = '''

def build():
    """Make the layer: its class is not the framework's own, so this is yours to fill in.

    Import it and return one, such as ``return Block(64)``. ABOUT["class"] names the class,
    ABOUT["attributes"] what was found on the object; weights are set afterwards.
    """
    raise NotImplementedError(f"make the layer here: {ABOUT['class']} with {ABOUT['attributes']}")
'''

_MIDDLE = '''

def arrays(role):
    """Give the recorded arrays of a role by name."""
    entries = [entry for entry in ABOUT["arrays"] if entry["role"] == role]
    found = {entry["name"]: (DATA[entry["key"]], entry["dtype"]) for entry in entries}
    if EXPECTED is None or role not in ("input", "output"):
        return found
    for entry in entries:
        if entry["key"] in EXPECTED:
            found[entry["name"]] = EXPECTED[entry["key"]], entry["dtype"]
        else:
            print(f"{role}{entry['name']}: the reference has none, this is the candidate's own")
    return found


def arguments():
    """Give the recorded arguments, tensors and others, put together as they were nested."""
    found = {name: tensor(*value) for name, value in arrays("input").items()}
    for name, value in ABOUT["literals"].items():
        found.setdefault(name.removeprefix("input"), value)
    whole = {}
    for name, value in found.items():
        steps = re.findall(r"\\[(\\d+)\\]|\\['([^']*)'\\]", name)
        if "".join(f"[{place}]" if place else f"['{key}']" for place, key in steps) != name:
            raise NotImplementedError(f"put the argument {name} together here")
        inner = whole
        for place, key in steps[:-1]:
            inner = inner.setdefault(int(place) if place else key, {})
        place, key = steps[-1]
        inner[int(place) if place else key] = value
    whole = nested(whole)
    if not isinstance(whole, dict):
        return whole, {}
    positional = [whole[key] for key in sorted(key for key in whole if isinstance(key, int))]
    return positional, {key: value for key, value in whole.items() if isinstance(key, str)}


def nested(value):
    """Make tuples of what was numbered."""
    if not isinstance(value, dict):
        return value
    inner = {key: nested(part) for key, part in value.items()}
    if inner and all(isinstance(key, int) for key in inner):
        return tuple(inner[key] for key in sorted(inner))
    return inner


def mine(own, name):
    """Give the parameter of that name."""
    if name.removeprefix(".") not in own:
        raise NotImplementedError(f"build() made another layer: it has no parameter {name!r}")
    return own[name.removeprefix(".")]


def outputs(value, slot=""):
    """Give all tensors of the result by slot, as the dump names them."""
    inner = {}
    if isinstance(value, (tuple, list)):
        inner = {f"{slot}[{place}]": part for place, part in enumerate(value)}
    elif isinstance(value, dict):
        inner = {f"{slot}['{name}']": part for name, part in value.items()}
    elif is_tensor(value):
        return {slot: as_array(value)}
    found = {}
    for name, part in inner.items():
        found.update(outputs(part, name))
    return found


def main():
    layer = build()
    layer.train() if ABOUT["training"] else layer.eval()
    set_parameters(layer)
    positional, named = arguments()
    found = outputs(run(layer, positional, named))
    failed = 0
    for name, (expected, dtype) in arrays("output").items():
        if name not in found:
            print(f"output{name}: not computed")
            failed += 1
            continue
        got = found[name].astype(expected.dtype)
        agrees = got.shape == expected.shape and np.allclose(
            got, expected, rtol=RTOL, atol=ATOL, equal_nan=True
        )
        distance = np.abs(got - expected) if got.shape == expected.shape else np.array([np.nan])
        worst = distance.max(initial=0)
        print(f"output{name}: {'agrees' if agrees else 'DIFFERS'}, max abs {worst}")
        failed += not agrees
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
'''

_TORCH = """

def tensor(array, dtype):
    return torch.from_numpy(np.array(array)).to(getattr(torch, dtype))


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def as_array(value):
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def set_parameters(layer):
    own = dict(layer.named_parameters(remove_duplicate=False))
    own |= dict(layer.named_buffers(remove_duplicate=False))
    with torch.no_grad():
        for role in ("weight", "buffer"):
            for name, value in arrays(role).items():
                mine(own, name).data = tensor(*value)  # in its own dtype


def run(layer, positional, named):
    torch.manual_seed(0)
    return layer(*positional, **named)
"""

_PADDLE = """

def tensor(array, dtype):
    return paddle.to_tensor(np.array(array)).astype(dtype)


def is_tensor(value):
    return isinstance(value, paddle.Tensor)


def as_array(value):
    value = value.detach()
    return (value.astype("float32") if value.dtype == paddle.bfloat16 else value).numpy()


def set_parameters(layer):
    dtypes = [dtype for _, dtype in arrays("weight").values()]
    if dtypes and not str(layer.parameters()[0].dtype).endswith(dtypes[0]):
        layer.to(dtype=dtypes[0])
    own = {}
    for path, inner in layer.named_sublayers(include_self=True):
        for name, value in (inner._parameters | inner._buffers).items():
            own[f"{path}.{name}" if path else name] = value
    for role in ("weight", "buffer"):
        for name, value in arrays(role).items():
            mine(own, name).set_value(tensor(*value))


def run(layer, positional, named):
    paddle.seed(0)
    return layer(*positional, **named)
"""

_OTHER = """

def tensor(array, dtype):
    raise NotImplementedError("make a tensor of an array here")


def is_tensor(value):
    raise NotImplementedError("tell whether this is a tensor here")


def as_array(value):
    raise NotImplementedError("make an array of a tensor here")


def set_parameters(layer):
    raise NotImplementedError("set weights and buffers here")


def run(layer, positional, named):
    return layer(*positional, **named)
"""


def script_for(side: str, framework: str, class_path: str) -> str:
    """Return the script of one side.

    Args:
        side: ``reference`` or ``candidate``: which files it reads.
        framework: What recorded it; others than torch and paddle get stubs to fill in.
        class_path: Full class name; one that is not the framework's own gets a stub.
    """
    known = framework if framework in _LAYER else ""
    is_candidate = side == "candidate"
    head = _HEAD.format(
        side=side,
        framework=known or "numpy  # and the framework",
        against=_AGAINST if is_candidate else "",
        usage="--against reference, or nothing" if is_candidate else "nothing",
    )
    is_own = bool(known) and _LAYER[known].fullmatch(class_path) is not None
    base = {"torch": "Module", "paddle": "Layer"}.get(known, "")
    build = _BUILD_KNOWN.format(framework=known, base=base) if is_own else _BUILD_STUB
    tensors = {"torch": _TORCH, "paddle": _PADDLE}.get(known, _OTHER)
    return head + build + tensors + _MIDDLE
