"""A second, empty Docker engine beside the machine's own: its own data, its own containerd, its own bridge.

Never `--bridge=none`: dockerd then deletes docker0, which is the first engine's.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import DockerException

from imagekit.apt import unpack
from imagekit.engine import Engine, find_engine
from imagekit.engine.daemon import find_dockerd, search_path
from imagekit.errors import Problem
from imagekit.manifest import ROOT
from imagekit.process import end_group

BRIDGE = "carry-e2e0"
SUBNET = "172.31.253.1/24"
CONFIG = '{"features": {"containerd-snapshotter": true}}'
START_SECONDS = 60.0


def why_not() -> str:
    """Why there can be no second engine here; empty when there can."""
    if os.geteuid() != 0:
        return "a second engine needs root"
    if not find_dockerd():
        return "no dockerd here: make engine"
    if not shutil.which("ip"):
        return "no ip(8) here"
    return ""


class SecondEngine:
    """A running one. `environ` makes docker and build.py use it."""

    def __init__(self, folder: Path, data: Path, containerd_store: bool = True, programs: Path | None = None) -> None:
        """Start it; its data goes to `data`, all else to `folder`. `programs` has another dockerd."""
        self.folder, self.data = folder, data
        self.endpoint = f"unix://{folder}/docker.sock"
        self.environ = {"DOCKER_HOST": self.endpoint}
        (folder / "daemon.json").write_text(CONFIG if containerd_store else "{}", encoding="utf-8")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    str(programs / "dockerd" if programs else find_dockerd()),
                    f"--host={self.endpoint}",
                    f"--config-file={folder}/daemon.json",
                    f"--data-root={data}",
                    f"--exec-root={folder}/exec",
                    f"--pidfile={folder}/pid",
                    f"--bridge={BRIDGE}",
                    "--iptables=false",
                    "--ip6tables=false",
                    "--ip-forward=false",
                    "--max-download-attempts=1",
                ],
                env=os.environ | {"PATH": f"{programs}:{search_path()}" if programs else search_path()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait()

    @property
    def engine(self) -> Engine:
        """As imagekit sees it."""
        found = find_engine(self.environ)
        assert found is not None
        return found

    def stop(self) -> None:
        """End dockerd and the containerd that it started."""
        end_group(self._process, 30.0)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(DockerException):
                if find_engine(self.environ):
                    return
            time.sleep(0.2)
        self.stop()
        raise AssertionError(f"the second engine did not start: {(self.folder / 'log').read_text()[-2000:]}")


@contextlib.contextmanager
def second_engine(
    *, size: str = "", containerd_store: bool = True, programs: Path | None = None
) -> Iterator[SecondEngine]:
    """Start one and remove all of it afterwards.

    Args:
        size: of its disk, as `mount -o size=` takes it (in memory); empty for a folder.
        containerd_store: or Docker's old image store.
        programs: folder of another dockerd and its containerd; this machine's if None.
    """
    with tempfile.TemporaryDirectory(prefix="engine2-") as text, _bridge():
        folder = Path(text)
        data = folder / "data"
        data.mkdir()
        with _small_disk(data, size) if size else contextlib.nullcontext():
            started = SecondEngine(folder, data, containerd_store, programs)
            try:
                yield started
            finally:
                started.stop()
                _unmount_below(folder / "data", itself=False)
        _unmount_below(folder)


def old_programs() -> Path:
    """Docker 20.10 out of Debian 12's packages, unpacked into our cache; where apt has none, the test is skipped."""
    kept = ROOT / ".cache/docker-20.10"
    if (kept / "bin/dockerd").exists():
        return kept / "bin"
    wanted = [f"{name}={_version(name, series)}" for name, series in (("docker.io", "20.10"), ("containerd", "1.6"))]
    with tempfile.TemporaryDirectory() as folder:
        try:
            root = unpack(wanted, Path(folder))
        except Problem as problem:
            pytest.skip(f"Docker 20.10 cannot be fetched: {problem.what}")
        found = [p for part in ("bin", "sbin") for p in (root / "usr" / part).iterdir() if p.is_file()]
        (kept / "bin").mkdir(parents=True, exist_ok=True)
        for program in sorted(
            found, key=lambda path: path.name == "dockerd"
        ):  # dockerd last: it says that all are here
            shutil.copy2(program, kept / "bin")
    return kept / "bin"


def _version(package: str, series: str) -> str:
    shown = subprocess.run(["apt-cache", "madison", package], capture_output=True, text=True, check=False).stdout
    versions = [line.split("|")[1].strip() for line in shown.splitlines()]
    found = next((version for version in versions if version.startswith(series)), "")
    return found or pytest.skip(f"apt has no {package} {series} here (Debian 12 has)")


@contextlib.contextmanager
def _bridge() -> Iterator[None]:
    """A bridge of its own; it stays untouched when another test has made it already."""
    ours = subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], capture_output=True, check=False)
    if ours.returncode == 0:
        subprocess.run(["ip", "address", "add", SUBNET, "dev", BRIDGE], check=True)
    try:
        yield
    finally:
        if ours.returncode == 0:
            subprocess.run(["ip", "link", "delete", BRIDGE], check=False)


@contextlib.contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "carry-e2e", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def _unmount_below(folder: Path, itself: bool = True) -> None:
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    for place in reversed([line.split()[1] for line in lines]):
        if place.startswith(f"{folder}/") or (itself and place == str(folder)):
            subprocess.run(["umount", "-l", place], check=False)
