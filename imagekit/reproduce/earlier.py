"""The build that a new one is compared with: a folder, an archive, an image of the engine, or a digest alone."""

import os
import re
import subprocess
from pathlib import Path

from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.process import run
from imagekit.reproduce.builds import layouts_in
from imagekit.reproduce.stored import Stored, read_layout

DIGEST = re.compile(r"(?:.*@)?(sha256:[0-9a-f]{64})")


def find_earlier(engine: Engine, against: str, scratch: Path) -> list[Stored] | str:
    """Return the images that `against` names, or the digest alone when they are not here.

    Args:
        engine: may have the image.
        against: folder of `--layouts`, OCI layout, archive of `docker save`, tag, or digest.
        scratch: folder for what the engine saves.

    Raises:
        Problem: it names nothing.
    """
    path = Path(against).expanduser()
    if path.is_dir() and not (path / "index.json").is_file():
        if found := layouts_in(path):
            return list(found.values())
        raise Problem(f"AGAINST={against}: no OCI layout in there", "name what --layouts wrote", usage=True)
    if path.exists():
        return read_layout(path)
    match = DIGEST.fullmatch(against)
    if run((*engine.docker, "image", "inspect", against), env=engine.env).ok:
        return _saved(engine, against, match[1] if match else "", scratch / "earlier.tar")
    if match:
        return match[1]
    raise Problem(f"AGAINST={against} is no path, image or digest", "give one of an earlier build", usage=True)


def _saved(engine: Engine, reference: str, digest: str, archive: Path) -> list[Stored]:
    with archive.open("wb") as file:
        command = [*engine.docker, "save", reference]
        saved = subprocess.run(command, stdout=file, env=os.environ | engine.env, check=False)
    if saved.returncode:
        raise Problem(f"docker save {reference} failed", "is the disk full?")
    return [image for image in read_layout(archive) if not digest or image.digest == digest]
