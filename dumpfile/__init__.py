"""The on-disk form of a dump: schema, dtypes, addresses, writer, reader, validation, errors."""

from .address import CALL_ROLES, Address, Phase, Role
from .digest import digest_of
from .dtypes import DTYPE_NAMES, dtype_name, is_floating, numpy_dtype
from .errors import (
    CompareError,
    ConfigError,
    DumpError,
    DumpExistsError,
    DumpFormatError,
    DumpNotFoundError,
    DumpWriteError,
    PadiffError,
    RecordError,
)
from .floor import Floor, RecordFloor, read_floor, write_floor
from .keep import Keep
from .problem import Problem, ProblemKind
from .reader import Dump, open_dump
from .sampling import DEFAULT_SAMPLE, LARGEST_SAMPLE, sample_positions
from .schema import (
    FORMAT_VERSION,
    JSON,
    CallInfo,
    Content,
    Draw,
    FileInfo,
    Index,
    InputInfo,
    Manifest,
    ModuleInfo,
    RecordInfo,
    Sample,
    SourceLine,
    Statistics,
    ValueInfo,
)
from .statistics import statistics_of
from .stepfile import StepFile
from .stepwriter import StepWriter
from .validate import validate
from .valuestore import Stored
from .writer import DumpWriter

__all__ = [
    "CALL_ROLES",
    "DEFAULT_SAMPLE",
    "DTYPE_NAMES",
    "FORMAT_VERSION",
    "JSON",
    "LARGEST_SAMPLE",
    "Address",
    "CallInfo",
    "CompareError",
    "ConfigError",
    "Content",
    "Draw",
    "Dump",
    "DumpError",
    "DumpExistsError",
    "DumpFormatError",
    "DumpNotFoundError",
    "DumpWriteError",
    "DumpWriter",
    "FileInfo",
    "Floor",
    "Index",
    "InputInfo",
    "Keep",
    "Manifest",
    "ModuleInfo",
    "PadiffError",
    "Phase",
    "Problem",
    "ProblemKind",
    "RecordError",
    "RecordFloor",
    "RecordInfo",
    "Role",
    "Sample",
    "SourceLine",
    "Statistics",
    "StepFile",
    "StepWriter",
    "Stored",
    "ValueInfo",
    "digest_of",
    "dtype_name",
    "is_floating",
    "numpy_dtype",
    "open_dump",
    "read_floor",
    "sample_positions",
    "statistics_of",
    "validate",
    "write_floor",
]
