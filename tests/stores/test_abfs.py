"""Dumps in Azure's blobs: Azurite on loopback, read by adlfs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.support.store_trials import Store, StoreTrials, free_port, needed, served

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY, WRONG_KEY = (base64.b64encode(word * 8).decode() for word in (b"notshown", b"mistaken"))


def connection(port: int, key: str) -> str:
    return (
        "DefaultEndpointsProtocol=http;AccountName=padiff;"
        f"AccountKey={key};BlobEndpoint=http://127.0.0.1:{port}/padiff;"
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder, port = tmp_path_factory.mktemp("abfs"), free_port()
    command = ["env", f"AZURITE_ACCOUNTS=padiff:{KEY}", needed("PADIFF_AZURITE")]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck"]
    with served(command, folder / "azurite.log", "successfully listens"):
        made = Store(
            folder=folder,
            url="abfs://bucket/dumps",
            environment={"AZURE_STORAGE_CONNECTION_STRING": connection(port, KEY)},
            stranger={"AZURE_STORAGE_CONNECTION_STRING": connection(port, WRONG_KEY)},
            secrets=(KEY, WRONG_KEY),
        )
        made.python("system.mkdir('bucket')", "abfs://bucket")
        yield made


class TestAbfs(StoreTrials):
    pass
