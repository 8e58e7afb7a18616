"""Versions of the distributions' packages, as a build found them: images/common/apt/<distribution>-<architecture>.txt.

Used softly: images/common/apt-locked takes a recorded version where the archive still has it. APT=snapshot takes
nothing else, from a server that keeps the archive's state of the recorded day.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imagekit.errors import Problem
from imagekit.files import write_changed
from imagekit.manifest import ROOT, Manifest, Platform
from imagekit.process import Say

# Builds what installs packages, on a base (auto, cann, sim); returns the distribution and its packages' versions.
Newest = Callable[[Platform, str], tuple[str, dict[str, str]]]
FOLDER = ROOT / "images" / "common" / "apt"
CHOICES = ("locked", "snapshot")
RECORD = "apt-record"  # stage of a Dockerfile that holds dpkg's status and nothing else
HEADER = "# Made by `build.py lock-apt`; do not edit.\n"
ENTRY = re.compile(r"^([a-z0-9][a-z0-9.+-]+)=(\S+)$")
# What a Dockerfile installs: the words after apt-locked up to the end of the command.
CALL = re.compile(r"apt-locked (?:install|dist-upgrade)((?:[^\n]*\\\n)*[^\n]*)")


def check_choice(apt: str) -> None:
    """Refuse a word that is none of ours.

    Raises:
        Problem: neither locked nor snapshot.
    """
    if apt not in CHOICES:
        raise Problem(f"APT={apt!r} is not a way to take packages", f"use {', '.join(CHOICES)}", usage=True)


def lock_path(os: str, platform: Platform, folder: Path = FOLDER) -> Path:
    """Return where the versions of a distribution (`debian12`) on a platform are recorded."""
    return folder / f"{os}-{platform.debian}.txt"


def read_lock(path: Path) -> dict[str, str]:
    """Return version by package name.

    Raises:
        Problem: a line is not name=version.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            continue
        match = ENTRY.match(line)
        if not match:
            raise Problem(f"{path.name}, line {number}: not name=version: {line[:60]!r}", "run build.py lock-apt")
        found[match[1]] = match[2]
    return found


def installed(status: str) -> dict[str, str]:
    """Return version by name of what dpkg's status file calls installed."""
    found = {}
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields["Version"]
    return found


def write_lock(path: Path, packages: dict[str, str]) -> None:
    """Write a lock, sorted by name."""
    write_changed(path, HEADER + "".join(f"{name}={version}\n" for name, version in sorted(packages.items())))


def record_plan(plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the part of a bake file that writes dpkg's status of each image into `folder`, on the newest packages."""
    names = [name for name in ("cann-sim", "cann-base") if name in plan["target"]]
    # bake exports and tags what others stand on, too, unless it is told not to
    nothing = {"no-cache": True, "output": ["type=cacheonly"], "tags": []}
    targets = {name: plan["target"][name] | nothing for name in names}
    for name in names:
        changes = {"target": RECORD, "output": [f"type=local,dest={folder / name}"], "tags": [], "labels": {}}
        targets[f"{name}-{RECORD}"] = targets[name] | changes
    return {"group": {"default": {"targets": [f"{name}-{RECORD}" for name in names]}}, "target": targets}


def read_record(folder: Path) -> dict[str, str]:
    """Return what all images of a record have installed.

    Raises:
        Problem: the images disagree, because the archive changed in between.
    """
    found: dict[str, str] = {}
    for status in sorted(folder.glob("*/status")):
        for name, version in installed(status.read_text(encoding="utf-8")).items():
            if found.setdefault(name, version) != version:
                raise Problem(f"{name} is {found[name]} in one image and {version} in another", "run it again")
    return found


def plan_records(manifest: Manifest, base: str, folder: Path) -> list[tuple[Platform, str]]:
    """Return platform and base of each record to be made: images.toml has one day for all, so all are made anew.

    The simulated base's always; the vendor's, unless BASE=sim, where its image is in reach, and where there is a record
    already in any case. The vendor's come first: that its image is out of reach shows before the long builds.

    Raises:
        Problem: a record that is there would stay, and be of another day.
    """
    vendors = {lock_path(manifest.base.cann.os, platform, folder): platform for platform in manifest.platform}
    renewed = {lock_path(manifest.base.sim.os, platform, folder) for platform in manifest.platform}
    renewed |= set(vendors) if base != "sim" else set()
    if left := sorted(path.name for path in folder.glob("*.txt") if path not in renewed):
        raise Problem(
            f"{', '.join(left)} would not be recorded again, and be of another day than apt.date in images.toml",
            "run it with BASE=cann where the vendor's image is in reach, or remove what is no longer used",
        )
    plan = [(where, "cann" if path.is_file() else base) for path, where in vendors.items() if base != "sim"]
    return plan + [(platform, "sim") for platform in manifest.platform]


def record(manifest: Manifest, base: str, newest: Newest, say: Say, folder: Path) -> dict[Path, dict[str, str]]:
    """Return versions by package for each record that has to be written, all or none of them.

    Raises:
        Problem: one of them cannot be made.
    """
    found: dict[Path, dict[str, str]] = {}
    for platform, kind in plan_records(manifest, base, folder):
        if kind == "sim" and lock_path(manifest.base.sim.os, platform, folder) in found:
            continue  # the vendor's image was out of reach
        say(f"--- {platform.name}, BASE={kind}")
        os, packages = newest(platform, kind)
        found[lock_path(os, platform, folder)] = packages
    return found


def today() -> str:
    """Return the time as images.toml's apt.date has it."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def wanted(dockerfile: str) -> set[str]:
    """Return the packages that a Dockerfile asks apt-locked for."""
    found: set[str] = set()
    for call in CALL.findall(dockerfile):
        words = re.sub(r"&&.*", "", call.replace("\\\n", " "), flags=re.DOTALL)
        words = re.sub(r"(?:-o|--option) \S+", "", words)
        found |= {word for word in words.split() if not word.startswith("-")}
    return found


def drift(manifest: Manifest, folder: Path = FOLDER, images: Path = ROOT / "images") -> list[str]:
    """Return one line for each package that is asked for and in no lock, and for each lock that is missing."""
    expected = [lock_path(manifest.base.sim.os, platform, folder) for platform in manifest.platform]
    complaints = [f"{path.name} is missing; run `build.py lock-apt`" for path in expected if not path.is_file()]
    for path in sorted(folder.glob("*.txt")):
        known = read_lock(path)
        asked = wanted((images / "cann-base/Dockerfile").read_text(encoding="utf-8"))
        if path.name.startswith("debian"):
            asked |= wanted((images / "cann-sim/Dockerfile").read_text(encoding="utf-8"))
        if missing := sorted(asked - known.keys()):
            complaints.append(f"{path.name} has no version of {', '.join(missing)}; run `build.py lock-apt`")
    return complaints
