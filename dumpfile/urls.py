"""URLs that name dumps in stores."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "adlfs"),
    "hdfs": "hdfs-native",
    **dict.fromkeys(("ssh", "sftp"), "paramiko"),
    "memory": "",
}
"""The protocols that are read, and the package that each needs beside fsspec."""
_URL = re.compile(r"([a-z][a-z0-9+.:-]+):/{1,2}(/?[^/].*)", re.DOTALL)
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")


def url_of(place: Path | str) -> str | None:
    """Return the URL that names a dump in a store; None for a path.

    As a path a URL has lost a slash.

    >>> url_of(Path("s3://bucket/dumps/net"))
    's3://bucket/dumps/net'
    """
    found = _URL.fullmatch(str(place))
    if found is None or (found[1] not in PACKAGES and Path(str(place)).exists()):
        return None
    return f"{found[1]}://{found[2]}"


def shown_url(text: str) -> str:
    """Return a text without the passwords that URLs in it have."""
    return _PASSWORD.sub(r"\1@", text)
