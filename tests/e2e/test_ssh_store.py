"""Dumps on another machine, by SFTP: a server of paramiko on loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
import pytest

from tests.support.store_trials import Store, StoreTrials

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = Path(__file__).parents[1] / "support" / "sftp_server.py"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("home", "empty", "served"):
        (folder / name).mkdir()
    (folder / "home" / ".ssh").mkdir()
    key = folder / "home" / ".ssh" / "id_rsa"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(key))
    server = subprocess.Popen(
        [sys.executable, SERVER, folder / "served", key],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield Store(
            folder=folder,
            url=f"ssh://me@127.0.0.1:{int(server.stdout.readline())}/dumps",
            environment={"HOME": str(folder / "home"), "SSH_AUTH_SOCK": ""},
            stranger={"HOME": str(folder / "empty")},
        )
    finally:
        server.kill()
        server.communicate()


class TestSsh(StoreTrials):
    pass
