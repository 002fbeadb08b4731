"""Small networks whose values differ inside though they compute the same, each with a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import padiff

from .case import DIFFERENT, SAME, Case, Expected, Group
from .nets import net, scaled_gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["cases"]

Model = Any
WIDTH, SIDE, WINDOW = 8, 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Two right forms of a network, and the second with a fault."""

    one: Callable[[], Model]
    other: Callable[[], Model]
    wrong: Callable[[], Model]
    fault: str
    """What is wrong, in words."""
    inputs: Callable[[], Tensor]
    words: str = ""
    """Regular expression that names the cause; empty where none is asked for."""


def _linear() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH)


def _draw(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _ids() -> Tensor:
    return torch.arange(12).reshape(3, 4)


def _embedded(*, inside: float, behind: float) -> Callable[[], Model]:
    """Scale rows in the embedding, or in the code behind it."""

    def build() -> Model:
        embedding = net(
            lambda self, ids: self.table(ids) * inside, table=lambda: nn.Embedding(12, WIDTH)
        )
        return net(
            lambda self, ids: self.last(self.embed(ids) * behind),
            embed=lambda: embedding,
            last=_linear,
        )

    return build


def _branched(*, inside: float, behind: float) -> Callable[[], Model]:
    """Scale a branch of two layers in its module, or in the code around it."""

    def build() -> Model:
        branch = net(lambda self, x: self.b(torch.relu(self.a(x))) * inside, a=_linear, b=_linear)
        return net(
            lambda self, x: self.last(x + self.branch(x) * behind),
            branch=lambda: branch,
            last=_linear,
        )

    return build


def _cut(picture: Tensor, shift: int) -> Tensor:
    """Shift a picture, and cut it into windows: (batch * windows, places, channels)."""
    count = SIDE // WINDOW
    rolled = picture.roll((-shift, -shift), (1, 2))
    parts = rolled.reshape(len(picture), count, WINDOW, count, WINDOW, WIDTH)
    return parts.transpose(2, 3).reshape(-1, WINDOW * WINDOW, WIDTH)


def _joined(windows: Tensor, shift: int) -> Tensor:
    """Undo ``_cut``."""
    count = SIDE // WINDOW
    parts = windows.reshape(-1, count, count, WINDOW, WINDOW, WIDTH)
    return parts.transpose(2, 3).reshape(-1, SIDE, SIDE, WIDTH).roll((shift, shift), (1, 2))


def _windowed(*, is_inside: bool, back: int = 2) -> Callable[[], Model]:
    """Cut windows inside an attention, or in the code around it."""

    def attend(self: Model, x: Tensor) -> Tensor:
        x = _cut(x, 2) if is_inside else x
        query, key, value = self.qkv(x).chunk(3, -1)
        made: Tensor = self.proj((query @ key.mT * WIDTH**-0.5).softmax(-1) @ value)
        return _joined(made, back) if is_inside else made

    def forward(self: Model, x: Tensor) -> Tensor:
        given = self.norm(x)
        seen = self.attn(given) if is_inside else _joined(self.attn(_cut(given, 2)), back)
        made: Tensor = self.last(x + seen)
        return made

    def build() -> Model:
        attention = net(attend, qkv=lambda: nn.Linear(WIDTH, 3 * WIDTH), proj=_linear)
        return net(
            forward,
            attn=lambda: attention,
            norm=lambda: nn.LayerNorm(WIDTH),
            last=_linear,
        )

    return build


def _decoder(*, is_once: bool, lost: int | None = None) -> Callable[[], Model]:
    """Project a memory once before a loop, or anew in each step."""

    def forward(self: Model, memory: Tensor) -> Tensor:
        state, once = memory[:, 0], self.memory(memory) if is_once else None
        for step in range(3):
            known = self.memory(memory) if once is None else once
            known = known.detach() if step == lost else known
            weights = torch.tanh(known + self.state(state)[:, None]).sum(-1).softmax(-1)
            state = (weights[..., None] * memory).sum(1)
        return state

    return lambda: net(forward, memory=_linear, state=_linear)


def _dense(*, is_anew: bool, factor: float = 1.0) -> Callable[[], Model]:
    """Concatenate all earlier features anew for each layer, or let one tensor grow."""

    def forward(self: Model, x: Tensor) -> Tensor:
        features, grown = [x], x
        for number, layer in enumerate(self.layers):
            given = torch.cat(features, -1) if is_anew else grown
            is_wrong = factor != 1 and number == 1
            made = layer(scaled_gradient(given, factor) if is_wrong else given)
            features.append(made)
            grown = torch.cat([grown, made], -1)
        found: Tensor = self.last(torch.cat(features, -1) if is_anew else grown)
        return found

    return lambda: net(
        forward,
        layers=lambda: nn.ModuleList(nn.Linear(WIDTH * count, WIDTH) for count in (1, 2, 3)),
        last=lambda: nn.Linear(4 * WIDTH, WIDTH),
    )


def _masked(form: Callable[[Tensor], Tensor]) -> Callable[[], Model]:
    """Hand an attention a mask of some form."""

    def attend(self: Model, x: Tensor, mask: Tensor) -> Tensor:
        scores = self.query(x) @ x.mT
        if mask.dtype is torch.bool:
            scores = scores.masked_fill(mask, -torch.inf)
        made: Tensor = (scores if mask.dtype is torch.bool else scores + mask).softmax(-1) @ x
        return made

    def forward(self: Model, x: Tensor) -> Tensor:
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        made: Tensor = self.last(self.attn(x, form(hidden)))
        return made

    return lambda: net(forward, attn=lambda: net(attend, query=_linear), last=_linear)


LENGTHS = torch.tensor([5, 3, 2])


def _packed(*, is_packed: bool, has_mask: bool = True) -> Callable[[], Model]:
    """Run sequences of several lengths packed, or padded with what is behind them left out."""

    def forward(self: Model, x: Tensor) -> Tensor:
        if is_packed:
            packed = pack_padded_sequence(x, LENGTHS, batch_first=True)
            made, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        else:
            inside = torch.arange(x.shape[1]) < LENGTHS[:, None]
            made = self.rnn(x)[0] * (inside if has_mask else inside | True)[..., None]
        found: Tensor = self.last(made.sum(1) / LENGTHS[:, None])
        return found

    return lambda: net(forward, rnn=lambda: nn.GRU(WIDTH, WIDTH, batch_first=True), last=_linear)


def _quantized(*, is_looked_up: bool, is_straight: bool = True) -> Callable[[], Model]:
    """Look codes up, or multiply by what says which; the gradient goes past them."""

    def choose(self: Model, x: Tensor) -> tuple[Tensor, Tensor]:
        table = self.table.weight
        nearest = torch.cdist(x, table).argmin(-1)
        if is_looked_up:
            codes = self.table(nearest)
        else:
            codes = nn.functional.one_hot(nearest, len(table)).float() @ table
        loss = (codes - x.detach()).square().mean() + 0.25 * (x - codes.detach()).square().mean()
        return (x + (codes - x).detach() if is_straight else codes), loss

    def forward(self: Model, x: Tensor) -> Tensor:
        codes, loss = self.codes(self.first(x))
        made: Tensor = self.last(codes) + loss
        return made

    return lambda: net(
        forward,
        first=_linear,
        codes=lambda: net(choose, table=lambda: nn.Embedding(30, WIDTH)),
        last=_linear,
    )


def _guided(*, is_once: bool, scale: float = 3.0) -> Callable[[], Model]:
    """Ask a network with and without a condition, in one batch or one after the other."""

    def ask(self: Model, x: Tensor) -> Tensor:
        made: Tensor = self.last(nn.functional.elu(self.first(x)))
        return made

    def forward(self: Model, x: Tensor) -> Tensor:
        one, other = x + self.condition.weight[0], x
        if is_once:
            one, other = self.inner(torch.cat([one, other])).chunk(2)
        else:
            one, other = self.inner(one), self.inner(other)
        made: Tensor = other + scale * (one - other)
        return made

    return lambda: net(
        forward,
        inner=lambda: net(ask, first=_linear, last=_linear),
        condition=lambda: nn.Embedding(1, WIDTH),
    )


def _attending(*, is_along_time: bool, scale: float = 0.5) -> Callable[[], Model]:
    """Attend along (time, batch), batch and heads as one axis, or along (batch, time)."""

    def attend(self: Model, x: Tensor) -> Tensor:
        parts = self.qkv(x).chunk(3, -1)
        if is_along_time:
            parts = [one.reshape(len(x), -1, 4).transpose(0, 1) for one in parts]
            seen = (torch.bmm(parts[0], parts[1].mT) * scale).softmax(-1) @ parts[2]
            seen = seen.transpose(0, 1)
        else:
            parts = [one.unflatten(-1, (2, 4)).transpose(1, 2) for one in parts]
            seen = (parts[0] * scale @ parts[1].mT).softmax(-1) @ parts[2]
            seen = seen.transpose(1, 2)
        made: Tensor = x + self.proj(seen.reshape(x.shape))
        return made

    def forward(self: Model, x: Tensor) -> Tensor:
        made: Tensor = self.norm(self.attn(x.transpose(0, 1) if is_along_time else x))
        found: Tensor = self.last(made.transpose(0, 1) if is_along_time else made)
        return found

    return lambda: net(
        forward,
        attn=lambda: net(attend, qkv=lambda: nn.Linear(WIDTH, 3 * WIDTH), proj=_linear),
        norm=lambda: nn.LayerNorm(WIDTH),
        last=_linear,
    )


def _gated(*, is_loop: bool, act: Callable[[Tensor], Tensor] = torch.tanh) -> Callable[[], Model]:
    """Run a recurrent layer, or a loop over its steps."""

    def forward(self: Model, x: Tensor) -> Tensor:
        weights = self.rnn.weight_ih_l0, self.rnn.weight_hh_l0
        biases = self.rnn.bias_ih_l0, self.rnn.bias_hh_l0
        hidden = memory = torch.zeros(len(x), WIDTH)
        made = []
        for given in x.unbind(1) if is_loop else ():
            gates = nn.functional.linear(given, weights[0], biases[0])
            gates = gates + nn.functional.linear(hidden, weights[1], biases[1])
            enter, forget, fresh, leave = gates.chunk(4, -1)
            memory = forget.sigmoid() * memory + enter.sigmoid() * act(fresh)
            hidden = leave.sigmoid() * memory.tanh()
            made.append(hidden)
        found: Tensor = self.last(torch.stack(made, 1) if is_loop else self.rnn(x)[0])
        return found

    return lambda: net(forward, rnn=lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True), last=_linear)


