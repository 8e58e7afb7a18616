"""Make Debian's base image from Debian's archive, for machines that reach no image registry."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from imagekit import apt
from imagekit.engine.model import Engine
from imagekit.errors import Problem
from imagekit.manifest import Manifest, Platform, SimBase
from imagekit.network import NetworkSettings
from imagekit.process import Pulse, Say, follow

FIXED_TIME = 1_735_689_600  # 2025-01-01: files newer than this get this time, so that two runs give the same layer
# Not /tmp: it is often small, and mounted nodev or noexec, which debootstrap refuses.
SCRATCH = Path("/var/lib/rlinf-npu")
# What a machine writes for itself; none of it belongs into an image.
LEFTOVERS = (
    "var/lib/apt/lists/*",
    "var/cache/apt/*",
    "var/cache/ldconfig/aux-cache",
    "var/cache/debconf/*-old",
    "var/lib/dpkg/*-old",
    "var/log/*.log",
    "var/log/apt/*",
    "var/log/btmp",
    "var/log/wtmp",
    "var/log/lastlog",
    "var/log/faillog",
    "etc/apt/sources.list",
    "etc/hostname",
    "etc/resolv.conf",
    "etc/*-",
    "tmp/*",
    "run/*",
    "dev/*",
)


def bootstrap_debian(
    manifest: Manifest, engine: Engine, platform: Platform, network: NetworkSettings, reference: str, say: Say
) -> None:
    """Bootstrap `manifest.base.sim.suite` for `platform` and import it as `reference`.

    Raises:
        Problem: not root, no debootstrap, or it failed; nothing is imported then.
    """
    _require_tools(manifest, say)
    base = manifest.base.sim
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="debian-") as scratch:
        root = Path(scratch) / "root"
        _debootstrap(base, platform, network, root, say)
        _write_sources(base, root)
        clean_root(root, _source_date())
        _import(engine, platform, root, reference, f"{manifest.project.label_prefix}.bootstrapped")
    say(f"{reference} bootstrapped for {platform.name}.")


def _require_tools(manifest: Manifest, say: Say) -> None:
    image = manifest.base.sim.image
    if os.geteuid() != 0:
        raise Problem(f"no registry offers {image} and bootstrapping it needs root", "run as root, or load it first")
    if shutil.which("debootstrap") and Path(apt.KEYRING).exists():
        return
    system = apt.read_system()
    if not system.has_apt:
        raise Problem(
            f"no registry offers {image} and this machine has no debootstrap", "install it, or load the image"
        )
    say("Installing debootstrap.")
    apt.install(["debootstrap", "debian-archive-keyring"], say)


def _debootstrap(base: SimBase, platform: Platform, network: NetworkSettings, root: Path, say: Say) -> None:
    archive = f"{network.apt}/debian" if network.apt else base.archive
    env = network.env()
    if network.ca:  # debootstrap downloads with wget, which reads no variable for the CA
        wgetrc = root.parent / "wgetrc"
        wgetrc.write_text(f"ca_certificate = {network.ca}\n", encoding="utf-8")
        env["WGETRC"] = str(wgetrc)
    # a mount namespace of its own: /proc inside the new root disappears with the process, however it ends
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--arch={platform.debian}"]
    command += [f"--keyring={apt.KEYRING}", base.suite, str(root), archive]
    say(f"Bootstrapping Debian {base.suite} ({platform.debian}): about a minute, four under emulation")
    done = follow(command, Pulse(say, "debootstrap"), env={**env, "LC_ALL": "C.UTF-8"})
    if not done.ok:
        errors = [line for line in done.out.splitlines() if line.startswith("E:")]
        raise Problem(
            f"debootstrap failed: {(errors or [done.last_line])[-1]}",
            "is Debian's archive in reach? MIRROR=cn helps in China",
        )


def _write_sources(base: SimBase, root: Path) -> None:
    """Debian's own hosts, whatever mirror was used; the form that the official image has."""
    entries = ((base.archive, f"{base.suite} {base.suite}-updates"), (base.security_archive, f"{base.suite}-security"))
    text = "\n".join(
        f"Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {apt.KEYRING}\n"
        for uri, suites in entries
    )
    (root / "etc/apt/sources.list.d/debian.sources").write_text(text, encoding="utf-8")


def clean_root(root: Path, source_date: int) -> None:
    """Drop what is this machine's or this day's: host name, name servers, lists, caches, logs, ids, dates."""
    for pattern in LEFTOVERS:
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    (root / "etc/machine-id").write_text("", encoding="ascii")
    # shadow(5): the third field is the day of the last change, here the day of bootstrapping
    shadow = root / "etc/shadow"
    day = str(source_date // 86400)
    shadow.write_text(re.sub(r"(?m)^([^:]*:[^:]*:)\d+:", rf"\g<1>{day}:", shadow.read_text(encoding="utf-8")), "utf-8")


def _import(engine: Engine, platform: Platform, root: Path, reference: str, label: str) -> None:
    """tar | docker import: names sorted, numeric owners, no time later than the source date."""
    pack = ["tar", "--create", "--sort=name", "--numeric-owner", "--format=posix", "--directory", str(root)]
    pack += ["--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"]
    pack += [f"--mtime=@{_source_date()}", "--clamp-mtime", "."]
    load = [*engine.docker, "import", "--platform", platform.name]
    load += ["--change", 'CMD ["bash"]', "--change", f"LABEL {label}=debootstrap", "-", reference]
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as tar:
        loaded = subprocess.run(
            load, stdin=tar.stdout, env={**os.environ, **engine.env}, capture_output=True, text=True, check=False
        )
    if tar.returncode or loaded.returncode:
        raise Problem(f"docker import of the bootstrapped Debian failed: {loaded.stderr.strip()}", "is the disk full?")


def _source_date() -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    return int(text) if text.isdigit() else FIXED_TIME
