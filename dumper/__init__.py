"""The recorder: runs a model under hooks and writes a dump, whatever the framework."""

from .recorder import Counts, Recorder, RecordSettings, record

__all__ = ["Counts", "RecordSettings", "Recorder", "record"]
