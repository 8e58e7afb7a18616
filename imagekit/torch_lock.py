"""The x86-64 lock with PyTorch's own CPU wheels in it, derived from the committed one and the manifest's hashes."""

import re
from pathlib import Path
from typing import Literal

from imagekit.errors import Problem
from imagekit.files import write_changed
from imagekit.locks import LOCKS, lock_path
from imagekit.manifest import ROOT, Manifest

Wheels = Literal["cpu", "pypi"]
CPU_LOCKS = ROOT / "build" / "locks"


def cpu_wheels(manifest: Manifest) -> dict[str, str] | None:
    """Return the SHA-256 of each CPU wheel at the manifest's versions, by name; None when one is not recorded."""
    versions = {"torch": manifest.versions.torch, "torchvision": manifest.versions.torchvision}
    known = manifest.python.cpu.sha256
    found = {name: known[f"{name}=={v}"] for name, v in versions.items() if f"{name}=={v}" in known}
    return found if found.keys() == versions.keys() else None


def cpu_lock(manifest: Manifest, lock: str) -> str:
    """Return the text of a lock in which torch and its kin are PyTorch's CPU wheels.

    Raises:
        Problem: the lock does not hold such a package at the manifest's version.
    """
    for name, sha256 in (cpu_wheels(manifest) or {}).items():
        version = str(getattr(manifest.versions, name))
        block = re.compile(rf"^{name}=={re.escape(version)} (?:.*\\\n)*.*\n", re.MULTILINE)
        lock, count = block.subn(f"{name}=={version}+cpu --hash=sha256:{sha256}\n", lock)
        if count != 1:
            raise Problem(f"the lock holds no {name}=={version}", "run `make lock`")
    return lock


def locks_for(wheels: Wheels) -> Path:
    """Return the folder of locks that a build takes."""
    return CPU_LOCKS if wheels == "cpu" else LOCKS


def write_cpu_lock(manifest: Manifest, folder: Path = CPU_LOCKS) -> None:
    """Write the CPU variant of the lock; an unchanged file keeps the build cache."""
    source = lock_path(manifest.get_platform(manifest.python.cpu.platform))
    write_changed(folder / source.name, cpu_lock(manifest, source.read_text(encoding="utf-8")))
