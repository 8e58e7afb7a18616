"""Read a bundle where it lies: a folder, or a tar of one that need not be unpacked."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from imagekit.carry.contents import CONTENTS, IMAGES, SUMS, blob_path
from imagekit.errors import Problem

CHUNK = 1 << 20
AGAIN = "carry the bundle over again"


class Bundle(Protocol):
    """Files by their path in the bundle. `name` is for messages."""

    name: str

    def files(self) -> set[str]:
        """Return the paths of all regular files."""

    def size(self, path: str) -> int:
        """Return a file's bytes; KeyError when there is none."""

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield a file's content; KeyError when there is none, Problem when it cannot be read to its end."""


class FolderBundle:
    """A bundle as `make bundle` writes it."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        self.name, self._folder = folder.name, folder

    def files(self) -> set[str]:
        """Return the paths of all regular files."""
        found = (path for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {path.relative_to(self._folder).as_posix() for path in found}

    def size(self, path: str) -> int:
        """Return a file's bytes."""
        return self._at(path).stat().st_size

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield a file's content."""
        with self._at(path).open("rb") as file:
            while piece := file.read(CHUNK):
                yield piece

    def _at(self, path: str) -> Path:
        found = self._folder / path
        if not found.is_file() or not found.resolve().is_relative_to(self._folder.resolve()):
            raise KeyError(path)
        return found


class TarBundle:
    """A bundle in one file."""

    def __init__(self, path: Path, fix: str = AGAIN) -> None:
        """Read the tar's directory.

        Raises:
            Problem: not a tar, or a truncated one.
        """
        self.name = path.name
        try:
            self._tar = tarfile.open(path, "r:")  # noqa: SIM115
            members = [member for member in self._tar if member.isfile()]
        except (tarfile.TarError, EOFError) as error:
            raise Problem(f"{path.name} is truncated or not a tar: {error}", fix) from None
        tops = {member.name.partition("/")[0] for member in members if member.name.count("/") == 1}
        self._members = {member.name.partition("/")[2]: member for member in members} if len(tops) == 1 else {}

    def files(self) -> set[str]:
        """Return the paths of all regular files."""
        return set(self._members)

    def size(self, path: str) -> int:
        """Return a file's bytes."""
        return self._members[path].size

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield a file's content."""
        file = self._tar.extractfile(self._members[path])
        try:
            while file and (piece := file.read(CHUNK)):
                yield piece
        except (tarfile.TarError, OSError) as error:
            raise Problem(f"{self.name}: {path} cannot be read: {error}", AGAIN) from None


def open_bundle(path: Path, setting: str) -> Bundle:
    """Return the bundle at `path`, which the user gave as `setting`.

    Raises:
        Problem: there is nothing there, or no bundle.
    """
    names = f"{setting}= names the folder or the tar that make bundle wrote"
    if not path.exists():
        raise Problem(f"{setting}={path}: there is nothing", names, usage=True)
    bundle: Bundle = FolderBundle(path) if path.is_dir() else TarBundle(path, f"{names}; if it is one, {AGAIN}")
    files = bundle.files()
    if CONTENTS in files:
        return bundle
    if SUMS in files:
        raise Problem(f"bundle {bundle.name} is incomplete: {CONTENTS} is missing", AGAIN)
    raise Problem(f"{setting}={path} is not a bundle: it has no {CONTENTS}", names, usage=True)


def read(bundle: Bundle, path: str) -> bytes:
    """Return a small file's content.

    Raises:
        Problem: it is missing.
    """
    try:
        return b"".join(bundle.stream(path))
    except KeyError:
        raise Problem(f"bundle {bundle.name} is incomplete: {path} is missing", AGAIN) from None


def blob(digest: str) -> str:
    """Return a blob's path in a bundle."""
    return f"{IMAGES}/{blob_path(digest)}"
