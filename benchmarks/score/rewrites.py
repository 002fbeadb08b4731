"""Other correct forms of the models: each must match."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.localisation.parts import STYLES, SplitLinear, change_class
from padiff.dumper import RecordSettings
from padiff.dumper.runs.inputs import InputFile
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings
from padiff.dumper.runs.target import Target

from . import forms
from .architectures import ARCHITECTURES
from .case import SAME, Case, Expected, Family, Group
from .dumping import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from padiff.dumpfile import JSON

__all__ = ["cases"]

Model = Any
SAME_RESULT = Expected(verdicts=SAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One way to compute the same, and the models in which it is tried."""

    models: tuple[str, ...]
    change: Callable[[Model], Model] = lambda model: model
    """Changes the candidate in place, or returns another module."""
    both: Callable[[Model], Model] | None = None
    """Done to both sides before."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of both configurations."""
    around: Callable[[], AbstractContextManager[object]] = nullcontext
    """What the candidate runs in."""
    dtype: torch.dtype | None = None
    """Of both sides; None is float32."""
    is_golden: bool = False
    """Whether a float64 run of the reference is given, too."""


class _Outer(nn.Module):
    """A module around a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.net = model

    def forward(self, **inputs: torch.Tensor) -> Any:  # noqa: ANN401 - whatever the model returns
        return self.net(**inputs)


def _wrapped_layers(model: Model) -> Model:
    """Put each Linear into a Sequential."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and not isinstance(module, nn.Sequential):
                setattr(module, name, nn.Sequential(child))
    return model


def _shared_relu(model: Model) -> Model:
    """Let all ReLUs be one module."""
    shared = nn.ReLU()
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.ReLU):
                setattr(module, name, shared)
    return model


FUNCTIONS = {"silu": functional.silu, "gelu": functional.gelu, "relu": functional.relu}


def _functions(model: Model) -> Model:
    """Let activations be functions."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            kind = type(child).__name__.lower().removesuffix("activation")
            if kind in FUNCTIONS:
                delattr(module, name)
                setattr(module, name, FUNCTIONS[kind])
    return model


def _attention(kind: str) -> Callable[[Model], Model]:
    def change(model: Model) -> Model:
        model.set_attn_implementation(kind)
        return model

    return change


def _experts(kind: str) -> Callable[[Model], Model]:
    def change(model: Model) -> Model:
        model.config._experts_implementation = kind
        return model

    return change


def _classes(classes: Mapping[type[nn.Module], type[nn.Module]]) -> Callable[[Model], Model]:
    """Let layers compute the same in another way, by changing their class."""

    def change(model: Model) -> Model:
        for module in model.modules():
            if type(module) in classes:
                change_class(module, classes[type(module)])
        return model

    return change


def _checkpointed(model: Model) -> Model:
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


@contextmanager
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _double(model: Model) -> Model:
    return model.double()


def _dropping(model: Model) -> Model:
    """Train, also with dropouts that the configuration of a small model left out."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
        for name in INSIDE & vars(module).keys():
            setattr(module, name, 0.1)
    return model.train()


def _redrawn(model: Model) -> Model:
    """Let dropouts keep other elements than those of the reference."""

    def redraw(*_: object) -> None:
        torch.manual_seed(99)

    model.register_forward_pre_hook(redraw)
    return model


INSIDE = {"attention_dropout", "dropout", "dropout_prob"}
"""Where layers keep the share that one of their operators drops inside."""
DRY = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
NETS = "resnet", "convnext", "mobilenet_v1", "mobilenet_v2", "regnet", "poolformer"
KERNELS = (
    "bert", "roberta", "electra", "albert", "gpt2", "llama", "mistral", "qwen2", "gemma", "opt",
    "phi", "gpt_neox", "mixtral", "bart", "whisper", "vit", "deit", "dinov2", "wav2vec2",
)  # fmt: skip
"""Models whose library has attention as one kernel, and written out."""
REWRITES: dict[str, Rewrite] = {
    "recorded again": Rewrite(models=tuple(ARCHITECTURES)),
    "attention written out": Rewrite(models=KERNELS, change=_attention("eager")),
    "attention written out, bfloat16": Rewrite(
        models=("bert", "llama", "qwen2", "vit", "gpt2"),
        change=_attention("eager"),
        dtype=torch.bfloat16,
    ),
    "channels last": Rewrite(
        models=NETS, change=lambda model: model.to(memory_format=torch.channels_last)
    ),
    "two threads": Rewrite(models=("bert", "llama", "resnet", "vit"), around=_threads),
    "without oneDNN": Rewrite(
        models=("resnet", "mobilenet_v2", "convnext", "bert", "two-way gru"),
        around=lambda: torch.backends.mkldnn.flags(enabled=False),
    ),
    "sums in two parts": Rewrite(
        models=("bert", "llama", "vit", "whisper", "lstm"),
        change=_classes({nn.Linear: SplitLinear}),
    ),
    "norm by the mean of squares": Rewrite(
        models=("bert", "vit", "roberta", "bart", "resnet", "regnet", "swin"),
        change=_classes(STYLES["one-pass variance"]),
    ),
    "norm by its formula": Rewrite(
        models=("bert", "vit", "gpt2", "deit", "mobilenet_v1", "two-way gru"),
        change=_classes(STYLES["unfused norms"]),
    ),
    "activations as functions": Rewrite(
        models=("llama", "mistral", "qwen2", "bert", "vit", "resnet", "opt"), change=_functions
    ),
    "a module around the model": Rewrite(models=("llama", "bert", "resnet", "vit"), change=_Outer),
    "layers in wrappers": Rewrite(models=("llama", "bert", "vit", "swin"), change=_wrapped_layers),
    "one ReLU called often": Rewrite(models=("resnet", "regnet"), change=_shared_relu),
    "checkpointing": Rewrite(
        models=("llama", "qwen2", "gemma"), both=lambda model: model.train(), change=_checkpointed
    ),
    "checkpointing, dropout off": Rewrite(
        models=("bert", "deit"), options=DRY, both=lambda model: model.train(),
        change=_checkpointed,
    ),
    "training mode": Rewrite(
        models=("llama", "qwen2", "gemma", "phi", "mixtral"), change=lambda model: model.train()
    ),
    "training mode, dropout off": Rewrite(
        models=("bert", "roberta", "electra", "deit", "dinov2"), options=DRY,
        change=lambda model: model.train(),
    ),
    "training mode, other draws": Rewrite(
        models=("bert", "roberta", "electra", "gpt2", "deit"), both=_dropping, change=_redrawn,
        options={"attn_implementation": "eager"},
    ),
    "training mode, other draws inside attention": Rewrite(
        models=("bert", "gpt2", "deit", "llama", "opt", "bart", "whisper"), both=_dropping,
        change=lambda model: _redrawn(_attention("eager")(model)),
    ),
    "experts in groups": Rewrite(models=("mixtral",), change=_experts("grouped_mm")),
    "experts in batches": Rewrite(models=("mixtral",), change=_experts("batched_mm")),
    "float64": Rewrite(
        models=("resnet", "bert", "gpt2", "opt", "vit", "lstm", "convnext", "distilbert"),
        change=_double,
    ),
    "attention written out, golden run in float64": Rewrite(
        models=("bert", "gpt2", "opt", "vit"), change=_attention("eager"), is_golden=True
    ),
}  # fmt: skip
CACHED = "t5", "bart", "llama", "gpt2", "whisper"
"""Models that return caches if they are asked for them."""


