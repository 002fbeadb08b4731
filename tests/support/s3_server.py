"""An S3 server on loopback that writes down what it was asked: ``python s3_server.py LOG``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Environ = dict[str, Any]


def main() -> None:
    """Print the port, and serve until killed."""
    serve = DomainDispatcherApplication(create_backend_app)
    with Path(sys.argv[1]).open("a", buffering=1, encoding="ascii") as log:

        def logged(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
            parts = list(serve(environ, start_response))
            size_bytes = sum(map(len, parts))
            line = [environ["REQUEST_METHOD"], environ["PATH_INFO"], size_bytes]
            log.write(json.dumps(line) + "\n")
            return parts

        server = make_server("127.0.0.1", 0, logged, threaded=True)
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
