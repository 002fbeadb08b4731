"""Dumps in Google's storage: gcp-storage-emulator on loopback, read by gcsfs."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.support.store_trials import Store, StoreTrials, free_port, served

if TYPE_CHECKING:
    from collections.abc import Iterator


class Refusing(BaseHTTPRequestHandler):
    """Answers as the store does who gives no credentials; the emulator asks for none."""

    def refuse(self) -> None:
        said = {"error": {"code": 401, "message": "Anonymous caller does not have access"}}
        data = json.dumps(said).encode()
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = refuse  # noqa: N815

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def refusing_store() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder, port = tmp_path_factory.mktemp("gs"), free_port()
    emulator = Path(sys.executable).with_name("gcp-storage-emulator")
    command: list[str | Path] = [emulator, "start", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--in-memory", "--default-bucket", "bucket"]
    with served(command, folder / "log", "All services started"), refusing_store() as refusing:
        yield Store(
            folder=folder,
            url="gs://bucket/dumps",
            environment={
                "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
                "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # the emulator speaks no gRPC
            },
            stranger={"STORAGE_EMULATOR_HOST": refusing},
        )


class TestGs(StoreTrials):
    pass