def cases() -> Iterator[Case]:
    """List the correct rewrites as cases."""
    for name, rewrite in REWRITES.items():
        for model in rewrite.models:
            yield _case(name, rewrite, model)
    for name in CACHED:
        yield from (_cached(name, is_first=is_first) for is_first in (False, True))
    for name, options in forms.FORMS.items():
        for dtype in (torch.float32, torch.bfloat16):
            yield _form(name, options, dtype)


def _case(name: str, rewrite: Rewrite, model_name: str) -> Case:
    architecture = ARCHITECTURES[model_name]
    dtype = rewrite.dtype or torch.float32

    def made() -> Model:
        model = architecture.build(**rewrite.options)
        return (model if rewrite.both is None else rewrite.both(model)).to(dtype)

    def reference(out: Path) -> Path:
        return dump(made(), _cast(architecture.inputs(), dtype), out, "reference")

    def candidate(out: Path, _: Path) -> Path:
        model = rewrite.change(made())
        kind = next(model.parameters()).dtype
        with rewrite.around():
            return dump(model, _cast(architecture.inputs(), kind), out, "candidate")

    def golden(out: Path) -> Path:
        inputs = _cast(architecture.inputs(), torch.float64)
        return dump(made().double(), inputs, out, "golden")

    is_plain = not rewrite.options and rewrite.dtype is None and rewrite.both is None
    return Case(
        group=Group.REWRITES,
        name=f"{model_name}: {name}",
        family=architecture.family,
        chunk=model_name,
        reference=reference,
        reference_key=model_name if is_plain else f"{model_name} {name}",
        candidate=candidate,
        expected=SAME_RESULT,
        golden=golden if rewrite.is_golden else None,
    )


def _cast(inputs: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {name: one.to(dtype) if one.is_floating_point() else one for name, one in inputs.items()}


def _cached(name: str, *, is_first: bool) -> Case:
    """Let one side return its cache, under the default loss over all outputs."""

    def record(out: Path, side: str, *, has_cache: bool) -> Path:
        files = []
        for key, tensor in ARCHITECTURES[name].inputs().items():
            files.append(InputFile(path=out / f"{key}.npy", keyword=key))
            np.save(files[-1].path, tensor.numpy())
        arguments: dict[str, JSON] = {"architecture": name, "use_cache": has_cache}
        place = str(Path(__file__).parent / "entry.py")
        return run(
            RunSettings(
                model=Target(place=place, attribute="build", arguments=arguments),
                record=RecordSettings(out=out, name=side, overwrite=True),
                inputs=tuple(files),
                framework="torch",
            )
        )

    where = "reference" if is_first else "candidate"
    return Case(
        group=Group.REWRITES,
        name=f"{name}: caches on the {where} only",
        family=Family.DECODER,
        chunk=name,
        reference=lambda out: record(out, "reference", has_cache=is_first),
        reference_key=f"{name} caches on the {where}",
        candidate=lambda out, _: record(out, "candidate", has_cache=not is_first),
        expected=SAME_RESULT,
    )


def _form(name: str, options: Mapping[str, object], dtype: torch.dtype) -> Case:
    inputs = {"input_ids": torch.arange(3 * 9).reshape(3, 9) * 7 % forms.TOKENS}
    word = str(dtype).removeprefix("torch.")

    def record(out: Path, side: str, form: Mapping[str, object]) -> Path:
        return dump(forms.build(**form).to(dtype), inputs, out, side)

    return Case(
        group=Group.REWRITES,
        name=f"own decoder, {word}: {name}",
        family=Family.DECODER,
        chunk="own decoder",
        reference=lambda out: record(out, "reference", {}),
        reference_key=word,
        candidate=lambda out, _: record(out, "candidate", options),
        expected=SAME_RESULT,
    )
