"""What a process does that other programs are forked from: see ``tests.support.warm``."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import selectors
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FRAMEWORKS = ("torch", "paddle")
MESSAGE_BYTES = 1 << 20


def load_padiff() -> None:
    """Import all of padiff that needs no framework."""
    import padiff  # noqa: PLC0415 - only here

    for module in pkgutil.walk_packages(padiff.__path__, "padiff."):
        name = module.name
        if (
            ".adapters." not in name
            and ".on_" not in name
            and not name.endswith(("__main__", "plugin"))
        ):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def _load(imported: Sequence[str]) -> None:
    """Import modules, and the adapters of those that are frameworks."""
    for name in imported:
        importlib.import_module(name)
        if name in FRAMEWORKS:
            importlib.import_module(f"padiff.dumper.adapters.{name}")


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Fork a process for each request; return the request there."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not connection:
                    _, status = os.waitpid(key.data, 0)
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    connection.send(json.dumps({"pid": key.data, "status": status}).encode())
                    continue
                content, streams, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 3)
                if not content:
                    sys.exit(0)  # who asked is gone
                child = os.fork()
                if child == 0:
                    for other in list(selector.get_map().values()):
                        if other.fileobj is not connection:
                            os.close(other.fd)
                    request: dict[str, Any] = json.loads(content)
                    return request | {"streams": streams}
                for stream in streams:
                    os.close(stream)
                selector.register(os.pidfd_open(child), selectors.EVENT_READ, child)
                connection.send(json.dumps({"pid": child}).encode())


def _settle(request: dict[str, Any], own: Mapping[str, str]) -> None:
    """Give the process what a fresh one has: streams, folder, variables, seeds."""
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    known = own.get("PYTHONPATH", "").split(os.pathsep)
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = added = [folder for folder in added if folder not in known]
    tempfile.tempdir = None
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    for folder in added:
        if (hook := Path(folder) / "sitecustomize.py").is_file():
            runpy.run_path(str(hook))


def _run(words: Sequence[str]) -> None:
    """Run what stands behind ``python``."""
    first, *rest = words
    if first == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = str(Path(first).resolve().parent)
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _main() -> None:
    """Import padiff, serve, and become whatever is asked for."""
    own = dict(os.environ)
    load_padiff()
    request: dict[str, Any] = {"imported": sys.argv[2:], "streams": [int(sys.argv[1])]}
    while "imported" in request:
        request = _asked(request)
    _settle(request, own)
    try:
        _run(request["words"])
    except SystemExit as error:
        _end(error.code)
    except Exception:
        sys.excepthook(*sys.exc_info())
        _end(1)
    _end(None)


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    """Import what is asked for, say what was imported, and serve; return what a fork is asked."""
    _load(request["imported"])
    with socket.socket(fileno=request["streams"][0]) as connection:
        loaded = sorted({name.partition(".")[0] for name in sys.modules})
        connection.send(json.dumps({"loaded": loaded}).encode())
        gc.freeze()  # or each fork copies all objects when it collects garbage
        return _serve(connection)


def _end(code: object) -> NoReturn:
    """End as the interpreter does, but for taking all modules apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    _main()
