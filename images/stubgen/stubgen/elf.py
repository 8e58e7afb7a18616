"""Read dynamic sections with binutils. NM, READELF and CXXFILT name others, for a foreign architecture."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stubgen.errors import StubgenError

_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
_ELF_MAGIC = b"\x7fELF"


@dataclass(frozen=True, order=True)
class Symbol:
    """A dynamic symbol. `version` is empty for an unversioned one; `kind` is nm's letter (U, w, T, ...)."""

    name: str
    version: str
    kind: str


def run_tool(*command: str, stdin: str | None = None) -> str:
    """Standard output of a tool.

    Raises:
        StubgenError: the tool is not installed or failed.
    """
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        raise StubgenError(f"{command[0]} is not installed (package binutils, gcc or g++)") from missing
    if done.returncode != 0:
        raise StubgenError(f"{' '.join(command)[:200]} failed:\n{done.stderr.strip()}")
    return done.stdout


def _tool(variable: str, usual: str) -> str:
    return os.environ.get(variable) or usual


def global_names(object_file: Path) -> set[str]:
    """Names that an object file defines for others."""
    options = ("--portability", "--defined-only", "--extern-only")
    listing = run_tool(_tool("NM", "nm"), *options, str(object_file))
    return {line.split()[0] for line in listing.splitlines() if line}


def shared_objects(folder: Path) -> list[Path]:
    """Every ELF shared object below `folder` (name contains .so), sorted; links are left out."""
    found = (path for path in folder.rglob("*.so*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in found if _is_elf(path))


def _is_elf(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_ELF_MAGIC)) == _ELF_MAGIC


def undefined(library: Path) -> Iterator[Symbol]:
    """Symbols the loader must find elsewhere. Weak ones are left out: the loader is content without them."""
    return (symbol for symbol in _symbols(library, "--undefined-only") if symbol.kind == "U")


def defined(library: Path) -> Iterator[Symbol]:
    """Symbols the library offers to others."""
    return _symbols(library, "--defined-only")


def _symbols(library: Path, selection: str) -> Iterator[Symbol]:
    options = ("--dynamic", "--portability", "--with-symbol-versions", selection)
    listing = run_tool(_tool("NM", "nm"), *options, str(library))
    for line in listing.splitlines():
        name, kind = line.split()[:2]
        base, _, version = name.partition("@")
        yield Symbol(base, version.lstrip("@"), kind)


def needed(library: Path) -> list[str]:
    """Sonames in the library's NEEDED entries."""
    return _NEEDED.findall(run_tool(_tool("READELF", "readelf"), "--dynamic", "--wide", str(library)))


def literals(library: Path, pattern: bytes) -> set[str]:
    """Whole NUL-terminated string constants that match `pattern` (names a library looks up with dlsym at run time)."""
    whole = re.compile(rb"(?<=\0)(?:" + pattern + rb")(?=\0)")
    return {match.decode("ascii") for match in whole.findall(library.read_bytes())}


def demangle(names: list[str]) -> dict[str, str]:
    """C++ names as a person writes them; C names stay as they are."""
    if not names:
        return {}
    readable = run_tool(_tool("CXXFILT", "c++filt"), stdin="\n".join(names)).splitlines()
    return dict(zip(names, readable, strict=True))
