"""The on-disk form of a dump: schema, dtypes, addresses, writer, reader, validation, errors.

A public name is loaded when it is first used: who only states options needs neither numpy nor h5py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazynames import lazy_names

if TYPE_CHECKING:
    from .address import CALL_ROLES, Address, Phase, Role
    from .arguments import (
        DRAWN,
        Argument,
        Dtype,
        Opaque,
        Slice,
        ValueRef,
        referenced_values,
        renumbered,
    )
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
        ProgramError,
        RecordError,
    )
    from .floor import Floor, RecordFloor, read_floor, write_floor
    from .keep import Keep
    from .problem import Problem, ProblemKind
    from .programbuilder import ProgramBuilder
    from .programcolumns import LEAF_KINDS, Form, LeafKind, Mode, ProgramColumns
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
        Layout,
        Manifest,
        Mesh,
        ModuleInfo,
        RecordInfo,
        Sample,
        SourceLine,
        Statistics,
        ValueInfo,
    )
    from .statistics import SMALL_BYTES, statistics_of
    from .stepfile import StepFile
    from .stepreader import StepReader
    from .stepwriter import StepWriter
    from .validity import validate
    from .valuestore import Stored
    from .version import VERSION
    from .writer import DumpWriter

__all__ = [
    "CALL_ROLES",
    "DEFAULT_SAMPLE",
    "DRAWN",
    "DTYPE_NAMES",
    "FORMAT_VERSION",
    "JSON",
    "LARGEST_SAMPLE",
    "LEAF_KINDS",
    "SMALL_BYTES",
    "VERSION",
    "Address",
    "Argument",
    "CallInfo",
    "CompareError",
    "ConfigError",
    "Content",
    "Draw",
    "Dtype",
    "Dump",
    "DumpError",
    "DumpExistsError",
    "DumpFormatError",
    "DumpNotFoundError",
    "DumpWriteError",
    "DumpWriter",
    "FileInfo",
    "Floor",
    "Form",
    "Index",
    "InputInfo",
    "Keep",
    "Layout",
    "LeafKind",
    "Manifest",
    "Mesh",
    "Mode",
    "ModuleInfo",
    "Opaque",
    "PadiffError",
    "Phase",
    "Problem",
    "ProblemKind",
    "ProgramBuilder",
    "ProgramColumns",
    "ProgramError",
    "RecordError",
    "RecordFloor",
    "RecordInfo",
    "Role",
    "Sample",
    "Slice",
    "SourceLine",
    "Statistics",
    "StepFile",
    "StepReader",
    "StepWriter",
    "Stored",
    "ValueInfo",
    "ValueRef",
    "digest_of",
    "dtype_name",
    "is_floating",
    "numpy_dtype",
    "open_dump",
    "read_floor",
    "referenced_values",
    "renumbered",
    "sample_positions",
    "statistics_of",
    "validate",
    "write_floor",
]

_HOMES = {
    "Address": "address",
    "Argument": "arguments",
    "CALL_ROLES": "address",
    "CallInfo": "schema",
    "CompareError": "errors",
    "ConfigError": "errors",
    "Content": "schema",
    "DEFAULT_SAMPLE": "sampling",
    "DRAWN": "arguments",
    "DTYPE_NAMES": "dtypes",
    "Draw": "schema",
    "Dtype": "arguments",
    "Dump": "reader",
    "DumpError": "errors",
    "DumpExistsError": "errors",
    "DumpFormatError": "errors",
    "DumpNotFoundError": "errors",
    "DumpWriteError": "errors",
    "DumpWriter": "writer",
    "FORMAT_VERSION": "schema",
    "FileInfo": "schema",
    "Floor": "floor",
    "Form": "programcolumns",
    "Index": "schema",
    "InputInfo": "schema",
    "JSON": "schema",
    "Keep": "keep",
    "LARGEST_SAMPLE": "sampling",
    "LEAF_KINDS": "programcolumns",
    "Layout": "schema",
    "LeafKind": "programcolumns",
    "Manifest": "schema",
    "Mesh": "schema",
    "Mode": "programcolumns",
    "ModuleInfo": "schema",
    "Opaque": "arguments",
    "PadiffError": "errors",
    "ProgramError": "errors",
    "Phase": "address",
    "Problem": "problem",
    "ProblemKind": "problem",
    "ProgramBuilder": "programbuilder",
    "ProgramColumns": "programcolumns",
    "RecordError": "errors",
    "RecordFloor": "floor",
    "RecordInfo": "schema",
    "Role": "address",
    "SMALL_BYTES": "statistics",
    "Sample": "schema",
    "Slice": "arguments",
    "SourceLine": "schema",
    "Statistics": "schema",
    "StepFile": "stepfile",
    "StepReader": "stepreader",
    "StepWriter": "stepwriter",
    "Stored": "valuestore",
    "VERSION": "version",
    "ValueInfo": "schema",
    "ValueRef": "arguments",
    "digest_of": "digest",
    "dtype_name": "dtypes",
    "is_floating": "dtypes",
    "numpy_dtype": "dtypes",
    "open_dump": "reader",
    "read_floor": "floor",
    "referenced_values": "arguments",
    "renumbered": "arguments",
    "sample_positions": "sampling",
    "statistics_of": "statistics",
    "validate": "validity",
    "write_floor": "floor",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
