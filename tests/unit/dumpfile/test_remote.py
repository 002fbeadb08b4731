"""Dumps in a store, here that of fsspec's memory: read like others, and trusted no more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pytest

from padiff.cli.main import main
from padiff.dumper.recording.named import ROOT, write_named
from padiff.dumpfile import (
    ConfigError,
    DumpError,
    DumpExistsError,
    DumpFormatError,
    DumpNotFoundError,
    DumpWriter,
    Phase,
    Role,
    open_dump,
    validate,
)
from padiff.dumpfile.transfer import push
from padiff.dumpfile.urls import shown_url, url_of
from tests.support.dumps import manifest
from tests.support.indexes import FILE
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

URL = "memory://dumps/net"
STORE = fsspec.filesystem("memory")
LARGE = np.random.default_rng(0).standard_normal((24, 1 << 18)).astype(np.float32)  # 1 MiB a row


@pytest.fixture(autouse=True)
def _empty_store() -> Iterator[None]:
    STORE.store.clear()
    STORE.pseudo_dirs[:] = [""]
    yield
    STORE.store.clear()


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Write a small dump and push it."""
    place = tiny_net().write(tmp_path / "net")
    push(place, URL)
    return place


def arrays(place: Path | str) -> list[bytes]:
    with open_dump(place).open() as file:
        index = file.index
        return [file.array(one).tobytes() for one in index.records if one.value is not None]


@pytest.mark.parametrize("compression", [None, 4])
def test_a_pushed_dump_reads_like_the_one_on_the_disk(
    tmp_path: Path, compression: int | None
) -> None:
    on_disk = tmp_path / "disk"
    with DumpWriter(on_disk, compression=compression) as writer:
        with writer.step(0) as step:
            step.add_modules((ROOT,))
            for place, row in enumerate([*LARGE, np.zeros(1 << 20), np.empty(0), LARGE[0] > 0]):
                step.add_record(
                    module=0,
                    call=None,
                    phase=Phase.FORWARD,
                    role=Role.NAMED,
                    slot=f"[{place}]",
                    order=place,
                    shape=row.shape,
                    value=step.store(row),
                )
        writer.commit(manifest())
    push(on_disk, URL)

    assert open_dump(URL).manifest == open_dump(on_disk).manifest
    assert arrays(URL) == arrays(on_disk)
    assert validate(URL, deep=True) == []


