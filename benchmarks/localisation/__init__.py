"""How often the planted fault is the one that is named, and how often a correct form alarms."""

from .score import figures

__all__ = ["figures"]
