"""Build the chain from nothing, from a clean clone of this checkout's commit."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from imagekit.errors import Problem
from imagekit.manifest import ROOT
from imagekit.process import Say, follow, run
from imagekit.reproduce.stored import Stored, read_layout


def build_clone(folder: Path, layouts: Path, say: Say) -> dict[str, Stored]:
    """Clone HEAD to `folder`, build all images with --no-cache into `layouts`, return them by name, parent first.

    With --no-cache BuildKit also empties the steps' cache mounts: wheels and bytecode are made anew. `layouts` must be
    unused (`check_unused`). The settings of `make image` (BASE, SOURCE, ...) apply, by the environment.

    Raises:
        Problem: this is no git checkout, or the build failed; its last lines have been said.
    """
    _clone(folder)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    layouts.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "build.py", "image", "--no-cache", f"--layouts={layouts}"]
    env = {"PYTHONDONTWRITEBYTECODE": "1", **source_from_there(os.environ)}
    done = follow(["env", "--chdir", str(folder), *command], lambda line: say(f"  {line.rstrip()}"), env=env)
    if not done.ok:
        raise Problem("the build failed, see above", "make image must work first")
    return layouts_in(layouts)


def source_from_there(environ: Mapping[str, str]) -> dict[str, str]:
    """Return SOURCE for a build in another folder, where it names a folder; make hands on an empty one as well."""
    source = environ.get("SOURCE")
    return {"SOURCE": str((ROOT / source).resolve())} if source and (ROOT / source).is_dir() else {}


def layouts_in(folder: Path) -> dict[str, Stored]:
    """Return the images that `build.py image --layouts` wrote, by name, parent first.

    Raises:
        Problem: a layout holds more than one build: buildx adds to what is there.
    """
    found = {path.parent.name: _only_image(path.parent) for path in folder.glob("*/index.json")}
    return dict(sorted(found.items(), key=lambda item: len(item[1].layers)))


def check_unused(folder: Path) -> None:
    """Refuse a folder that holds layouts: buildx adds to their indexes, and what is compared would be an earlier build.

    Raises:
        Problem: it does, or it is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise Problem(f"KEEP={folder} is no folder", "name a new or empty one", usage=True)
    if used := sorted((*folder.glob("index.json"), *folder.glob("*/index.json"))):
        raise Problem(f"KEEP={folder} holds a build already: {used[0]}", "name a new or empty folder", usage=True)


def _only_image(layout: Path) -> Stored:
    images = read_layout(layout)
    if len(images) > 1:
        raise Problem(f"{layout} holds {len(images)} builds, and which one is meant is not to be seen", "build it anew")
    return images[0]


def _clone(folder: Path) -> None:
    for command in (
        ("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)),
        ("git", "-C", str(folder), "remote", "remove", "origin"),
    ):
        done = run(command)
        if not done.ok:
            raise Problem(f"this checkout cannot be cloned: {done.last_line}", "run it from a git checkout", usage=True)
    # labels name the place that this checkout came from
    if origin := run(("git", "-C", str(ROOT), "remote", "get-url", "origin")).out.strip():
        run(("git", "-C", str(folder), "remote", "add", "origin", origin))
