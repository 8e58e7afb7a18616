"""Compile and link shared libraries with the system's C and C++ compilers."""

import os
import shlex
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from stubgen import elf

_COMMON = ("-O2", "-g1", "-fPIC", "-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Toolchain:
    """Compiler commands; CC, CXX, CPPFLAGS and CFLAGS mean what they mean everywhere."""

    cc: str = field(default_factory=lambda: os.environ.get("CC", "cc"))
    cxx: str = field(default_factory=lambda: os.environ.get("CXX", "c++"))

    def compile(self, sources: Sequence[Path], objects: Path, include: Iterable[Path] = ()) -> list[Path]:
        """Compile .c and .cc files into `objects`, as many at a time as there are processors; returns the objects."""
        objects.mkdir(parents=True, exist_ok=True)
        flags = [word for name in ("CPPFLAGS", "CFLAGS") for word in shlex.split(os.environ.get(name, ""))]
        flags += [f"-I{folder}" for folder in include]
        # Generated sources lie in a folder with a random name: debug information must not hold it.
        flags.append(f"-ffile-prefix-map={objects}=/stubgen")
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return list(pool.map(lambda source: self._compile_one(source, objects, flags), sources))

    def _compile_one(self, source: Path, objects: Path, flags: list[str]) -> Path:
        target = objects / f"{source.name}.o"
        language = (self.cxx, "-std=c++17") if source.suffix == ".cc" else (self.cc, "-std=gnu11")
        elf.run_tool(*language, *_COMMON, *flags, "-c", str(source), "-o", str(target))
        return target

    def link(self, soname: str, objects: Sequence[Path], folder: Path, extra: Sequence[str] = ()) -> Path:
        """Link `objects` into `folder`/`soname`."""
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / soname
        driver = self.cxx if any(path.name.endswith(".cc.o") for path in objects) else self.cc
        inputs = [str(path) for path in objects]
        elf.run_tool(driver, "-shared", f"-Wl,-soname,{soname}", *inputs, "-o", str(target), *extra)
        return target