@pytest.mark.parametrize(
    "words",
    [
        ("show", URL),
        ("show", URL, "--records", "--json"),
        ("check", URL, "--deep"),
        ("compare", URL, URL),
        ("map", URL, URL),
        ("weights", "compare", URL, URL),
    ],
)
def test_commands_say_of_a_url_what_they_say_of_a_directory(
    dump: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for place in (URL, str(dump)):
        code = main([place if word == URL else word for word in words])
        written = capsys.readouterr()
        assert not written.err
        said.append((code, written.out.replace(str(url_path()), "DUMP").replace(place, "DUMP")))

    assert said[0] == said[1]
    assert said[0][0] == 0


def url_path() -> Path:
    return open_dump(URL).path


def test_pack_and_accept_take_a_url_as_their_source(dump: Path, tmp_path: Path) -> None:
    assert main(["pack", URL, "-o", str(tmp_path / "a.padiff.zip")]) == 0
    assert main(["accept", str(tmp_path / "base"), URL, "--reason", "first"]) == 0

    assert main(["compare", str(tmp_path / "a.padiff.zip"), str(dump)]) == 0
    assert arrays(tmp_path / "base") == arrays(dump)
    assert main(["accept", URL, str(dump), "--reason", "no"]) == 2


class Counting:
    """Counts what is asked of the store."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranges: list[int] = []
        read = STORE.cat_file

        def cat_file(path: str, start: Any = None, end: Any = None, **more: Any) -> bytes:  # noqa: ANN401
            data: bytes = read(path, start=start, end=end, **more)
            self.ranges.append(len(data))
            return data

        monkeypatch.setattr(STORE, "cat_file", cat_file)


def test_what_digests_decide_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {f"w{place}": row for place, row in enumerate(LARGE)}
    push(write_named(tmp_path / "a", [rows]), "memory://dumps/a")
    push(write_named(tmp_path / "b", [rows | {"w7": LARGE[7] + 1}]), "memory://dumps/b")
    counted = Counting(monkeypatch)

    assert main(["compare", "memory://dumps/a", "memory://dumps/a"]) == 0
    equal = counted.ranges[:]
    counted.ranges.clear()
    assert main(["compare", "memory://dumps/a", "memory://dumps/b"]) == 1

    assert len(equal) <= 8
    assert sum(equal) < 1 << 20
    assert sum(counted.ranges) < sum(equal) + (5 << 20)  # 1 MiB of each side, and whole blocks


def test_what_will_be_read_is_asked_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"w{place}" for place in range(len(LARGE))]
    for name, moved in (("a", 0), ("b", 1)):
        rows = dict(zip(names, LARGE + np.float32(moved), strict=True))
        push(write_named(tmp_path / name, [rows]), f"memory://dumps/{name}")
    counted = Counting(monkeypatch)

    assert main(["compare", "memory://dumps/a", "memory://dumps/b"]) == 1

    assert len(counted.ranges) <= 12
    assert sum(counted.ranges) < 2 * LARGE.nbytes + (3 << 20)


def test_an_object_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    rows = {f"w{place}": row for place, row in enumerate(LARGE)}
    push(write_named(tmp_path / "a", [rows]), URL)
    dump = open_dump(URL)
    with dump.open() as file:
        data = STORE.cat(f"{URL}/{FILE}")
        STORE.pipe(f"{URL}/{FILE}", data)

        for _again in range(2):
            with pytest.raises(DumpFormatError, match="changed while it was read"):
                file.array(file.index.records[0])
    with pytest.raises(DumpFormatError, match="changed while it was read"):
        dump.open()


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda: STORE.rm(f"{URL}/manifest.json"), DumpNotFoundError),
        (lambda: STORE.rm(f"{URL}/{FILE}"), DumpFormatError),
        (lambda: STORE.pipe(f"{URL}/{FILE}", b"short"), DumpFormatError),
        (lambda: STORE.pipe(f"{URL}/manifest.json", b"{}"), DumpFormatError),
    ],
)
def test_what_lacks_a_part_is_refused(
    dump: Path, spoil: Callable[[], object], error: type[DumpError]
) -> None:
    del dump
    spoil()

    with pytest.raises(error):
        open_dump(URL).open()
    assert main(["check", URL]) == 2


def test_a_dump_without_a_table_of_contents_is_read_from_a_disk_alone(dump: Path) -> None:
    text = json.loads((dump / "manifest.json").read_text())
    del text["files"][0]["contents"]
    (dump / "manifest.json").write_text(json.dumps(text))
    STORE.pipe(f"{URL}/manifest.json", (dump / "manifest.json").read_bytes())

    assert validate(dump, deep=False) == []
    assert arrays(dump)
    with pytest.raises(DumpFormatError, match="no table of contents"):
        open_dump(URL).open()
    with pytest.raises(DumpError, match="no table of contents"):
        push(dump, "memory://dumps/other")
    assert not STORE.exists("memory://dumps/other/manifest.json")


def first_value(entries: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = entries[next(name for name in entries if name.startswith("/values/"))]
    return found


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "beyond the file": lambda top: first_value(top).update(offset=1 << 40),
    "more than the file": lambda top: first_value(top).update(size=1 << 61),
    "a negative offset": lambda top: first_value(top).update(offset=-8),
    "a fraction": lambda top: first_value(top).update(offset=1.5),
    "a flag": lambda top: first_value(top).update(size=True),
    "another dtype": lambda top: first_value(top).update(dtype="float64"),
    "an object dtype": lambda top: top["/index/records"].update(dtype=[["module", "|O"]]),
    "a field twice": lambda top: top["/index/records"].update(dtype=[["a", "|u1"], ["a", "|u1"]]),
    "a huge table": lambda top: top["/index/records"].update(size=1 << 50),
    "a path that leads away": lambda top: top.update({"/values/../x": first_value(top)}),
    "a value of nobody": lambda top: top.update({"/values/v99999999": first_value(top)}),
    "a table of nobody": lambda top: top.update({"/index/other": top["/index/records"]}),
    "no table": lambda top: top.pop("/index/records"),
    "chunks of nothing": lambda top: first_value(top).update(chunk=0, chunks=[]),
    "chunks outside": lambda top: first_value(top).update(
        chunk=first_value(top)["size"], chunks=[[1 << 40, 8]]
    ),
    "a chunk too large": lambda top: first_value(top).update(chunk=1 << 40, chunks=[[0, 8]]),
    "an entry that is none": lambda top: top.update({"/index/records": 3}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_table_of_contents_that_lies_is_refused(dump: Path, name: str) -> None:
    told = open_dump(dump).files[0].contents
    assert told is not None
    start, size = told
    data = (dump / FILE).read_bytes()
    entries = json.loads(data[start : start + size])
    HOSTILE[name](entries)
    made = json.dumps(entries, separators=(",", ":")).encode()
    spoilt = data[:start] + made + data[start + size :]
    text = json.loads((dump / "manifest.json").read_text())
    text["files"][0] |= {"size_bytes": len(spoilt), "contents": [start, len(made)]}
    STORE.pipe(f"{URL}/{FILE}", spoilt)
    STORE.pipe(f"{URL}/manifest.json", json.dumps(text).encode())

    assert validate(URL, deep=True)
    with pytest.raises(DumpFormatError):
        arrays(URL)


@pytest.mark.parametrize(
    "contents", [[0, 0], [0, 1 << 40], [1 << 40, 8], [0, 64], [0, 4, 4], "x", [-1, 4]]
)
def test_a_table_of_contents_that_is_elsewhere_is_refused(dump: Path, contents: object) -> None:
    text = json.loads((dump / "manifest.json").read_text())
    text["files"][0]["contents"] = contents
    STORE.pipe(f"{URL}/manifest.json", json.dumps(text).encode())

    with pytest.raises(DumpFormatError):
        open_dump(URL).open()


def test_a_table_of_contents_that_contradicts_hdf5_is_found_on_a_disk(dump: Path) -> None:
    start, size = open_dump(dump).files[0].contents or (0, 0)
    data = bytearray((dump / FILE).read_bytes())
    text = data[start : start + size]
    place = text.index(b'"offset":') + len(b'"offset":')
    digit = text[place : place + 1]
    data[start + place : start + place + 1] = b"9" if digit != b"9" else b"8"
    (dump / FILE).write_bytes(data)

    assert validate(dump, deep=False) == []
    assert any("contents" in problem.loc for problem in validate(dump, deep=True))


def test_a_push_replaces_nothing_that_it_was_not_told_to(dump: Path, tmp_path: Path) -> None:
    other = tiny_net().write(tmp_path / "other", name="other")
    STORE.pipe(f"{URL}/notes.txt", b"mine")

    with pytest.raises(DumpExistsError):
        push(other, URL)
    assert open_dump(URL).manifest == open_dump(dump).manifest

    push(other, URL, overwrite=True)
    assert open_dump(URL).manifest.name == "other"
    assert STORE.cat(f"{URL}/notes.txt") == b"mine"


def test_a_push_that_is_broken_off_leaves_no_dump(
    dump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: str, target: str, **_more: object) -> None:
        del path
        raise OSError(f"no connection for {target}")

    with monkeypatch.context() as patch:
        patch.setattr(STORE, "put_file", broken)
        with pytest.raises(DumpError, match="no connection"):
            push(dump, URL, overwrite=True)

    with pytest.raises(DumpNotFoundError):
        open_dump(URL)
    push(dump, URL)
    assert arrays(URL) == arrays(dump)


def test_a_protocol_without_its_package_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "gs://bucket/net"]) == 2
    assert "pip install 'padiff-align[remote]' gcsfs" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    ["ftp://host/net", "http://host/net", "file:///net", "s3::memory://x", "simplecache::s3://x/y"],
)
def test_other_protocols_and_chains_of_them_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected one of the protocols"):
        open_dump(url)


def test_a_push_to_a_directory_is_refused(dump: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a URL"):
        push(dump, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_no_password_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "ssh://me:secret@host/x"]) == 2
    assert "secret" not in capsys.readouterr().err
    assert shown_url("ssh://me:secret@host/x") == "ssh://me@host/x"
    assert url_of("padiff_dump/net") is None


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--recover", URL),
        ("dump", "--model", "net.py:build", "--out", URL),
        ("compare", "memory://dumps/a.padiff.zip", URL),
    ],
)
def test_what_a_store_cannot_do_is_refused(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(list(words)) == 2
    assert not list(tmp_path.iterdir())
