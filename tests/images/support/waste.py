"""Bytes that everybody who pulls an image pays for in vain: files that a later layer removes or replaces."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tests.images.support.layers import Entry

# How a layer says that a file of the layers below is gone, or everything in a folder
# (https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts).
GONE, ALL_GONE = ".wh.", ".wh..wh..opq"


@dataclass
class Ledger:
    """Names and sizes of the files of every layer, by the layer's blob."""

    files: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))

    def note(self, entry: Entry) -> None:
        """Take down a file of a layer."""
        if entry.layer and (entry.regular or PurePosixPath(entry.path).name.startswith(GONE)):
            self.files[entry.layer][entry.path] = entry.size

    def total(self, layers: list[str]) -> int:
        """Return the bytes of all files in `layers`."""
        return sum(sum(self.files[layer].values()) for layer in layers)

    def wasted(self, layers: list[str]) -> dict[str, int]:
        """Return path -> bytes of what is in `layers` (lowest first) but not in the file system that they make."""
        present: dict[str, int] = {}
        waste: dict[str, int] = defaultdict(int)
        for layer in layers:
            here = self.files[layer]
            for path in here:
                for victim in self._victims(path, present):
                    waste[victim] += present.pop(victim)
            for path, size in here.items():
                if PurePosixPath(path).name.startswith(GONE):
                    continue
                waste[path] += present.get(path, 0)
                present[path] = size
        return {path: size for path, size in waste.items() if size}

    @staticmethod
    def _victims(path: str, present: dict[str, int]) -> list[str]:
        """What of `present` a whiteout removes; nothing for an ordinary file."""
        name, folder = PurePosixPath(path).name, str(PurePosixPath(path).parent).rstrip("/")
        if not name.startswith(GONE):
            return []
        if name == ALL_GONE:
            return [other for other in present if other.startswith(f"{folder}/")]
        gone = f"{folder}/{name.removeprefix(GONE)}"
        return [other for other in present if other == gone or other.startswith(f"{gone}/")]
