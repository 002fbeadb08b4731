"""Lists the members of a zip archive that can be read in bounded memory."""

from __future__ import annotations

import zipfile

__all__ = ["plain_members"]

_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_METHODS = {zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "lzma"}


def plain_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the members of an archive, all of which are stored or deflated.

    zipfile unpacks other compressions without a limit: 814 bytes of bzip2 become 1 GB in memory
    when the first byte is read.

    Raises:
        zipfile.BadZipFile: A member is compressed otherwise.
    """
    members = archive.infolist()
    for member in members:
        method = member.compress_type
        if method not in _PLAIN:
            name = _METHODS.get(method, f"method {method}")
            raise zipfile.BadZipFile(
                f"{member.filename[-80:]!r} is compressed by {name}: "
                "expected a stored or deflated member"
            )
    return members