def _normed(*, is_folded: bool, is_whole: bool = True) -> Callable[[], Model]:
    """Add up two convolutions with a norm each, or fold both, or the first alone, into one."""

    def forward(self: Model, x: Tensor) -> Tensor:
        made = self.wide(x)
        if not is_folded:
            made = self.norms[0](made) + self.norms[1](self.small(x))
        found: Tensor = self.last(nn.functional.relu(made))
        return found

    def build() -> Model:
        model: Model = net(
            forward,
            wide=lambda: nn.Conv2d(3, WIDTH, 3, padding=1, bias=False),
            small=lambda: nn.Conv2d(3, WIDTH, 1, bias=False),
            norms=lambda: nn.ModuleList([nn.BatchNorm2d(WIDTH) for _ in range(2)]),
            last=lambda: nn.Conv2d(WIDTH, 2, 1),
        ).eval()
        for norm in model.norms:
            norm.running_mean, norm.running_var = torch.randn(WIDTH), torch.rand(WIDTH) + 0.5
        if not is_folded:
            return model
        wide, small = map(nn.utils.fusion.fuse_conv_bn_eval, (model.wide, model.small), model.norms)
        if is_whole:
            with torch.no_grad():
                wide.weight += nn.functional.pad(small.weight, (1, 1, 1, 1))
                wide.bias += small.bias
        model.wide, model.small, model.norms = wide, None, None
        return model

    return build


