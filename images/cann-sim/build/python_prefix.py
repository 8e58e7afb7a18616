"""Lay Debian's Python 3.11 out as a prefix of its own, as the vendor image has it: python_prefix.py PREFIX.

The vendor compiles Python into /usr/local/python<version>. Compiling takes minutes; Debian's binary finds its library
relative to itself and works from any prefix. Debian's packaging rules (dist-packages, no pip into the system) are
taken out of the copy, so that packages land in PREFIX/lib/python3.11/site-packages.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

SERIES = "3.11"
USR = Path("/usr")
LIBRARY = f"lib/python{SERIES}"

# file below lib/python3.11, Debian's text, ours. A text that is not there ends the build: Debian changed its patches.
EDITS = (
    (
        "sysconfig.py",
        '    if sys.base_prefix != sys.prefix or hasattr(sys, "real_prefix"):\n        # virtual environments\n',
        "    if True:\n",
    ),
    (
        "ensurepip/__init__.py",
        "    _ensurepip_is_disabled_in_debian_for_system()\n\n    if altinstall",
        "    if altinstall",
    ),
    (
        "distutils/sysconfig.py",
        "        elif is_default_prefix and not is_virtual_environment():\n",
        "        elif False:\n",
    ),
    (
        "distutils/command/install.py",
        "                  or is_virtual_environment()):\n",
        "                  or True):\n",
    ),
)
# Debian's hooks and markers
REMOVED = ("EXTERNALLY-MANAGED", "_distutils_system_mod.py", "sitecustomize.py", "dist-packages")


def main(prefix: Path) -> None:
    """Build the prefix; it must not exist."""
    copy_library(prefix)
    copy_headers(prefix)
    copy_binaries(prefix)
    for name, debian, plain in EDITS:
        replace(prefix / LIBRARY / name, debian, plain)
    move_build_variables(prefix)


def copy_library(prefix: Path) -> None:
    """Standard library without caches, tests and the static libpython."""
    ignored = shutil.ignore_patterns("__pycache__", "test", "*.a", *REMOVED)
    shutil.copytree(USR / LIBRARY, prefix / LIBRARY, ignore=ignored, ignore_dangling_symlinks=True)
    (prefix / LIBRARY / "site-packages").mkdir(exist_ok=True)
    (prefix / LIBRARY / "dist-packages").mkdir()
    # Debian's `site` is frozen into the binary and looks in dist-packages only, so that is where the way starts.
    line = f"import site; site.addsitedir({str(prefix / LIBRARY / 'site-packages')!r})\n"
    (prefix / LIBRARY / "dist-packages/site-packages.pth").write_text(line, encoding="utf-8")


def copy_headers(prefix: Path) -> None:
    """C headers, with this architecture's pyconfig.h in place of Debian's switch."""
    target = prefix / f"include/python{SERIES}"
    shutil.copytree(USR / f"include/python{SERIES}", target)
    shutil.copy2(USR / "include" / multiarch() / f"python{SERIES}/pyconfig.h", target / "pyconfig.h")


def copy_binaries(prefix: Path) -> None:
    """Interpreter, shared library, and the links people call."""
    (prefix / "bin").mkdir()
    shutil.copy2(USR / f"bin/python{SERIES}", prefix / "bin")
    for link in ("python3", "python"):
        (prefix / "bin" / link).symlink_to(f"python{SERIES}")
    shared = f"libpython{SERIES}.so.1.0"
    shutil.copy2(USR / "lib" / multiarch() / shared, prefix / "lib")
    for link in (f"libpython{SERIES}.so.1", f"libpython{SERIES}.so"):
        (prefix / "lib" / link).symlink_to(shared)


def move_build_variables(prefix: Path) -> None:
    """What sysconfig tells extension builds about folders."""
    data = next((prefix / LIBRARY).glob(f"_sysconfigdata_*{multiarch()}.py"))
    text = data.read_text(encoding="utf-8")
    for old, new in (
        (f"/usr/include/python{SERIES}", prefix / f"include/python{SERIES}"),
        (f"/usr/{LIBRARY}", prefix / LIBRARY),
        (f"/usr/lib/{multiarch()}", prefix / "lib"),
    ):
        text = text.replace(old, str(new))
    data.write_text(text, encoding="utf-8")


def replace(path: Path, old: str, new: str) -> None:
    """Replace a text that must occur exactly once."""
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        sys.exit(f"{path}: expected once, found {text.count(old)} times: {old!r}; Debian's Python has changed")
    path.write_text(text.replace(old, new), encoding="utf-8")


def multiarch() -> str:
    """Debian's name of the architecture, such as aarch64-linux-gnu."""
    return str(sysconfig.get_config_var("MULTIARCH"))


if __name__ == "__main__":
    os.umask(0o022)
    main(Path(sys.argv[1]))
