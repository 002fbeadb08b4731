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

_MODULES = {
    "address": "Address CALL_ROLES Phase Role",
    "arguments": "Argument DRAWN Dtype Opaque Slice ValueRef referenced_values renumbered",
    "digest": "digest_of",
    "dtypes": "DTYPE_NAMES dtype_name is_floating numpy_dtype",
    "errors": (
        "CompareError ConfigError DumpError DumpExistsError DumpFormatError DumpNotFoundError "
        "DumpWriteError PadiffError ProgramError RecordError"
    ),
    "floor": "Floor RecordFloor read_floor write_floor",
    "keep": "Keep",
    "problem": "Problem ProblemKind",
    "programbuilder": "ProgramBuilder",
    "programcolumns": "Form LEAF_KINDS LeafKind Mode ProgramColumns",
    "reader": "Dump open_dump",
    "sampling": "DEFAULT_SAMPLE LARGEST_SAMPLE sample_positions",
    "schema": (
        "CallInfo Content Draw FORMAT_VERSION FileInfo Index InputInfo JSON Layout Manifest Mesh "
        "ModuleInfo RecordInfo Sample SourceLine Statistics ValueInfo"
    ),
    "statistics": "SMALL_BYTES statistics_of",
    "stepfile": "StepFile",
    "stepreader": "StepReader",
    "stepwriter": "StepWriter",
    "validity": "validate",
    "valuestore": "Stored",
    "version": "VERSION",
    "writer": "DumpWriter",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
