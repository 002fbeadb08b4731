"""Write the examples' inputs; they are committed, so this is only a record of what they are."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def main() -> None:
    """Write ``resnet/x.npy`` (2, 3, 64, 64) float32 and ``transformer/ids.npy`` (2, 12) int64."""
    random = np.random.default_rng(0)
    images = random.standard_normal((2, 3, 64, 64), dtype=np.float32)
    np.save(HERE / "resnet" / "x.npy", images)
    np.save(HERE / "transformer" / "ids.npy", random.integers(0, 100, (2, 12)))


if __name__ == "__main__":
    main()
