"""A stand-in for the vendor's image on the vendor's own distribution, where that image is not to be had.

Real: Ubuntu 22.04 from Ubuntu's archive, and the system packages that the vendor's Dockerfile installs. From our
simulated base: CANN's files, Python, environment, entry point. It is left as `apt-get` leaves it, dates and logs
included: the vendor does not tidy up for us either. Its label says that it is simulated, so what is built on it does.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagekit import apt_lock
from imagekit.apt import unpack
from imagekit.base import LocalImages, cann_references
from imagekit.bootstrap import SCRATCH
from imagekit.errors import Problem
from imagekit.lookup import pick_platform
from imagekit.manifest import ROOT, load_manifest
from imagekit.network import NetworkSettings
from tests.e2e.commands import run_merged
from tests.e2e.registry_kit import engine, remove_tags

SUITE = "jammy"
ARCHIVE = "http://archive.ubuntu.com/ubuntu"
SUITES = {ARCHIVE: (SUITE, f"{SUITE}-updates"), "http://security.ubuntu.com/ubuntu": (f"{SUITE}-security",)}
COMPONENTS = ("main", "universe")  # tini and MuJoCo's libraries are in the second
KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
UBUNTU = "rlinf-npu-e2e:ubuntu22.04"


def why_not() -> str:
    """Why there can be no stand-in here; empty when there can."""
    manifest = load_manifest()
    local = LocalImages(engine(), pick_platform(manifest, "")[0])
    if any(local.digest(reference) for reference in cann_references(manifest, NetworkSettings())):
        return "an image with the vendor's name is here: BASE=cann make image test"
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        return "bootstrapping Ubuntu needs root and debootstrap"
    if pick_platform(manifest, "")[0].arch != "amd64":
        return "Ubuntu's archive for other architectures is not asked"
    return ""


def get_keyring(folder: Path) -> Path:
    """Ubuntu's public keys out of Debian's or Ubuntu's package, unpacked into `folder`."""
    if (installed := Path("/") / KEYRING).exists():
        return installed
    try:
        return unpack(["ubuntu-keyring"], folder) / KEYRING
    except Problem as problem:
        pytest.skip(f"no Ubuntu keys: {problem.what}")


def bootstrap(tag: str) -> None:
    """Ubuntu's smallest root file system, loaded as `tag`."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH, prefix="ubuntu-") as text:
        folder, root = Path(text), Path(text, "system")
        command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--keyring={get_keyring(folder)}"]
        command += [f"--components={','.join(COMPONENTS)}", SUITE, str(root), ARCHIVE]
        done = run_merged(command, os.environ | NetworkSettings.from_host().env())
        if done.returncode:
            pytest.skip(f"Ubuntu's archive gives no root file system: {done.stdout[-300:]}")
        lines = [f"deb {url} {suite} {' '.join(COMPONENTS)}\n" for url, suites in SUITES.items() for suite in suites]
        (root / "etc/apt/sources.list").write_text("".join(lines), encoding="utf-8")
        for leftover in ("etc/hostname", "etc/resolv.conf"):
            (root / leftover).unlink(missing_ok=True)
        packed = subprocess.Popen(
            ["tar", "--create", "--numeric-owner", f"--directory={root}", "."], stdout=subprocess.PIPE
        )
        subprocess.run(
            [*engine().docker, "import", "-", tag], stdin=packed.stdout, stdout=subprocess.DEVNULL, check=True
        )
        assert packed.wait() == 0


def dockerfile(simulated: str) -> str:
    """What the vendor's own does, with the files of our simulated base, whose settings are taken over.

    Args:
        simulated: our simulated base.
    """
    config = engine().client().images.get(simulated).attrs["Config"]
    packages = (ROOT / "images/cann-sim/Dockerfile").read_text(encoding="utf-8").partition("FROM system AS")[0]
    install = " ".join(sorted(apt_lock.wanted(packages)))
    settings = [f"ENV {name}={json.dumps(value)}" for name, _, value in (e.partition("=") for e in config["Env"])]
    return "\n".join(
        [
            "FROM ubuntu",
            "RUN --mount=type=secret,id=ca --mount=type=secret,id=net --mount=type=bind,from=common,target=/mnt \\",
            "    export DEBIAN_FRONTEND=noninteractive && /mnt/with-net apt-get update -q \\",
            f"    && /mnt/with-net apt-get install -q -y --no-install-recommends {install} \\",
            "    && rm -rf /var/lib/apt/lists/*",
            "COPY --from=sim /usr/local/ /usr/local/",
            "COPY --from=sim /usr/share/python-wheels/ /usr/share/python-wheels/",
            "RUN --mount=type=bind,from=sim,target=/sim \\",
            "    grep 'source .*/set_env.sh' /sim/root/.bashrc | tee -a /etc/profile >>/root/.bashrc",
            *settings,
            f"LABEL {load_manifest().project.label_prefix}.simulated=true",
            f"ENTRYPOINT {json.dumps(config['Entrypoint'])}",
            'CMD ["/bin/bash"]',
        ]
    )


@contextlib.contextmanager
def stand_in(simulated: str) -> Iterator[str]:
    """Build it on what `simulated` has; it has the vendor's name, and is gone afterwards."""
    name = cann_references(load_manifest(), NetworkSettings())[0]
    try:
        bootstrap(UBUNTU)
        with NetworkSettings.from_host().secrets() as secrets:
            command = [*engine().docker, "buildx", "build", "--provenance=false", "--load", f"--tag={name}", "--file=-"]
            contexts = {"ubuntu": f"docker-image://{UBUNTU}", "sim": f"docker-image://{simulated}"}
            contexts["common"] = str(ROOT / "images/common")
            command += [f"--build-context={key}={value}" for key, value in contexts.items()]
            command += [f"--secret=id={key},src={path}" for key, path in secrets.items()]
            with tempfile.TemporaryDirectory() as empty:
                done = subprocess.run(
                    [*command, empty], input=dockerfile(simulated), capture_output=True, text=True, check=False
                )
        assert done.returncode == 0, done.stderr[-3000:]
        yield name
    finally:
        remove_tags(engine(), [name, UBUNTU])


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Python there; both streams in stdout."""
    return run_merged([sys.executable, *arguments], os.environ | environment, folder)
