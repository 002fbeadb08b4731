"""Make a run repeatable: seeds and deterministic kernels."""

from __future__ import annotations

import random

import numpy as np

from padiff.dumper import adapters
from padiff.dumpfile import ConfigError

LARGEST_SEED = 2**32 - 1
"""numpy's generator takes no more."""


def seed_everything(seed: int = 0, *, deterministic: bool = True) -> None:
    """Seed Python, numpy and every framework that is imported by now, for the whole process.

    Args:
        seed: 0 to 4294967295.
        deterministic: Also ask the frameworks for kernels that give the same result each time.

    Raises:
        ConfigError: The seed is out of range.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise ConfigError(f"cannot use seed {seed}: expected 0 to {LARGEST_SEED}")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the generator that models draw from
    for name in adapters.imported():
        adapter = adapters.load(name)
        adapter.seed(seed)
        if deterministic:
            adapter.trainer.make_deterministic()
