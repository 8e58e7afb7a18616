"""Simulated cards for containers, without touching this machine.

The simulated host is built below a temporary folder: its device nodes and its driver are handed to containers from
there, under their real names. A simulated host that somebody has prepared in /dev, or a real one, stays as it is.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagekit import simhost
from imagekit.manifest import ROOT
from imagekit.planner import SIM_DRIVER
from tests.images.support.subjects import Missing, Subject, engine, manifest

CAPABILITY_FREE = {"cap_drop": ["ALL"]}


@dataclass(frozen=True)
class Cards:
    """The simulated host below `root`."""

    root: Path

    def options(self, cards: int | Sequence[int], *, driver: bool = True) -> dict[str, Any]:
        """Return what a container has to be started with.

        Args:
            cards: their number (from 0 on), or their ids.
            driver: mount the driver, as a host's compose file does.
        """
        devices = manifest().devices
        ids = range(cards) if isinstance(cards, int) else cards
        nodes = [*(devices.card.format(id=i) for i in ids), *devices.managers]
        paths = [mount.path for mount in devices.mounts if driver and self.at(mount.path).exists()]
        return {
            "devices": [f"{self.at(node)}:{node}:rwm" for node in nodes],
            "volumes": {str(self.at(path)): {"bind": path, "mode": "ro"} for path in paths},
        }

    def at(self, path: str) -> Path:
        """Where a path of the simulated host is on this machine."""
        return self.root / path.lstrip("/")


@contextlib.contextmanager
def simulated_host(subject: Subject) -> Iterator[Cards]:
    """Build a simulated host with every card that a host can have; remove it afterwards.

    Raises:
        Missing: the engine is elsewhere, or the simulated driver has not been built.
    """
    if not engine().local:
        raise Missing("the engine runs on another machine: its device nodes are not ours to make")
    build = ROOT / "build" / SIM_DRIVER / subject.attrs["Architecture"]
    if not build.is_dir():
        raise Missing(f"{build.relative_to(ROOT)} is missing: make image BASE=sim")
    with tempfile.TemporaryDirectory(prefix="simulated-host-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        for parent in ("dev", "etc", "usr/local"):
            (root / parent).mkdir(parents=True)
        host = simhost.SimHost(manifest().devices, lambda _: None, root)
        host.prepare(build, manifest().devices.max_cards)
        try:
            yield Cards(root)
        finally:
            host.clean()
