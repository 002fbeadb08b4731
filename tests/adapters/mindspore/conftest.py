"""These tests run where MindSpore is: ``make adapter-mindspore`` says so."""

import os

collect_ignore_glob = [] if "PADIFF_TORCH_PYTHON" in os.environ else ["test_*.py"]
