"""What this machine has of an Ascend host, by images.toml's table: card nodes, managers, driver and tools."""

import re
from dataclasses import dataclass
from pathlib import Path

from imagekit.errors import Problem
from imagekit.manifest import Devices
from imagekit.simhost import find_part


@dataclass(frozen=True)
class Host:
    """The machine below `root`."""

    devices: Devices
    root: Path = Path("/")

    def at(self, path: str) -> Path:
        """Where `path` is below the root."""
        return self.root / path.lstrip("/")

    def cards(self) -> list[int]:
        """Numbers of the card nodes, ascending."""
        folder = self.at(str(Path(self.devices.card).parent))
        pattern = re.compile(re.escape(Path(self.devices.card).name).replace(r"\{id\}", r"(\d+)"))
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))

    def nodes(self, cards: list[int]) -> list[str]:
        """Nodes that a container with these cards needs.

        Raises:
            Problem: a manager node is missing.
        """
        if missing := [node for node in self.devices.managers if not self.at(node).exists()]:
            raise Problem(f"this host has cards but no {missing[0]}", "reload the driver, or see `make doctor`")
        return [*(self.devices.card.format(id=card) for card in cards), *self.devices.managers]

    def mounts(self) -> list[str]:
        """Paths to mount read-only; optional ones only where they are.

        Raises:
            Problem: a required one is missing.
        """
        found = [mount.path for mount in self.devices.mounts if self.at(mount.path).exists()]
        if missing := [mount.path for mount in self.devices.mounts if mount.required and mount.path not in found]:
            raise Problem(
                f"this host has cards but no {missing[0]}", "install the Ascend driver, or use NPUS=none in .env"
            )
        return found


def lacking_parts(devices: Devices, build: Path) -> list[str]:
    """Return the names of what a host's driver must have and a build of the simulated one has not."""
    return [Path(m.path).name for m in devices.mounts if m.required and find_part(build, m.path) is None]


def simulated_mounts(devices: Devices, build: Path) -> dict[str, str]:
    """Where in a build of the simulated driver each of the mounts is; empty without a build."""
    found = {}
    for mount in devices.mounts:
        if source := find_part(build, mount.path):
            found[str(source.resolve())] = mount.path
    return found
