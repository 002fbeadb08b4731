"""Models as their users write them for MindSpore."""

import mindspore as ms
from mindspore import mint, nn, ops


class LeNet(nn.Cell):
    def __init__(self, pad_mode="valid"):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode=pad_mode, has_bias=True)
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid", has_bias=True)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(256, 120)
        self.fc2 = nn.Dense(120, 84)
        self.fc3 = nn.Dense(84, 10)

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.flatten(x)
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))


class Block(nn.Cell):
    def __init__(self, inputs, outputs, stride, epsilon):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, pad_mode="pad", padding=1)
        self.bn1 = nn.BatchNorm2d(outputs, eps=epsilon, momentum=0.9)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, pad_mode="pad", padding=1)
        self.bn2 = nn.BatchNorm2d(outputs, momentum=0.9)
        self.down = None
        if stride != 1 or inputs != outputs:
            self.down = nn.SequentialCell(
                nn.Conv2d(inputs, outputs, 1, stride, pad_mode="valid"),
                nn.BatchNorm2d(outputs, momentum=0.9),
            )

    def construct(self, x):
        y = ops.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return ops.relu(y + (x if self.down is None else self.down(x)))


class ResNet(nn.Cell):
    def __init__(self, epsilon=1e-5):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 7, 2, pad_mode="pad", padding=3)
        self.bn = nn.BatchNorm2d(8, momentum=0.9)
        self.layer1 = nn.SequentialCell(Block(8, 8, 1, 1e-5), Block(8, 8, 1, 1e-5))
        self.layer2 = nn.SequentialCell(Block(8, 16, 2, epsilon), Block(16, 16, 1, 1e-5))
        self.head = nn.Dense(16, 5)

    def construct(self, x):
        x = ops.relu(self.bn(self.conv(x)))
        x = self.layer2(self.layer1(x))
        return self.head(ops.mean(x, (2, 3)))


class Attention(nn.Cell):
    def __init__(self, width, heads, scale):
        super().__init__()
        self.heads, self.scale = heads, scale * (width // heads) ** -0.5
        self.query = nn.Dense(width, width)
        self.key = nn.Dense(width, width)
        self.value = nn.Dense(width, width)
        self.out = nn.Dense(width, width)

    def construct(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        query = self.query(x).reshape(shape).transpose(0, 2, 1, 3)
        key = self.key(x).reshape(shape).transpose(0, 2, 1, 3)
        value = self.value(x).reshape(shape).transpose(0, 2, 1, 3)
        scores = ops.matmul(query, key.swapaxes(-1, -2)) * self.scale
        mixed = ops.matmul(ops.softmax(scores, -1), value).transpose(0, 2, 1, 3)
        return self.out(mixed.reshape(batch, length, width))


class Layer(nn.Cell):
    def __init__(self, width, heads, scale):
        super().__init__()
        self.attention = Attention(width, heads, scale)
        self.norm1 = nn.LayerNorm((width,), epsilon=1e-5)
        self.up = nn.Dense(width, 2 * width)
        self.down = nn.Dense(2 * width, width)
        self.norm2 = nn.LayerNorm((width,), epsilon=1e-5)

    def construct(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(ops.gelu(self.up(x), approximate="none")))


class Encoder(nn.Cell):
    def __init__(self, scale=1.0):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.position = ms.Parameter(ms.Tensor(ops.zeros((1, 7, 16), ms.float32)), name="position")
        self.layers = nn.CellList([Layer(16, 4, 1.0), Layer(16, 4, scale)])
        self.head = nn.Dense(16, 50)

    def construct(self, ids):
        x = self.embed(ids) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Mint(nn.Cell):
    """The functions that are named as torch's."""

    def __init__(self):
        super().__init__()
        self.linear = mint.nn.Linear(8, 12)
        self.head = mint.nn.Linear(12, 3)

    def construct(self, x):
        x = mint.nn.functional.silu(self.linear(x))
        x = mint.add(x, mint.mul(x, 0.5))
        x = mint.cat([x[:, :6], mint.nn.functional.relu(x[:, 6:])], 1)
        return mint.nn.functional.softmax(self.head(x) - mint.sum(x, 1, keepdim=True), -1)


def scaled():
    return Encoder(scale=1.1)


def epsilon():
    return ResNet(epsilon=1e-3)


def mean_square(output):
    return (output * output).mean()
