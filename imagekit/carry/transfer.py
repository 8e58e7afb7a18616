"""What the engine's pull stream says about bytes: which layers moved, and how far."""

from collections.abc import Mapping
from typing import Any

HERE = ("Already exists",)
DONE = ("Download complete", "Pull complete", "Extracting")


class Transfer:
    """Layers of one image. Fed with the events of the engine, it tells how many further bytes are done."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        """Take the layers' sizes in bytes by digest."""
        self._sizes = {digest.removeprefix("sha256:")[:12]: size for digest, size in sizes.items()}
        self._done = dict.fromkeys(self._sizes, 0)
        self._here: set[str] = set()

    def feed(self, event: Mapping[str, Any]) -> int:
        """Take one event in and return the number of bytes that are now done in addition."""
        layer, status = str(event.get("id", "")), str(event.get("status", ""))
        if layer not in self._sizes:
            return 0
        before = self._done[layer]
        if status in HERE:
            self._here.add(layer)
            self._done[layer] = self._sizes[layer]
        elif status == "Downloading":
            self._done[layer] = max(before, int((event.get("progressDetail") or {}).get("current") or 0))
        elif status in DONE:
            self._done[layer] = self._sizes[layer]
        return self._done[layer] - before

    def rest(self) -> int:
        """Return what no event spoke of: the engine had it already and said nothing."""
        silent = [layer for layer, done in self._done.items() if not done]
        self._here.update(silent)
        return sum(size - self._done[layer] for layer, size in self._sizes.items())

    @property
    def moved_layers(self) -> set[str]:
        """Short digests of the layers that came over the network."""
        return set(self._sizes) - self._here

    @property
    def moved_bytes(self) -> int:
        """Bytes of the layers that came over the network."""
        return sum(self._sizes[layer] for layer in self.moved_layers)
