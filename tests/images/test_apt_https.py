"""Build steps reach apt's servers by HTTPS, as mirrors and dated archives are, with a CA that only the host trusts.

Real apt in the smallest image under test, BuildKit's own secrets, a server inside the step: no network.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from imagekit.manifest import ROOT
from tests.e2e.proxy_kit import make_certificates
from tests.images.support import subjects
from tests.images.support.subjects import Subject

HERE = Path(__file__).resolve().parent / "apt_https"
BASE = "rlinf-npu-canary:apt"
# Builds with that CA as the host's; returns how it ended, and the folder with what the step has left to be looked at.
Install = Callable[[Path], tuple["subprocess.CompletedProcess[str]", Path]]


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Of the server, and the CA that made them."""
    folder = tmp_path / "certificates"
    folder.mkdir()
    make_certificates(folder, ["localhost"])
    return folder


@pytest.fixture
def install(everything: list[Subject], certificates: Path, tmp_path: Path) -> Iterator[Install]:
    """Install a package in a build step, from a mirror that is the server beside it."""
    engine, client = subjects.engine(), subjects.client()
    net = tmp_path / "net"
    net.write_text("APT_MIRROR=https://localhost:8443\n", encoding="utf-8")

    def run(ca: Path) -> tuple["subprocess.CompletedProcess[str]", Path]:
        command = [*engine.docker, "buildx", "build", "--progress=plain", "--no-cache", "--network=none"]
        command += [f"--secret=id=ca,src={ca}", f"--secret=id=net,src={net}"]
        command += [f"--build-context=common={ROOT / 'images' / 'common'}"]
        command += [f"--build-context=certificates={certificates}", f"--output={tmp_path / 'out'}", str(HERE)]
        env = {**os.environ, **engine.env}
        return subprocess.run(command, check=False, capture_output=True, text=True, env=env), tmp_path / "out"

    client.images.get(everything[0].id).tag(*BASE.split(":"))
    yield run
    client.images.remove(BASE, force=True)


def test_apt_asks_as_its_own_user_and_trusts_the_hosts_ca(install: Install, certificates: Path) -> None:
    """BuildKit lets only root read a secret, and apt reads its CA at every connection, as _apt by then."""
    done, out = install(certificates / "ca.crt")
    assert done.returncode == 0, done.stderr
    assert set((out / "asked").read_text().splitlines()) == {"_apt /./Packages", "_apt /./canary.deb"}
    assert (out / "installed").read_text().split() == ["canary", "1"]
    assert (out / "left").read_text() == ""  # no copy of the CA


def test_apt_does_not_trust_a_server_of_another_ca(install: Install, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    make_certificates(tmp_path / "other", ["localhost"])
    done, _ = install(tmp_path / "other/ca.crt")
    assert done.returncode != 0
    assert "The certificate is NOT trusted" in done.stderr
