"""Run the command line as ``python -m padiff``."""

import sys

from padiff.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
