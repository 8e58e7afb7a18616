"""Who owns an undefined symbol: decided by positive naming rules, so that nothing unknown slips through as a stub."""

import re
from dataclasses import dataclass
from enum import Enum


class Result(Enum):
    """What a stub hands back."""

    ERROR = "error"  # an error code of the library's own kind
    NULL = "null"  # a pointer: none
    NOTHING = "nothing"  # a count or a size: zero
    UNDEFINED = "undefined"  # an enumeration of ACL whose "undefined" is -1 (aclDataType, aclFormat)
    THROW = "throw"  # C++: an exception; its return type is not in the name, so no value can be right


@dataclass(frozen=True)
class Rule:
    """Symbols that match `pattern` live in `soname`. `pattern` is tried on the C name or on the C++ owner."""

    soname: str
    pattern: re.Pattern[str]
    result: Result


def _rule(soname: str, pattern: str, result: Result = Result.ERROR) -> Rule:
    return Rule(soname, re.compile(pattern), result)


# C names, first match wins. Return kinds are those of the public ACL headers (acl_base.h, acl_op.h, acl_tdt.h).
CANN_C_RULES = (
    _rule("libacl_tdt_channel.so", r"acltdt(Create|GetDataItem$|GetDataAddrFromItem$)", Result.NULL),
    _rule("libacl_tdt_channel.so", r"acltdtGet(DataSizeFromItem|DimNumFromItem|DatasetSize)$", Result.NOTHING),
    _rule("libacl_tdt_channel.so", r"acltdtGetDataTypeFromItem$", Result.UNDEFINED),
    _rule("libacl_tdt_channel.so", r"acltdt[A-Z]"),
    _rule("libacl_op_compiler.so", r"aclGetCompileoptSize$", Result.NOTHING),
    _rule("libacl_op_compiler.so", r"acl(op(Compile|Execute|Start|Stop)|(Set|Get)Compileopt|GenGraph)"),
    _rule("libacl_op_compiler.so", r"aclCreateGraphDumpOpt$", Result.NULL),
    _rule("libopapi.so", r"aclnn[A-Z]"),
    _rule("libascendcl.so", r"acl(op)?Create[A-Z]", Result.NULL),
    _rule("libascendcl.so", r"aclGet(DataBufferAddr|TensorDescName|TensorDescAddress)$", Result.NULL),
    _rule(
        "libascendcl.so",
        r"acl(GetDataBufferSize|GetTensorDesc(Size|NumDims|ElementCount)|DataTypeSize)",
        Result.NOTHING,
    ),
    _rule("libascendcl.so", r"aclGetTensorDesc(Type|Format)$", Result.UNDEFINED),
    _rule("libascendcl.so", r"acl[A-Za-z]"),
    _rule("libascendcl.so", r"rt[A-Z]"),
    _rule("libascendcl.so", r"Msprof[A-Z]"),
    _rule("libhccl.so", r"H(ccl|com)[A-Z]"),
    _rule("libc_sec.so", r"(v?s?n?w?printf|v?f?s?w?scanf|str\w+|wcs\w+|w?mem\w+|gets)_s$"),
)

# First namespace or class of a C++ name.
CANN_CXX_RULES = (
    _rule("libatb.so", r"atb(::|$)", Result.THROW),
    _rule("libge_runner.so", r"ge::(Session|CompiledGraphSummary|GE\w+)$", Result.THROW),
    _rule("libgraph.so", r"(ge|gert|ascgen)(::|$)", Result.THROW),
    _rule("libascend_protobuf.so", r"(ascend_private|domi)(::|$)", Result.THROW),
)

# Sonames that belong to CANN. Those the wheel links to must exist, stubs or not; the lazy ones are opened by name.
CANN_SONAMES = frozenset({
    "libacl_op_compiler.so", "libacl_tdt_channel.so", "libascend_protobuf.so", "libascendcl.so", "libatb.so",
    "libfmk_parser.so", "libge_runner.so", "libgraph.so", "libhccl.so", "libopapi.so",
})  # fmt: skip
CANN_LAZY_SONAMES = ("libopapi.so", "libnnopbase.so", "libmsprofiler.so", "libascend_dump.so", "libascend_ml.so")

# Torch's libraries export these; the wheel of torch itself is not needed to know it.
_TORCH_CXX = re.compile(r"(c10|c10d|at|torch|caffe2|pybind11|getPyInterpreter|THP\w*|THManagedMapAllocator)(::|$)")
_TORCH_C = re.compile(r"(THP\w+|ParameterClass|aoti_torch_\w+|mz_zip_\w+)$")
_PYTHON = re.compile(r"_?Py[A-Z_]")
_SYSTEM_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP|LIBUUID)_")

TORCH_SONAMES = re.compile(r"lib(torch|torch_cpu|torch_python|c10|shm)\.so$")
SYSTEM_SONAMES = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp)|ld-linux[\w-]*)\.so(\.\d+)*$")

_SPECIAL = re.compile(r"_Z(?:T[VTIS]|GV|GR)?")
_QUALIFIERS = re.compile(r"[rVK]*[RO]?")
_LENGTH = re.compile(r"\d+")


def owner(mangled: str) -> str:
    """First two components of a mangled C++ name's scope, as `ge::Session`; '' when it is not a C++ name.

    Read from the mangled form: the demangled one starts with a return type for some names and not for others.
    """
    special = _SPECIAL.match(mangled)
    if not special:
        return ""
    rest = mangled[special.end() :]
    if rest.startswith("N"):
        rest = rest[1:]
        rest = rest[_match_end(_QUALIFIERS, rest) :]
    parts: list[str] = []
    while len(parts) < 2:
        length = _LENGTH.match(rest)
        if not length:
            break
        end = length.end() + int(length.group())
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    return "::".join(parts)


def _match_end(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.match(text)
    return match.end() if match else 0


def cann_rule(name: str) -> Rule | None:
    """The rule that says where a CANN symbol lives; None when the name is not CANN's."""
    scope = owner(name)
    rules, subject = (CANN_CXX_RULES, scope) if name.startswith("_Z") else (CANN_C_RULES, name)
    return next((rule for rule in rules if rule.pattern.match(subject)), None)


def is_torch(name: str) -> bool:
    """Is it a name that torch's libraries export?"""
    return bool(_TORCH_CXX.match(owner(name)) if name.startswith("_Z") else _TORCH_C.match(name))


def is_python(name: str) -> bool:
    """Is it a name of CPython's C interface?"""
    return bool(_PYTHON.match(name))


def is_system_version(version: str) -> bool:
    """Does the symbol version belong to the C or C++ run-time library?"""
    return bool(_SYSTEM_VERSION.match(version))
