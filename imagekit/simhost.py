"""Turn a machine into a *simulated* Ascend host: device nodes and the simulated driver; and back again.

What was made is listed in a state file; cleaning removes exactly that. Both refuse where there are real cards or a real
driver.
"""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imagekit.errors import Problem
from imagekit.manifest import Devices, Manifest
from imagekit.process import Say

STATE = Path("/var/lib/rlinf-npu/simhost.json")
MARK = "simulated.info"  # the sim-driver build puts it into the driver folder: this is not Ascend's driver
NULL = os.makedev(1, 3)  # /dev/null: a node that behaves like a card's for everything but I/O


class Nodes:
    """Makes and recognises the stand-ins for device nodes."""

    def make(self, path: Path) -> None:
        """Make a clone of /dev/null; needs root."""
        os.mknod(path, stat.S_IFCHR | 0o600, NULL)

    def is_simulated(self, path: Path) -> bool:
        """True for a clone of /dev/null, False for a real card or anything else."""
        found = path.lstat()
        return stat.S_ISCHR(found.st_mode) and found.st_rdev == NULL


def find_part(build: Path, place: str) -> Path | None:
    """Return where a build of the simulated driver holds what a host has at `place`.

    That is the longest tail of the path that exists there: /usr/local/bin/npu-smi is bin/npu-smi.
    """
    names = Path(place).parts[1:]
    tails = (build.joinpath(*names[start:]) for start in range(len(names)))
    return next((tail for tail in tails if tail.exists()), None)


