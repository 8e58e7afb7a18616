"""Which image: the one that the build record names, so that nobody types a tag."""

import json
from dataclasses import dataclass
from pathlib import Path

from imagekit.errors import Problem
from imagekit.tags import SIM

REAL = ""


@dataclass(frozen=True)
class BuiltImage:
    """An image of a build record."""

    reference: str
    digest: str
    simulated: bool


def find_built(folder: Path, name: str, arch: str, suffix: str) -> BuiltImage | None:
    """Return what `make image` last built for this architecture on the base that `suffix` means.

    The immutable tag is taken: the readable one moves with every build.

    Raises:
        Problem: the record is not readable.
    """
    path = folder / f"built-{arch}{suffix}.json"
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))["images"].get(name)
        return None if entry is None else BuiltImage(entry["tags"][-1], entry["digest"], suffix == SIM)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, IndexError):
        raise Problem(f"{path.name} is not a build record", "make image writes it again") from None
