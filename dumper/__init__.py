"""The recorder: runs a model under hooks and writes a dump, whatever the framework."""

from .recording.recorder import Recorder
from .recording.recordsettings import Counts, RecordSettings

__all__ = ["Counts", "RecordSettings", "Recorder"]
