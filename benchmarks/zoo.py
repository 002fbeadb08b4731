"""Every type of model that transformers builds small: ``python -m benchmarks.zoo [TYPE ...]``.

Each is made twice from one seed, with attention written out and, where it has that form, as one
kernel, and compared: right forms match. With ``--faults`` the second one gets one fault after the
other, which has to be found. What is told of each is printed, and counted in the end; nothing is
held against a baseline, since which types there are is transformers' to say. With ``--exported``
the second one is what ``torch.export`` writes of the first in operators of core ATen.
"""

from __future__ import annotations

import argparse
import inspect
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers import CONFIG_MAPPING, AutoModel, PretrainedConfig

import padiff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Model = Any
    Inputs = dict[str, torch.Tensor]

SIZES: dict[int, str] = {
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
    "num_encoder_layers num_decoder_layers num_key_value_heads num_experts_per_tok n_group",
    4: "num_attention_heads n_head n_heads encoder_attention_heads decoder_attention_heads "
    "num_heads num_experts num_local_experts n_routed_experts",
    8: "head_dim d_kv attention_head_size patch_size qk_rope_head_dim qk_nope_head_dim v_head_dim "
    "mamba_d_state state_size",
    16: "q_lora_rank kv_lora_rank sliding_window num_mel_bins projection_dim",
    24: "moe_intermediate_size shared_expert_intermediate_size",
    32: "hidden_size d_model n_embd embed_dim dim emb_dim embedding_size image_size",
    40: "max_source_positions max_target_positions",
    48: "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff n_inner ffn_dim",
    64: "max_position_embeddings n_positions",
    99: "vocab_size",
}
"""Names of settings by what they become."""
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
MOST_PARAMETERS = 30_000_000
FAULTS_EACH = 3


def _shrink(config: Any) -> None:  # noqa: ANN401 - of transformers
    """Make a configuration small, and those in it."""
    small = {name: size for size, names in SIZES.items() for name in names.split()} | TOKENS
    for name, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            _shrink(value)
        elif type(value) is int and name in small:
            setattr(config, name, small[name])
        elif isinstance(value, list) and name in {"layer_types", "layers_block_type"}:
            setattr(config, name, [value[0], value[-1]])


def build(name: str, attention: str) -> Model:
    """Build a small model of a type; raises whatever transformers does where it cannot be small."""
    config = CONFIG_MAPPING[name]()
    _shrink(config)
    torch.manual_seed(0)
    make: Any = AutoModel
    model = make.from_config(config, attn_implementation=attention).eval()
    if sum(one.numel() for one in model.parameters()) > MOST_PARAMETERS:
        raise ValueError("it stays large")
    with torch.no_grad():
        for one in model.parameters():
            if one.ndim == 1:  # ones and zeros hide a scale or a bias that is not loaded
                one.add_(torch.randn(one.shape) * 0.1)
    return model


def _other_form(name: str) -> Model:
    """Build the same with attention as one kernel; where there is no such form, once more."""
    try:
        return build(name, "sdpa")
    except ValueError as error:
        if "does not support an attention" not in str(error):
            raise
        return build(name, "eager")


def _exported(model: Model, inputs: Inputs) -> Model:
    """Write a model in operators of core ATen, without modules."""
    program = torch.export.export(model, (), inputs, strict=False).run_decompositions()
    return program.module()