FORMS = {
    "a scale inside or behind an embedding": Form(
        one=_embedded(inside=3.0, behind=1.0), other=_embedded(inside=1.0, behind=3.0),
        wrong=_embedded(inside=1.0, behind=1.0), fault="the scale lost", inputs=_ids,
    ),
    "a scale inside or behind a branch": Form(
        one=_branched(inside=3.0, behind=1.0), other=_branched(inside=1.0, behind=3.0),
        wrong=_branched(inside=1.0, behind=1.0), fault="the scale lost", inputs=_draw(4, WIDTH),
    ),
    "windows cut inside or before an attention": Form(
        one=_windowed(is_inside=True), other=_windowed(is_inside=False),
        wrong=_windowed(is_inside=False, back=1), fault="put back to other places",
        inputs=_draw(2, SIDE, SIDE, WIDTH),
    ),
    "a layer called once or in each step": Form(
        one=_decoder(is_once=True), other=_decoder(is_once=False),
        wrong=_decoder(is_once=False, lost=1), fault="a gradient lost in one step",
        inputs=_draw(2, 5, WIDTH),
    ),
    "features joined anew or one tensor that grows": Form(
        one=_dense(is_anew=True), other=_dense(is_anew=False),
        wrong=_dense(is_anew=False, factor=1.01), fault="a gradient between layers times 1.01",
        inputs=_draw(4, WIDTH),
    ),
    "a mask of flags or of -10000": Form(
        one=_masked(lambda hidden: hidden), other=_masked(lambda hidden: hidden * -1e4),
        wrong=_masked(lambda hidden: hidden.roll(1, 1) * -1e4), fault="off by one",
        inputs=_draw(2, 5, WIDTH),
    ),
    "sequences packed or padded": Form(
        one=_packed(is_packed=True), other=_packed(is_packed=False),
        wrong=_packed(is_packed=False, has_mask=False), fault="what is behind them counted",
        inputs=_draw(3, 5, WIDTH),
    ),
    "codes looked up or multiplied": Form(
        one=_quantized(is_looked_up=True), other=_quantized(is_looked_up=False),
        wrong=_quantized(is_looked_up=False, is_straight=False),
        fault="a gradient that does not go past them", inputs=_draw(4, WIDTH),
    ),
    "a condition in one batch or in two": Form(
        one=_guided(is_once=True), other=_guided(is_once=False),
        wrong=_guided(is_once=False, scale=2.5), fault="another scale", inputs=_draw(4, WIDTH),
    ),
    "attention along time or along the batch": Form(
        one=_attending(is_along_time=True), other=_attending(is_along_time=False),
        wrong=_attending(is_along_time=False, scale=0.6), fault="another scale",
        inputs=_draw(3, 5, WIDTH), words="0.6 where the reference has 0.5",
    ),
    "a recurrent layer or a loop": Form(
        one=_gated(is_loop=False), other=_gated(is_loop=True),
        wrong=_gated(is_loop=True, act=torch.sigmoid), fault="another activation of one gate",
        inputs=_draw(3, 4, WIDTH), words="sigmoid where the reference has lstm",
    ),
    "branches with norms or one convolution": Form(
        one=_normed(is_folded=False), other=_normed(is_folded=True),
        wrong=_normed(is_folded=True, is_whole=False), fault="one branch left out",
        inputs=_draw(2, 3, SIDE, SIDE),
    ),
}  # fmt: skip


def cases() -> Iterator[Case]:
    """List the right forms and the faults as cases."""
    for name, form in FORMS.items():
        yield _case(Group.REWRITES, name, form, form.other, Expected(verdicts=SAME))
        wrong = Expected(verdicts=DIFFERENT, words=form.words)
        yield _case(Group.ATTACKS, f"17: {name}, {form.fault}", form, form.wrong, wrong)


def _case(
    group: Group, name: str, form: Form, build: Callable[[], Model], expected: Expected
) -> Case:
    def record(out: Path, side: str, model: Model) -> Path:
        with padiff.record(model, name=side, out=out) as recorder:
            model(form.inputs()).square().sum().backward()
        return recorder.path

    return Case(
        group=group,
        name=name,
        chunk="other forms",
        reference=lambda out: record(out, "reference", form.one()),
        reference_key=name.partition(": ")[2].partition(",")[0] or name,
        candidate=lambda out, _: record(out, "candidate", build()),
        expected=expected,
    )
