"""The version of padiff: stated here alone, read by the build, written into every dump."""

VERSION = "0.2.0"
