"""What the shared objects of an unpacked torch_npu wheel ask CANN for."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from stubgen import elf, naming
from stubgen.errors import StubgenError

_WORKSPACE = "GetWorkspaceSize"
_OPERATOR = rb"aclnn[A-Z]\w*"
_SYSTEM_LIBRARIES = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")


@dataclass
class Demand:
    """Symbols per CANN soname, and the sonames that have to exist even when nothing is asked of them."""

    symbols: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    sonames: set[str] = field(default_factory=set)


def cann_demand(wheel: Path, compiler: str) -> Demand:
    """Everything the wheel below `wheel` wants from CANN: linked symbols and operators it opens by name.

    Raises:
        StubgenError: no shared object there, or a symbol or soname of unknown owner.
    """
    libraries = elf.shared_objects(wheel)
    if not libraries:
        raise StubgenError(f"{wheel}: no shared object below it; expected an unpacked torch_npu wheel")
    demand = Demand(sonames=_cann_sonames(libraries) | set(naming.CANN_LAZY_SONAMES))
    for name in _linked_names(libraries, compiler):
        rule = naming.cann_rule(name)
        assert rule is not None  # noqa: S101  # _linked_names lets nothing else through
        demand.symbols[rule.soname].add(name)
    demand.symbols["libopapi.so"] |= operators(libraries)
    return demand


def _cann_sonames(libraries: list[Path]) -> set[str]:
    own = {library.name for library in libraries}
    wanted = {soname for library in libraries for soname in elf.needed(library)} - own
    foreign = {s for s in wanted if not (naming.TORCH_SONAMES.match(s) or naming.SYSTEM_SONAMES.match(s))}
    unknown = sorted(foreign - naming.CANN_SONAMES)
    if unknown:
        raise StubgenError(f"the wheel links to libraries that no rule knows: {', '.join(unknown)} (see naming.py)")
    return foreign


def _linked_names(libraries: list[Path], compiler: str) -> set[str]:
    """CANN's names among the undefined ones; any name without an owner ends the run."""
    provided = {symbol.name for library in libraries for symbol in elf.defined(library)}
    asked = {
        symbol.name
        for library in libraries
        for symbol in elf.undefined(library)
        if not naming.is_system_version(symbol.version)
    }
    open_names = asked - provided
    cann = {name for name in open_names if naming.cann_rule(name)}
    _reject_data(cann)
    rest = {name for name in open_names - cann if not (naming.is_torch(name) or naming.is_python(name))}
    _reject_unknown(rest - _system_names(compiler))
    return cann


def _system_names(compiler: str) -> set[str]:
    """What the C and C++ run-time libraries export. The compiler knows where they are on this architecture."""
    names: set[str] = set()
    for soname in _SYSTEM_LIBRARIES:
        path = Path(elf.run_tool(compiler, f"-print-file-name={soname}").strip())
        if path.is_absolute():
            names |= {symbol.name for symbol in elf.defined(path.resolve())}
    return names


def _reject_unknown(names: set[str]) -> None:
    if names:
        readable = elf.demangle(sorted(names))
        listing = "\n".join(f"  {name}  ({text})" for name, text in readable.items())
        raise StubgenError(f"{len(names)} undefined symbol(s) that no naming rule explains (see naming.py):\n{listing}")


def _reject_data(names: set[str]) -> None:
    data = sorted(name for name in names if name.startswith(("_ZT", "_ZGV")))
    if data:
        raise StubgenError(f"CANN data objects cannot be stubbed by functions: {', '.join(data)}")


def operators(libraries: list[Path]) -> set[str]:
    """Both entry points of every `aclnn` operator whose name stands in the libraries.

    torch_npu finds operators with dlsym, so they are in no symbol table; each has a function that sizes its workspace
    and one that runs it.
    """
    found = {name for library in libraries for name in elf.literals(library, _OPERATOR)}
    stems = {name.removesuffix(_WORKSPACE) for name in found}
    return stems | {stem + _WORKSPACE for stem in stems}
