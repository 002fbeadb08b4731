"""The script that runs one extracted layer alone.

Its text is the same for all layers but for the class, which is checked to be a dotted name of the
framework's own: everything else that came out of the dump is read as data when the script runs.
"""

from __future__ import annotations

import re

__all__ = ["script_for"]

_LAYER = {
    "torch": re.compile(r"torch\.nn(\.[A-Za-z_][A-Za-z0-9_]*)+", re.ASCII),
    "paddle": re.compile(r"paddle\.nn(\.[A-Za-z_][A-Za-z0-9_]*)+", re.ASCII),
}

_HEAD = '''\
"""Run the extracted layer of the {side} alone, and compare with what was recorded.

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
RTOL, ATOL = 1e-4, 1e-5
'''

_BUILD_KNOWN = '''

def build():
    """Make the layer from its class and the recorded attributes."""
    import importlib
    import inspect

    home, _, name = "{class_path}".rpartition(".")
    layer = getattr(importlib.import_module(home), name)
    accepted = inspect.signature(layer.__init__).parameters
    found = {{key: value for key, value in ABOUT["attributes"].items() if key in accepted}}
    weights = [entry for entry in ABOUT["arrays"] if entry["role"] == "weight"]
    shapes = {{entry["name"]: entry["shape"] for entry in weights}}
    has_bias = any(name.endswith("bias") for name in shapes)
    for known, word in (("ksize", "kernel_size"), ("return_mask", "return_indices")):
        if known in ABOUT["attributes"] and word in accepted:
            found.setdefault(word, ABOUT["attributes"][known])
    for option in ("weight_attr", "bias_attr", "device", "dtype", "name"):
        found.pop(option, None)
    if "bias" in accepted and not isinstance(found.get("bias"), bool):
        found["bias"] = has_bias
    if "bias_attr" in accepted and not has_bias:
        found["bias_attr"] = False
    if "in_features" in accepted and "in_features" not in found and ".weight" in shapes:
        found["in_features"], found["out_features"] = shapes[".weight"]
    try:
        return layer(**found)
    except TypeError as error:
        raise NotImplementedError(f"make the layer here, the attributes are not enough: {{error}}")
'''

_BUILD_STUB = '''

def build():
    """Make the layer: its class is not the framework's own, so this is yours to fill in.

    ABOUT["class"] names the class, ABOUT["attributes"] what was found on the object.
    """
    raise NotImplementedError(f"make the layer here: {ABOUT['class']} with {ABOUT['attributes']}")
'''

_MIDDLE = '''

def arrays(role):
    """Give the recorded arrays of a role by name."""
    entries = [entry for entry in ABOUT["arrays"] if entry["role"] == role]
    return {entry["name"]: (DATA[entry["key"]], entry["dtype"]) for entry in entries}


def arguments():
    """Give the recorded arguments, tensors and others."""
    found = {name: tensor(*value) for name, value in arrays("input").items()}
    for name, value in ABOUT["literals"].items():
        found.setdefault(name.removeprefix("input"), value)
    positional, named = {}, {}
    for name, value in found.items():
        if place := re.fullmatch(r"\\[(\\d+)\\]", name):
            positional[int(place[1])] = value
        elif key := re.fullmatch(r"\\['(\\w+)'\\]", name):
            named[key[1]] = value
        else:
            raise NotImplementedError(f"put the nested argument {name} together here")
    return [positional[place] for place in sorted(positional)], named


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
    own = dict(layer.named_parameters()) | dict(layer.named_buffers())
    with torch.no_grad():
        for role in ("weight", "buffer"):
            for name, value in arrays(role).items():
                own[name.removeprefix(".")].copy_(tensor(*value))


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
    own = dict(layer.named_parameters()) | dict(layer.named_buffers())
    for role in ("weight", "buffer"):
        for name, value in arrays(role).items():
            own[name.removeprefix(".")].set_value(tensor(*value))


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
    """Give the script of one side.

    Args:
        side: ``reference`` or ``candidate``: which files it reads.
        framework: What recorded it; others than torch and paddle get stubs to fill in.
        class_path: Full class name; one that is not the framework's own gets a stub.
    """
    known = framework if framework in _LAYER else ""
    head = _HEAD.format(side=side, framework=known or "numpy  # and the framework")
    is_own = bool(known) and _LAYER[known].fullmatch(class_path) is not None
    build = _BUILD_KNOWN.format(class_path=class_path) if is_own else _BUILD_STUB
    tensors = {"torch": _TORCH, "paddle": _PADDLE}.get(known, _OTHER)
    return head + build + tensors + _MIDDLE
