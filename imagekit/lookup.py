"""Everything that must be looked up before a plan can be made: base, RLinf's tree, this checkout's revision."""

import os
import platform as host_platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from imagekit import mirrors
from imagekit.base import ResolvedBase
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Installer, Manifest, Mirror, Platform
from imagekit.planner import Request
from imagekit.rlinf_source import RlinfSource
from imagekit.tags import Flavour
from imagekit.torch_lock import Wheels

CACHE = ROOT / ".cache"


@dataclass(frozen=True)
class Wanted:
    """What the user asked for, still unresolved."""

    platform: Platform
    native: bool
    base: str
    source: str
    mirror: Mirror | None
    torch: str = "auto"
    fixes: bool = True
    no_cache: bool = False
    installer: Installer = "lock"
    apt: str = "locked"


def pick_platform(manifest: Manifest, name: str) -> tuple[Platform, bool]:
    """Return the wanted platform (this machine's when `name` is empty) and whether it is this machine's."""
    here = manifest.get_platform(host_platform.machine())
    wanted = manifest.get_platform(name) if name else here
    return wanted, wanted == here


def pick_mirror(manifest: Manifest, name: str) -> Mirror | None:
    """Return the mirrors called `name`; without a name USE_MIRRORS=1 in the environment means the first.

    Raises:
        Problem: no such set of mirrors.
    """
    picked = mirrors.pick(name, os.environ.get("USE_MIRRORS", ""), manifest.mirrors)
    return manifest.mirrors[picked] if picked else None


@cache
def git(*arguments: str) -> str:
    """Return what git says of this checkout, or an empty string (no git, or an unpacked archive).

    Asked once: one command speaks of one state of the checkout, however long it runs.
    """
    try:
        run = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def our_revision() -> str:
    """Return this checkout's commit, twelve digits, `-dirty` when files differ from it, or `unversioned`."""
    commit = git("rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unversioned"
    return commit + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")


def created() -> int:
    """Return SOURCE_DATE_EPOCH, else the time of the commit: the same tree gives the same image.

    Raises:
        Problem: SOURCE_DATE_EPOCH is not a number.
    """
    text = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct") or "0"
    if not text.isdigit():
        raise Problem(f"SOURCE_DATE_EPOCH={text!r} is not a number of seconds", usage=True)
    return int(text)


def source_url(manifest: Manifest) -> str:
    """Return the public address of this checkout without credentials, or the manifest's."""
    remote = git("remote", "get-url", "origin")
    match = re.fullmatch(r"(?:https://(?:[^@/]*@)?|git@)([^/:]+)[/:](.+?)(?:\.git)?/?", remote)
    return f"https://{match[1]}/{match[2]}" if match else manifest.project.url


def make_request(
    manifest: Manifest,
    wanted: Wanted,
    base: ResolvedBase,
    source: RlinfSource,
    secrets: Mapping[str, Path],
    torch: Wheels = "pypi",
) -> Request:
    """Put the answers together."""
    rlinf = (
        source.version
        if source.kind == "pypi"
        else f"{source.version}-{source.kind[0]}{source.revision.removeprefix('dir-')[:7]}"
    )
    flavour = Flavour(
        base.kind, base.os, rlinf, our_revision(), wanted.platform, wanted.native, wanted.fixes, wanted.installer
    )
    return Request(
        flavour=flavour,
        rlinf_kind=source.kind,
        rlinf_revision=source.revision,
        rlinf_tree=source.path,
        base_name=base.name,
        base_digest=base.digest,
        source_url=source_url(manifest),
        created=created(),
        torch_wheels=torch,
        base_contexts=base.contexts,
        secrets=secrets,
        no_cache=wanted.no_cache,
        apt=wanted.apt,
        registry_cache=os.environ.get("BUILD_CACHE", ""),
    )


def assumptions(manifest: Manifest, wanted: Wanted) -> list[str]:
    """Return what `offline_request` takes for granted and `make image` looks up, a line each."""
    found = []
    if wanted.base == "auto":
        found.append("BASE=auto: simulated is assumed; where the CANN image is in reach, make image builds on that")
    if wanted.source == "auto":
        version = manifest.versions.rlinf
        found.append(
            f"SOURCE=auto: git is assumed; where it does not answer, make image takes rlinf {version} from PyPI,"
            f" and the tag begins with {version}-cann"
        )
    elif wanted.source not in ("git", "pypi"):
        found.append(f"SOURCE={wanted.source}: not read; make image puts its version and revision into the tag")
    if wanted.torch == "auto" and wanted.platform.name == manifest.python.cpu.platform:
        found.append("TORCH=auto: pypi is assumed; where PyTorch's CPU wheels are in reach, make image takes those")
    return found


def offline_request(manifest: Manifest, wanted: Wanted) -> Request:
    """Return a request with nothing looked up, for `plan` and tests: no engine, no network."""
    kind: Literal["cann", "sim"] = "cann" if wanted.base == "cann" else "sim"
    spec = manifest.base.cann if kind == "cann" else manifest.base.sim
    if kind == "cann":
        name = f"{manifest.base.cann.repositories[0]}:{manifest.fill(manifest.base.cann.tag).replace('{os}', spec.os)}"
        contexts = {"cann": f"docker-image://{name}"}
    else:
        name, contexts = manifest.base.sim.image, {"debian": f"docker-image://{manifest.base.sim.image}"}
    from_git = wanted.source in ("git", "auto")
    revision = manifest.rlinf.revision if from_git else manifest.versions.rlinf
    source = RlinfSource("git" if from_git else "pypi", CACHE / "rlinf" / revision, manifest.versions.rlinf, revision)
    return make_request(manifest, wanted, ResolvedBase(kind, spec.os, name, "", contexts), source, {})
