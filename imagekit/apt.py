"""Packages of Debian and Ubuntu: installed, or one program unpacked. The rest of the machine stays as it is."""

import contextlib
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from imagekit.errors import Problem
from imagekit.process import Finished, Pulse, Say, follow, run

ETC = Path("/etc/apt")
CACHE = Path(__file__).resolve().parents[1] / ".cache"  # of programs that are unpacked, not installed
POLICY = Path("/usr/sbin/policy-rc.d")  # asked by dpkg before it starts a service; 101 means no
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
OPTIONS = (
    "-o=DPkg::Lock::Timeout=120",  # another apt (unattended-upgrades) may be at work: wait for it
    "-o=Acquire::Retries=3",
    "-o=Acquire::http::Timeout=30",
    "-o=Acquire::https::Timeout=30",
    "-o=Dpkg::Options::=--force-confold",
)

# What apt's output means, most specific first: (pattern, what is wrong, what to do).
COMPLAINTS = (
    (r"dpkg was interrupted", "an earlier dpkg run was interrupted", "run `dpkg --configure -a`, then try again"),
    (r"Unmet dependencies|unmet dependencies|--fix-broken", "apt reports broken packages", "run `apt-get -f install`"),
    (
        r"Could not get lock|Unable to acquire the dpkg",
        "another package manager is running",
        "let it finish",
    ),
    (r"No space left|enough free space", "no disk space left for packages", "free some, try again"),
    (
        r"NO_PUBKEY|not signed|EXPKEYSIG",
        "apt cannot verify Debian's signature",
        "update debian-archive-keyring, try again",
    ),
    (
        r"Could not resolve|Failed to fetch|Could not connect|Connection timed out",
        "Debian's archive cannot be reached",
        "check network, proxy (http_proxy) and /etc/apt; MIRROR=cn uses a mirror",
    ),
    (r"Packages need to be removed", "installing would remove other packages", "install by hand and look at the list"),
    (r"Unable to locate package|no installation candidate", "a package is not in this machine's apt sources", ""),
)


@dataclass(frozen=True)
class System:
    """What the machine is: os-release's ID, its version as numbers (empty for a rolling release), are we root."""

    id: str
    version: tuple[int, ...]
    root: bool

    @property
    def has_apt(self) -> bool:
        """True on Debian and Ubuntu."""
        return self.id in ("debian", "ubuntu")

    @property
    def takes_from_newer(self) -> bool:
        """True on Debian 12, whose own engine and qemu are too old: they come from Debian 13 (`pin_suite`)."""
        return self.id == "debian" and self.version[:1] == (12,)

    def __str__(self) -> str:
        """`debian 12`."""
        return f"{self.id} {'.'.join(map(str, self.version))}".strip()


def read_system(os_release: Path = Path("/etc/os-release")) -> System:
    """Read what this machine is."""
    text = os_release.read_text(encoding="utf-8") if os_release.exists() else ""
    found = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, re.MULTILINE))
    version = tuple(int(part) for part in re.findall(r"\d+", found.get("VERSION_ID", "")))
    return System(found.get("ID", "unknown"), version, os.geteuid() == 0)


def pin_suite(suite: str, packages: Sequence[str], archive: str, mirror: str = "") -> None:
    """Make `packages`, and nothing else, come from another Debian release.

    Priority 100 is below the release's own 500, so nothing is upgraded to `suite` by itself; 600 is above it.

    Args:
        suite: the release.
        packages: that come from it.
        archive: URL of Debian's archive.
        mirror: root URL of a mirror that takes its place. Without one the source that an earlier run wrote stays: it
            may name a mirror because nothing else is in reach.
    """
    path = ETC / "sources.list.d" / f"rlinf-npu-{suite}.sources"
    if mirror or not path.exists():
        uri = f"{mirror.rstrip('/')}/debian" if mirror else archive
        _write(path, f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n")
    pin = f"Package: *\nPin: release n={suite}\nPin-Priority: 100\n\n"
    pin += f"Package: {' '.join(packages)}\nPin: release n={suite}\nPin-Priority: 600\n"
    _write(ETC / "preferences.d" / f"rlinf-npu-{packages[0].replace('.', '-')}", pin)


def is_installed(package: str) -> bool:
    """True when dpkg has it."""
    return run(("dpkg-query", "-W", "-f=${db:Status-Status}", package), seconds=10).out == "installed"


def candidate(package: str) -> str:
    """Return the upstream version that apt would install, empty when it knows none (its lists may be empty)."""
    shown = run(("apt-cache", "policy", package), seconds=30, env={"LC_ALL": "C.UTF-8"})
    found = re.search(r"^  Candidate: (?:\d+:)?(\d[\d.]*)", shown.out, re.MULTILINE)
    return found[1] if found else ""


def install(packages: Sequence[str], say: Say, *, start_services: bool = True) -> None:
    """Install `packages` with apt-get, showing signs of life.

    Args:
        packages: names in the machine's own sources.
        say: gets a line now and then.
        start_services: False keeps the packages from starting daemons, by a policy that is gone afterwards.

    Raises:
        Problem: what apt complained about, and what to do.
    """
    pulse = Pulse(say, "apt")
    env = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    with contextlib.nullcontext() if start_services else services_stay_down():
        for command in (("update",), ("install", "-y", "--no-install-recommends", "--no-remove", *packages)):
            done = follow(("apt-get", "-q", *OPTIONS, *command), pulse, env=env)
            if not done.ok:
                raise explain(done)


def explain(done: Finished) -> Problem:
    """Turn apt's output into one line."""
    errors = [line for line in done.out.splitlines() if line.startswith(("E:", "dpkg:", "W: Failed"))]
    detail = (errors or [done.last_line])[0]
    for pattern, what, fix in COMPLAINTS:
        if re.search(pattern, done.out):
            return Problem(f"{what} ({detail})", fix)
    return Problem(f"apt-get failed: {detail}")


@contextlib.contextmanager
def services_stay_down() -> Iterator[None]:
    """Keep dpkg from starting what it installs, unless a policy of the machine's own decides that already."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)  # apt reads it as user _apt, whatever root's umask is


def debian_program(name: str, say: Say = lambda _: None) -> str:
    """Return a program: the installed one, else the one in Debian's package of that name, unpacked into our cache.

    Unpacked, not installed: docker-registry's package would start a registry of its own on port 5000.

    Raises:
        Problem: neither.
    """
    if found := shutil.which(name):
        return found
    kept = CACHE / name / platform.machine() / "usr/bin" / name
    if kept.is_file():
        return str(kept)
    say(f"fetching Debian's {name} package")
    with tempfile.TemporaryDirectory() as folder:
        root = unpack([name], Path(folder))
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / "usr/bin" / name, kept)
    return str(kept)


def unpack(packages: Sequence[str], folder: Path) -> Path:
    """Download packages (`NAME` or `NAME=VERSION`) to `folder` and return where their files are; nothing is installed.

    Raises:
        Problem: apt does not have them.
    """
    script = 'cd "$0" && apt-get download -qq "$@" && for one in *.deb; do dpkg-deb -x "$one" root || exit; done'
    done = run(["sh", "-c", script, str(folder), *packages])
    if not done.ok:
        names = " ".join(packages)
        raise Problem(f"no {names} here: {done.last_line}", f"apt-get update && apt-get install {names}")
    return folder / "root"
