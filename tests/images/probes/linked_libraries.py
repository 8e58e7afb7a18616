# ruff: noqa: PTH110, PTH114, PTH118, PTH120, PTH123, PLW1510
# A hundred thousand files: plain strings, not Path. readelf complains about some of them and goes on.
"""Every shared object and program of the file system: which libraries it names, and which of them cannot be found.

Follows ld.so(8): DT_RPATH (unless there is a DT_RUNPATH), LD_LIBRARY_PATH, DT_RUNPATH, ld.so.cache, default folders.
Libraries that auditwheel put into PACKAGE.libs find each other through the DT_RPATH of the extension that loads them.
Prints {library: [file, ...]} of what is not found, and the number of files that were looked at.
"""

import json
import os
import re
import subprocess
import sys

SKIPPED = {"/proc", "/sys", "/dev", "/run", "/tmp"}
# The last two are Debian's and Ubuntu's; a second name of a library (libsndio.so.7.0) is not in ld.so.cache.
DEFAULT = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"]
DEFAULT += [f"{folder}/{os.uname().machine}-linux-gnu" for folder in ("/lib", "/usr/lib")]
MAGIC = b"\x7fELF"


def elf_files(root="/"):
    """Regular files with ELF's magic that the dynamic linker may be asked to load or that may be run."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in SKIPPED]
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith((".py", ".pyc", ".h", ".o", ".a", ".json", ".txt", ".hpp")) or os.path.islink(path):
                continue
            try:
                with open(path, "rb") as file:
                    head = file.read(20)
            except OSError:
                continue
            # e_type: 2 program, 3 shared object; e_machine: of this machine
            if head[:4] == MAGIC and head[16] in (2, 3) and head[18:20] == OWN_MACHINE:
                yield path


def dynamic(paths):
    """(file, needed, rpath, runpath) of each file, read in batches by readelf."""
    for start in range(0, len(paths), 200):
        batch = paths[start : start + 200]
        # A second file makes readelf print names even in a batch of one.
        text = subprocess.run(
            ["readelf", "-dW", *batch, "/dev/null"], capture_output=True, text=True, errors="replace"
        ).stdout
        for part in re.split(r"^File: ", text, flags=re.M)[1:]:
            name, _, body = part.partition("\n")
            tags = re.findall(r"\((NEEDED|RPATH|RUNPATH)\).*?\[(.*?)\]", body)
            yield (
                name.strip(),
                *([value for tag, value in tags if tag == kind] for kind in ("NEEDED", "RPATH", "RUNPATH")),
            )


def expand(entries, path):
    """Search folders of a DT_RPATH or DT_RUNPATH."""
    origin = os.path.dirname(os.path.realpath(path))
    for folder in ":".join(entries).split(":"):
        if folder:
            yield re.sub(r"\$\{?ORIGIN\}?", origin, folder).replace("$LIB", "lib")


def cached():
    """What ldconfig has in its cache."""
    text = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    return set(re.findall(r"^\t(\S+) \(", text, re.M))


def main():
    """Print what is missing."""
    environment = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    system, files, missing = cached(), list(elf_files()), {}
    for path, needed, rpath, runpath in dynamic(files):
        wheel = [os.path.dirname(path)] if os.path.dirname(path).endswith(".libs") else []
        folders = [
            *wheel,
            *(expand(rpath, path) if not runpath else ()),
            *environment,
            *expand(runpath, path),
            *DEFAULT,
        ]
        for library in needed:
            if library not in system and not any(os.path.exists(os.path.join(folder, library)) for folder in folders):
                missing.setdefault(library, []).append(path)
    print(json.dumps({"files": len(files), "missing": missing}))


with open("/proc/self/exe", "rb") as own:
    OWN_MACHINE = own.read(20)[18:20]
sys.exit(main())
