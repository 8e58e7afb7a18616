"""Make Debian's base image from Debian's archive, for machines that reach no image registry."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from imagekit import apt
from imagekit.carry.contents import Layer
from imagekit.carry.layer import as_gzip, store
from imagekit.carry.layout import make_folder, manifest_for, write_layout
from imagekit.engine.model import Engine
from imagekit.errors import Problem
from imagekit.manifest import Manifest, Platform, SimBase
from imagekit.network import NetworkSettings
from imagekit.process import Pulse, Say, follow, run

PIECE = 1 << 20
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
    manifest: Manifest,
    engine: Engine,
    platform: Platform,
    network: NetworkSettings,
    reference: str,
    say: Say,
    archive: str = "",
) -> None:
    """Bootstrap `manifest.base.sim.suite` for `platform` and load it as `reference`.

    The same packages give the same image: no file is newer than images.toml's apt.date. `archive` replaces the
    manifest's and the mirror's.

    Raises:
        Problem: not root, no debootstrap, or it failed; nothing is imported then.
    """
    _require_tools(manifest, say)
    base = manifest.base.sim
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="debian-") as scratch:
        root = Path(scratch) / "root"
        mirrored = f"{network.apt}/debian" if network.apt else base.archive
        _debootstrap(base.suite, archive or mirrored, platform, network, root, say)
        _write_sources(base, root)
        date = _source_date(manifest)
        clean_root(root, date)
        _pack(root, date, Path(scratch) / "root.tar")
        shutil.rmtree(root)
        config = {"Cmd": ["bash"], "Labels": {f"{manifest.project.label_prefix}.bootstrapped": "debootstrap"}}
        write_image(Path(scratch) / "root.tar", Path(scratch) / "image", platform, date, config, reference)
        _load(engine, Path(scratch) / "image")
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


def _debootstrap(suite: str, archive: str, platform: Platform, network: NetworkSettings, root: Path, say: Say) -> None:
    env = network.env()
    if network.ca:  # debootstrap downloads with wget, which reads no variable for the CA
        wgetrc = root.parent / "wgetrc"
        wgetrc.write_text(f"ca_certificate = {network.ca}\n", encoding="utf-8")
        env["WGETRC"] = str(wgetrc)
    # a mount namespace of its own: /proc inside the new root disappears with the process, however it ends
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--arch={platform.debian}"]
    command += [f"--keyring={apt.KEYRING}", suite, str(root), archive]
    say(f"Bootstrapping Debian {suite} ({platform.debian}): about a minute, four under emulation")
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


def _pack(root: Path, date: int, target: Path) -> None:
    """Names sorted, numeric owners, no time later than `date`."""
    pack = ["tar", "--create", "--sort=name", "--numeric-owner", "--format=posix", "--directory", str(root)]
    pack += ["--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"]
    done = run([*pack, f"--mtime=@{date}", "--clamp-mtime", "--file", str(target), "."])
    if not done.ok:
        raise Problem(f"the bootstrapped Debian cannot be packed: {done.last_line}", "is the disk full?")


def write_image(
    layer: Path, folder: Path, platform: Platform, date: int, config: Mapping[str, object], reference: str
) -> None:
    """Write an image of one layer; `docker import` would write the time of the day into its configuration.

    Args:
        layer: plain tar.
        folder: to be made; becomes an OCI layout that `docker load` reads.
        platform: of the image.
        date: when it was made, in seconds.
        config: the part of the configuration that containers get.
        reference: tag.
    """
    with layer.open("rb") as file:
        diff_id = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    with layer.open("rb") as file:
        blob = store(as_gzip(iter(lambda: file.read(PIECE), b""), diff_id), make_folder(folder))
    created = datetime.fromtimestamp(date, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "architecture": platform.arch,
        "os": "linux",
        "created": created,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
        "history": [{"created": created, "created_by": "debootstrap"}],
    }
    text = json.dumps(document, sort_keys=True).encode()
    layers = [Layer(diff_id=diff_id, digest=blob.digest, size=blob.size)]
    write_layout(folder, text, manifest_for(text, layers, []), layers, [reference])


def _load(engine: Engine, folder: Path) -> None:
    pack = ["tar", "--create", "--directory", str(folder), *sorted(path.name for path in folder.iterdir())]
    with subprocess.Popen(pack, stdout=subprocess.PIPE) as tar:
        command, env = [*engine.docker, "load"], os.environ | engine.env
        loaded = subprocess.run(command, stdin=tar.stdout, env=env, capture_output=True, text=True, check=False)
    if tar.returncode or loaded.returncode:
        raise Problem(f"docker load of the bootstrapped Debian failed: {loaded.stderr.strip()}", "is the disk full?")


def _source_date(manifest: Manifest) -> int:
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    return min(int(text), manifest.apt.seconds) if text.isdigit() else manifest.apt.seconds
