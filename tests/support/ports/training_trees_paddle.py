"""Ports of the small ResNet and GPT to Paddle, with other trees and names, and their mistakes."""

import math

import paddle
from paddle import nn
from paddle.nn import functional as F


class Block(nn.Layer):
    def __init__(self, ins, outs, momentum):
        super().__init__()
        self.conv_a = nn.Conv2D(ins, outs, 3, 2, 1, bias_attr=False)
        self.bn_a = nn.BatchNorm2D(outs, momentum=momentum)
        self.conv_b = nn.Conv2D(outs, outs, 3, 1, 1, bias_attr=False)
        self.bn_b = nn.BatchNorm2D(outs)
        self.down = nn.Sequential(nn.Conv2D(ins, outs, 1, 2, bias_attr=False), nn.BatchNorm2D(outs))
        self.act = nn.ReLU()

    def forward(self, x):
        short = self.down(x)
        y = self.act(self.bn_a(self.conv_a(x)))
        return self.act(self.bn_b(self.conv_b(y)) + short)


class ResNet(nn.Layer):
    def __init__(self, momentum=0.9):
        super().__init__()
        self.conv0, self.bn0 = nn.Conv2D(3, 8, 3, 1, 1, bias_attr=False), nn.BatchNorm2D(8)
        self.blocks = nn.LayerList([Block(8, 12, momentum), Block(12, 16, 0.9)])
        self.fc = nn.Linear(16, 7)

    def forward(self, image):
        x = F.relu(self.bn0(self.conv0(image)))
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean([2, 3]))


class Attention(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        size, length, width = x.shape
        packed = self.qkv(x).reshape([size, length, 3, 3, width // 3])
        q, k, v = packed.transpose([2, 0, 3, 1, 4])
        scores = q @ k.transpose([0, 1, 3, 2]) / math.sqrt(width // 3)
        scores = scores + paddle.triu(paddle.full([length, length], float("-inf")), 1)
        mixed = (F.softmax(scores) @ v).transpose([0, 2, 1, 3])
        return self.proj(mixed.reshape([size, length, width]))


class Layer(nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width), nn.LayerNorm(width)
        self.fc_in, self.fc_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.fc_out(F.gelu(self.fc_in(self.ln_2(x))))


class GPT(nn.Layer):
    def __init__(self, width=24):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(17, width), nn.Embedding(12, width)
        self.h = nn.LayerList([Layer(width) for _ in range(2)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, 17, bias_attr=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(paddle.arange(ids.shape[1]))
        for layer in self.h:
            x = layer(x)
        return self.head(self.ln_f(x))


def next_token(logits, ids, scale=1.0, **options):
    rows, labels = logits[:, :-1].reshape([-1, 17]), ids[:, 1:].reshape([-1])
    return F.cross_entropy(rows, labels, **options) * scale


def classes(logits, label, **options):
    return F.cross_entropy(logits, label, **options)


CLIPS = {
    "value": lambda: nn.ClipGradByValue(0.05),
    "each": lambda: nn.ClipGradByNorm(1.0),
    "global": lambda: nn.ClipGradByGlobalNorm(1.0),
}


def sgd(parameters, lr=0.1, clip=None, **options):
    return paddle.optimizer.Momentum(
        lr, 0.9, parameters, grad_clip=CLIPS[clip]() if clip else None, **options
    )


def adam(parameters, **options):
    return paddle.optimizer.Adam(0.003, parameters=parameters, **options)


def adamw(model, everywhere=False):
    decayed = {p.name for p in model.parameters() if everywhere or p.ndim > 1}
    return paddle.optimizer.AdamW(
        0.003,
        parameters=model.parameters(),
        weight_decay=0.1,
        apply_decay_param_fun=lambda name: name in decayed,
    )


def rmsprop(parameters, **options):
    return paddle.optimizer.RMSProp(0.003, rho=0.95, parameters=parameters, **options)


def by_hand(parameters, convention):
    velocities = {}

    def update():
        for parameter in parameters:
            gradient = parameter.grad
            before = velocities.get(parameter.name, paddle.zeros_like(gradient))
            is_mean = convention == "mean"
            velocity = 0.9 * before + 0.1 * gradient if is_mean else gradient
            velocities[parameter.name] = velocity
            with paddle.no_grad():
                parameter.set_value(parameter - 0.1 * velocity)

    return update


def rmsprop_by_hand(parameters, eps=1e-4):
    squares = {}

    def update():
        for parameter in parameters:
            gradient = parameter.grad
            before = squares.get(parameter.name, paddle.zeros_like(gradient))
            square = squares[parameter.name] = 0.95 * before + 0.05 * gradient**2
            with paddle.no_grad():
                parameter.set_value(parameter - 0.003 * gradient / (square + eps).sqrt())

    return update


def warm_cosine(optimizer, early=0):
    def factor(step):
        step += early
        return (step + 1) / 2 if step < 2 else 0.5 * (1 + math.cos(math.pi * (step - 2) / 5))

    return paddle.optimizer.lr.LambdaDecay(optimizer.get_lr(), factor)


def faulty_resnet(faults=()):
    model = ResNet()
    if "padding" in faults:
        model.conv0 = nn.Conv2D(3, 8, 3, 1, 0, bias_attr=False)
    if "epsilon" in faults:
        model.blocks[1].bn_a._epsilon = 0.1
    if "scale" in faults:
        right = model.blocks[0].conv_b.forward
        model.blocks[0].conv_b.forward = lambda x: right(x) * 1.1
    return model
