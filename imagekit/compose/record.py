"""Which image: the one that the build record names, so that nobody types a tag. Built here, pulled or loaded."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from imagekit.errors import Problem
from imagekit.manifest import Manifest
from imagekit.tags import SIM

REAL = ""


@dataclass(frozen=True)
class BuiltImage:
    """An image of a build record.

    Attributes:
        reference: its immutable tag.
        digest: of its manifest.
        simulated: its tag says so.
    """

    reference: str
    digest: str
    simulated: bool

    def stands_on(self, base: str, manifest: Manifest) -> bool:
        """Whether that BASE leads to it: simulated, with the vendor's distribution in its tag, it is on a stand-in."""
        vendors = not self.simulated or f"-{manifest.base.cann.os}-" in self.reference
        return base in ("auto", "cann" if vendors else "sim")


def find_built(folder: Path, name: str, arch: str, suffix: str) -> BuiltImage | None:
    """Return what `make image` last built for this architecture on the base that `suffix` means.

    The immutable tag is taken: the readable one moves with every build.

    Raises:
        Problem: the record is not readable.
    """
    path = _record(folder, arch, suffix)
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))["images"].get(name)
        return None if entry is None else BuiltImage(entry["tags"][-1], entry["digest"], suffix.endswith(SIM))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, IndexError):
        raise Problem(f"{path.name} is not a build record", "make image writes it again") from None


def find_newest(
    folder: Path,
    name: str,
    arch: str,
    suffixes: Sequence[str] = (REAL, SIM),
    fits: Callable[[BuiltImage], bool] = lambda _: True,
) -> BuiltImage | None:
    """Return what was built last: of the records that `suffixes` mean, have the image and fit, the one written last.

    Raises:
        Problem: a record is not readable.
    """
    found = {suffix: built for suffix in suffixes if (built := find_built(folder, name, arch, suffix)) and fits(built)}
    times = written(folder, arch)
    return found[max(found, key=lambda suffix: times.get(suffix, 0))] if found else None


def written(folder: Path, arch: str) -> dict[str, int]:
    """Return when the records of an architecture were written, in nanoseconds, by what follows it in their names."""
    stem = _record(folder, arch, "").stem
    return {path.stem.removeprefix(stem): path.stat().st_mtime_ns for path in folder.glob(f"{stem}*.json")}


def remember_image(
    folder: Path, name: str, platform: str, simulated: bool, tags: list[str], digest: str, size: int
) -> Path:
    """Put an image that came from elsewhere into the record, beside what else has been built for its base.

    Args:
        folder: where the records are.
        name: of the image in images.toml.
        platform: `linux/arm64`.
        simulated: on which base it stands.
        tags: its local names, the immutable one last.
        digest: of its manifest.
        size: unpacked bytes of all its layers.

    Returns:
        The record's file.
    """
    path = _record(folder, platform.partition("/")[2], SIM if simulated else REAL)
    try:
        images = json.loads(path.read_text(encoding="utf-8"))["images"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        images = {}
    images[name] = {"tags": tags, "digest": digest, "size": size}
    record = {"platform": platform, "base": "sim" if simulated else "cann", "fixes": True, "images": images}
    folder.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return fresh.replace(path)


def _record(folder: Path, arch: str, suffix: str) -> Path:
    return folder / f"built-{arch}{suffix}.json"
