"""Write the golden dumps of the present format version; those that are there stay as they are.

``python tests/golden/make_dumps.py``. Run it once for each ``FORMAT_VERSION``, and remove those of
the version before, which are refused.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from padiff.dumpfile import (  # noqa: E402 -- found only through the path above
    FORMAT_VERSION,
    Content,
    DumpWriter,
    Floor,
    Keep,
    RecordFloor,
    open_dump,
    write_floor,
)
from tests.support.dumps import add_step, manifest  # noqa: E402
from tests.support.tiny_net import tiny_net  # noqa: E402


def main() -> None:
    """Write what is missing."""
    folder = HERE / "dumps" / f"version_{FORMAT_VERSION}"
    keeps = {
        "full": Keep(),
        "deflated": Keep(),
        "sampled": Keep(content=Content.SAMPLE, sample=1),
        "stats": Keep(content=Content.STATS),
    }
    for name, keep in keeps.items():
        place = folder / name
        if place.exists():
            continue
        with DumpWriter(place, content=keep, compression=4 if name == "deflated" else None) as out:
            for step in range(2):
                add_step(out, tiny_net(step=step))
            out.commit(manifest(name=name))
        if name == "full":
            row = RecordFloor(max_abs=1e-6, rms=1e-7)
            count = open_dump(place).files[0].records
            write_floor(place, Floor(repeats=1, perturb="ulp", records={(0, 0): (row,) * count}))
        facts = [describe(place, step) for step in range(2)]
        text = json.dumps(facts, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="ascii")


def describe(place: Path, step: int) -> list[list[object]]:
    """Give address, shape, dtype and digest of every record of a step."""
    with open_dump(place).open(step) as file:
        index = file.index
        return [
            [
                str(index.address(record)),
                list(record.shape),
                None if record.value is None else index.values[record.value].dtype,
                None if record.value is None else index.values[record.value].digest,
            ]
            for record in index.records
        ]


if __name__ == "__main__":
    main()