def inputs_of(model: Model) -> Inputs:
    """Draw what a model takes: tokens, pictures, or sound."""
    draw = torch.Generator().manual_seed(3)
    config, taken = model.config, inspect.signature(model.forward).parameters
    words = getattr(getattr(config, "text_config", config), "vocab_size", None) or 99
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 32)
    edge = size if isinstance(size, int) else size[0]
    possible: dict[str, Callable[[], torch.Tensor]] = {
        "input_ids": lambda: torch.randint(3, words, (2, 12), generator=draw),
        "decoder_input_ids": lambda: torch.randint(3, words, (2, 7), generator=draw),
        "pixel_values": lambda: torch.randn(
            2, getattr(vision, "num_channels", 3), edge, edge, generator=draw
        ),
        "input_values": lambda: torch.randn(2, 4000, generator=draw),
        "input_features": lambda: torch.randn(
            2, getattr(config, "num_mel_bins", 80), 80, generator=draw
        ),
    }
    return {name: make() for name, make in possible.items() if name in taken}


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake in one module, and the words of which a report has to use one."""

    words: tuple[str, ...]
    plant: Callable[[Model], None]
    fits: Callable[[Model], bool]


def _eps(module: Model) -> str | None:
    names = ("eps", "variance_epsilon")
    return next((one for one in names if isinstance(getattr(module, one, None), float)), None)


def _widen(module: Model) -> None:
    name = _eps(module) or ""
    setattr(module, name, getattr(module, name) * 1000)


def _scale(module: Model) -> None:
    forward = module.forward
    module.forward = lambda *args, **kwargs: forward(*args, **kwargs) * 1.01


def _turn(module: Model) -> None:
    module.weight = nn.Parameter(module.weight.detach().T.contiguous())


def _skip(module: Model) -> None:
    module.forward = lambda x, *_args, **_kwargs: x


def _is_square(module: Model) -> bool:
    return isinstance(module, nn.Linear) and module.in_features == module.out_features


FAULTS: dict[str, Fault] = {
    "epsilon": Fault(("where the reference has",), _widen, lambda one: _eps(one) is not None),
    "scale": Fault(("times 1.01",), _scale, lambda one: isinstance(one, nn.Linear)),
    "transposed": Fault(("transposed",), _turn, _is_square),
    "norm left out": Fault(("left out",), _skip, lambda one: "Norm" in type(one).__name__),
}


def recorded(folder: Path, side: str, model: Model, inputs: Inputs) -> Path:
    """Record a forward and backward pass; returns where the dump is."""
    torch.manual_seed(1)
    with padiff.record(model, name=side, out=folder, overwrite=True) as recorder:
        model(**inputs)[0].float().square().mean().backward()
    assert recorder.path is not None
    return recorder.path


def outcomes(
    name: str, folder: Path, dtype: torch.dtype, *, faults: bool, exported: bool
) -> Iterator[str]:
    """Yield what becomes of a type: a word for each comparison."""
    models = [build(name, "eager"), _other_form(name)]
    models[1].load_state_dict(models[0].state_dict())
    inputs = {key: one.to(dtype) if one.is_floating_point() else one
              for key, one in inputs_of(models[0]).items()}  # fmt: skip
    models = [one.to(dtype) for one in models]
    if exported:
        for one in models:
            one.config.use_cache = False  # a cache is nothing that can be exported
        models[1] = _exported(models[1], inputs)
    known, found = (
        recorded(folder, side, model, inputs)
        for side, model in zip(("reference", "candidate"), models, strict=True)
    )
    told = str(padiff.compare(known, found)).partition("\n")[0]
    print(f"{name}: {told}", flush=True)
    yield "right form: match" if told.startswith("MATCH") else "right form: FALSE ALARM"
    draw = random.Random(name)
    for kind in draw.sample(list(FAULTS), FAULTS_EACH) if faults else ():
        fault, candidate = FAULTS[kind], build(name, "eager")
        candidate.load_state_dict(models[0].state_dict())
        places = [one for one in candidate.named_modules() if fault.fits(one[1])]
        if places:
            path, module = draw.choice(places)
            fault.plant(module)
            found = recorded(folder, "candidate", candidate.to(dtype), inputs)
            told = str(padiff.compare(known, found)).partition("\n")[0]
            print(f"{name}, {kind} at {path}: {told}", flush=True)
            is_told = path in told and any(word in told for word in fault.words)
            seen = "cause told" if is_told else "told otherwise"
            yield f"fault: {seen if told.startswith('DIVERGED') else 'match'}"


def count_outcomes(
    types: Sequence[str], outcomes: Callable[[str, Path], Iterator[str]]
) -> Counter[str]:
    """Count, and print, what becomes of types of model; without any, of all of transformers'.

    Args:
        types: Their names.
        outcomes: Yields a word for each comparison, given a type and a folder for dumps.
    """
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="padiff-zoo-") as folder:
        for name in types or sorted(CONFIG_MAPPING.keys()):
            try:
                counts.update(outcomes(name, Path(folder)))
            except padiff.PadiffError:
                raise
            except Exception as error:  # transformers raises anything where a size does not fit
                counts["left out: it is not built so small"] += 1
                print(f"{name}: left out: {type(error).__name__}: {error}"[:120], flush=True)
    print(*(f"{count:5} {what}" for what, count in sorted(counts.items())), sep="\n")
    return counts


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("types", nargs="*", help="of transformers; all")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--exported", action="store_true")
    chosen = parser.parse_args()
    dtype = getattr(torch, chosen.dtype)
    how = {"faults": chosen.faults, "exported": chosen.exported}
    counts = count_outcomes(chosen.types, lambda name, folder: outcomes(name, folder, dtype, **how))
    return int(counts["right form: FALSE ALARM"] > 0)


if __name__ == "__main__":
    sys.exit(_main())
