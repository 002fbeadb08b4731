"""The version of padiff: stated here alone, read by the build, written into every dump."""

__all__ = ["VERSION"]

VERSION = "0.2.0"