@dataclass
class SimHost:
    """The parts of a machine that a simulated host is made of.

    Attributes:
        devices: names, owner and mode of nodes, and the mounts, from the manifest.
        say: gets what is done.
        root: prefix of all paths (tests).
        nodes: how nodes are made.
        made: path (without the prefix) -> `node`, `tree`, `folder`, or `file:<sha256>`; the state file's content.
    """

    devices: Devices
    say: Say
    root: Path = Path("/")
    nodes: Nodes = field(default_factory=Nodes)
    made: dict[str, str] = field(default_factory=dict)

    def at(self, path: str | Path) -> Path:
        """The path below the prefix."""
        return self.root / str(path).lstrip("/")

    # --- prepare ---

    def prepare(self, driver_build: Path, cards: int) -> None:
        """Make `cards` cards and the driver; again with another number changes the number.

        Raises:
            Problem: not root, a bad number, an incomplete build, or something real or foreign is in the way.
        """
        if not 1 <= cards <= self.devices.max_cards:
            raise Problem(
                f"CARDS={cards}: 1 to {self.devices.max_cards} are possible",
                "for example CARDS=8; to have none again: make sim-host-clean",
                usage=True,
            )
        parts = self._find_parts(driver_build)
        self._load()
        wanted = self._node_paths(cards)
        self._refuse_real()
        self._refuse_foreign(parts)
        for node in [path for path, kind in self.made.items() if kind == "node" and path not in wanted]:
            self._remove(node)
        try:
            for node in wanted:
                self._make_node(node)
            for place, source in parts.items():
                self._copy(source, place)
        except BaseException:
            self.clean()
            raise
        self.say(f"Simulated host ready: {cards} simulated card(s), simulated driver at {self.devices.driver}.")

    def _find_parts(self, build: Path) -> dict[str, Path]:
        """Where in the build each of the host's mounts is."""
        parts: dict[str, Path] = {}
        for mount in self.devices.mounts:
            if found := find_part(build, mount.path):
                parts[mount.path] = found
            elif mount.required:
                raise Problem(
                    f"{build} has no {Path(mount.path).name}: not a build of the simulated driver",
                    "build it with make image BASE=sim",
                )
        if not (parts[self.devices.driver] / MARK).is_file():
            raise Problem(f"{build} is not marked as a simulated driver", "build it with make image BASE=sim")
        return parts

    def _node_paths(self, cards: int) -> list[str]:
        return [self.devices.card.format(id=i) for i in range(cards)] + list(self.devices.managers)

    def _refuse_real(self) -> None:
        for path in self._present_nodes():
            if not self.nodes.is_simulated(self.at(path)):
                raise Problem(
                    f"{path} is a real device: this is an Ascend host", "no simulation here; nothing was changed"
                )
        driver = self.at(self.devices.driver)
        if driver.exists() and not (driver / MARK).is_file():
            raise Problem(
                f"{self.devices.driver} holds a driver that is not simulated", "no simulation here; nothing was changed"
            )

    def _refuse_foreign(self, targets: Iterable[str]) -> None:
        """What we did not make we must not replace: cleaning could not bring it back."""
        for path in (*self._present_nodes(), *targets):
            if os.path.lexists(self.at(path)) and path not in self.made:
                raise Problem(f"{path} exists and is not ours", "move it away first; nothing was changed")

    def _present_nodes(self) -> list[str]:
        """Cards of any number, and managers."""
        pattern = re.compile(re.escape(self.devices.card).replace(r"\{id\}", r"\d+"))
        names = (f"/{path.relative_to(self.root)}" for path in self.at(Path(self.devices.card).parent).iterdir())
        return sorted(name for name in names if pattern.fullmatch(name) or name in self.devices.managers)

    def _make_node(self, path: str) -> None:
        node = self.at(path)
        self._record(path, "node")
        if not node.exists():
            self.nodes.make(node)
        os.chown(node, self.devices.uid, self.devices.gid)
        node.chmod(int(self.devices.mode, 8))

    def _copy(self, source: Path, target: str) -> None:
        """Put a file or a folder in place in one step, replacing what an earlier prepare put there."""
        final = self.at(target)
        self._make_parents(final.parent)
        fresh = final.with_name(f".{final.name}.new")
        _delete(fresh)
        try:
            if source.is_dir():
                shutil.copytree(source, fresh, symlinks=True)
                self._record(target, "tree")
                _delete(final)
            else:
                shutil.copy2(source, fresh)
                self._record(target, f"file:{_sha256(fresh)}")
            fresh.rename(final)
        finally:
            _delete(fresh)

    def _make_parents(self, folder: Path) -> None:
        for parent in reversed([folder, *folder.parents]):
            if not parent.exists():
                self._record(f"/{parent.relative_to(self.root)}", "folder")
                parent.mkdir()

    # --- clean ---

    def clean(self) -> None:
        """Remove what `prepare` made, and nothing else; what has changed since then is left and named.

        Raises:
            Problem: this is a host with real cards or a real driver (by now).
        """
        self._load()
        self._refuse_real()
        count = len(self.made)
        for path in sorted(self.made, reverse=True):  # children before the folders they are in
            self._remove(path)
        self.at(STATE).unlink(missing_ok=True)
        self.say(f"Simulated host removed ({count} items)." if count else "No simulated host here; nothing to remove.")

    def _remove(self, path: str) -> None:
        kind, target = self.made.pop(path), self.at(path)
        if os.path.lexists(target):
            if not self._is_as_made(target, path, kind):
                self.say(f"{path} is no longer what was put there; left alone.")
            elif kind == "folder":
                if not any(target.iterdir()):
                    target.rmdir()
            else:
                _delete(target)
        self._save()

    def _is_as_made(self, target: Path, path: str, kind: str) -> bool:
        if kind == "node":
            return self.nodes.is_simulated(target)
        if kind == "tree":
            return target.is_dir() and (path != self.devices.driver or (target / MARK).is_file())
        if kind == "folder":
            return target.is_dir() and not target.is_symlink()
        return target.is_file() and kind == f"file:{_sha256(target)}"

    # --- state ---

    def _record(self, path: str, kind: str) -> None:
        """Written before the thing is made: an interrupted prepare can be cleaned."""
        if self.made.get(path) != kind:
            self.made[path] = kind
            self._save()

    def _load(self) -> None:
        try:
            state: dict[str, Any] = json.loads(self.at(STATE).read_text(encoding="utf-8"))
            self.made = {str(path): str(kind) for path, kind in state["made"].items()}
        except FileNotFoundError:
            self.made = {}
        except (ValueError, KeyError, AttributeError):
            raise Problem(
                f"{STATE} is not readable as a list of what was made", "remove by hand what it names"
            ) from None

    def _save(self) -> None:
        path = self.at(STATE)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"made": self.made}, indent=1) + "\n", encoding="utf-8")
        fresh.rename(path)


def prepare(
    manifest: Manifest, driver_build: Path, cards: int, say: Say, *, root: Path = Path("/"), nodes: Nodes | None = None
) -> None:
    """Make this machine a simulated host; see `SimHost.prepare`.

    Args:
        manifest: names of nodes and mounts.
        driver_build: the `sim-driver` build output.
        cards: how many.
        say: gets what is done.
        root: prefix for all paths.
        nodes: how nodes are made.

    Raises:
        Problem: not root, or see `SimHost.prepare`.
    """
    host = SimHost(manifest.devices, say, root, nodes or Nodes())
    _require_root(host, "making device nodes needs root", "run it as root: sudo make sim-host")
    host.prepare(driver_build, cards)


def clean(manifest: Manifest, say: Say, *, root: Path = Path("/"), nodes: Nodes | None = None) -> None:
    """Remove what `prepare` made; see `SimHost.clean`.

    Raises:
        Problem: not root, or something real stands there now.
    """
    host = SimHost(manifest.devices, say, root, nodes or Nodes())
    if host.at(STATE).exists():
        _require_root(
            host,
            "a simulated host is here, and removing its device nodes and driver needs root",
            "run it as root: sudo make sim-host-clean",
        )
    host.clean()


def _require_root(host: SimHost, what: str, fix: str) -> None:
    """Stand-ins for nodes, as tests have them, need none."""
    if type(host.nodes) is Nodes and os.geteuid() != 0:
        raise Problem(what, fix)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
