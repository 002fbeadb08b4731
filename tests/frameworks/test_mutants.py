"""The mistakes that ``python -m benchmarks.mutants`` makes in source are some, and can be run."""

from __future__ import annotations

import ast
import random
from collections import Counter
from itertools import islice

from benchmarks.mutants import MISTAKES, mutants

SOURCE = '''
class Net:
    def __init__(self, width):
        self.width = width * 2

    def forward(self, x):
        x = self.norm(x + 1.5, eps=1)
        x = torch.softmax(-x.transpose(1, 2), dim=-1)
        return x * self.width
'''  # fmt: skip


def test_every_mistake_is_made_where_it_can_be_and_each_mutant_has_one() -> None:
    tree = ast.parse(SOURCE)
    lines = {4, 7, 8, 9}

    found = [*islice(mutants(tree, lines, random.Random(0)), 300)]

    assert {one.what.partition(" in line ")[0] for one in found} == set(MISTAKES)
    for one in found:
        compile(one.tree, "net.py", "exec")
        changed = Counter(ast.unparse(one.tree).splitlines())
        assert sum((changed - Counter(ast.unparse(tree).splitlines())).values()) == 1
        assert set(one.lines) <= {7, 8, 9}
    assert ast.unparse(tree) == ast.unparse(ast.parse(SOURCE))
