"""Weights from dumps and checkpoint files: read, load, convert."""
