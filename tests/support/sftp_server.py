"""An SFTP server on loopback: ``python sftp_server.py FOLDER KEY``; it prints its port.

Who has the public half of KEY, a file, may read and write below FOLDER.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import paramiko

_SERVERS: list[paramiko.Transport] = []


class _Login(paramiko.ServerInterface):  # type: ignore[misc, unused-ignore]
    """Lets in who has the key."""

    def __init__(self, key: paramiko.PKey) -> None:
        self._key = key

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        is_known = username == "me" and key == self._key
        return int(paramiko.AUTH_SUCCESSFUL if is_known else paramiko.AUTH_FAILED)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return int(paramiko.OPEN_SUCCEEDED)


class _Handle(paramiko.SFTPHandle):  # type: ignore[misc, unused-ignore]
    """An open file."""

    def __init__(self, flags: int, path: Path) -> None:
        super().__init__(flags)
        self._path = path
        number = os.open(path, flags, 0o600)
        is_written = flags & (os.O_WRONLY | os.O_RDWR)
        self.readfile = self.writefile = os.fdopen(number, "r+b" if is_written else "rb")

    def stat(self) -> Any:  # noqa: ANN401
        return paramiko.SFTPAttributes.from_stat(self._path.stat())


class _Files(paramiko.SFTPServerInterface):  # type: ignore[misc, unused-ignore]
    """The files below a folder."""

    def __init__(self, server: paramiko.ServerInterface, folder: Path) -> None:
        super().__init__(server)
        self._folder = folder

    def _at(self, path: str) -> Path:
        return self._folder / os.path.normpath(f"/{path}").lstrip("/")

    def stat(self, path: str) -> Any:  # noqa: ANN401
        try:
            return paramiko.SFTPAttributes.from_stat(self._at(path).stat())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)

    lstat = stat

    def list_folder(self, path: str) -> Any:  # noqa: ANN401
        try:
            found = sorted(self._at(path).iterdir())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)
        return [paramiko.SFTPAttributes.from_stat(one.stat(), one.name) for one in found]

    def open(self, path: str, flags: int, attr: object) -> Any:  # noqa: ANN401
        try:
            return _Handle(flags, self._at(path))
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)

    def mkdir(self, path: str, attr: object) -> Any:  # noqa: ANN401
        return self._done(self._at(path).mkdir)

    def remove(self, path: str) -> Any:  # noqa: ANN401
        return self._done(self._at(path).unlink)

    def _done(self, do: Any) -> Any:  # noqa: ANN401
        try:
            do()
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno)
        return paramiko.SFTP_OK


def _serve(client: socket.socket, folder: Path, keys: tuple[Any, Any]) -> None:
    transport = paramiko.Transport(client)
    transport.add_server_key(keys[0])
    transport.set_subsystem_handler("sftp", paramiko.SFTPServer, _Files, folder)
    try:
        transport.start_server(server=_Login(keys[1]))
    except (paramiko.SSHException, EOFError):
        return  # the client went away
    _SERVERS.append(transport)


def main() -> None:
    """Print the port, and serve until killed."""
    folder = Path(sys.argv[1])
    keys = paramiko.RSAKey.generate(2048), paramiko.RSAKey(filename=sys.argv[2])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            client, _ = listening.accept()
            threading.Thread(target=_serve, args=(client, folder, keys), daemon=True).start()


if __name__ == "__main__":
    main()
