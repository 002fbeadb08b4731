"""The recorder: runs a model under hooks and writes a dump, whatever the framework."""

from .recording.recorder import Counts, Recorder, RecordSettings

__all__ = ["Counts", "RecordSettings", "Recorder"]
