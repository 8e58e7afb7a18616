"""Load a bundle: all of it is verified first, then the engine gets it as one stream."""

import contextlib
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from docker.errors import APIError, ImageNotFound
from requests.exceptions import RequestException
from rich.console import Console

from imagekit.carry.contents import CONTENTS, IMAGES, Contents, read_contents
from imagekit.carry.meter import Advance, counted, meter
from imagekit.carry.reader import AGAIN, Bundle, blob, open_bundle, read
from imagekit.carry.sums import check_files, fingerprint, read_sums
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import Manifest

LAYOUT = ("oci-layout", "index.json", "manifest.json")


@dataclass(frozen=True)
class Verified:
    """A bundle that is whole; `sources` tells which bundle each file of the image is in."""

    contents: Contents
    fingerprint: str
    sources: list[tuple[Bundle, str]]


def verify_bundle(path: Path, earlier: Path | None, machine: str, manifest: Manifest, console: Console) -> Verified:
    """Check a bundle as a whole. Nothing is changed.

    Args:
        path: folder or tar.
        earlier: the bundle that this one is a difference to.
        machine: the engine's machine name, `x86_64` or `aarch64`.
        manifest: images.toml.
        console: for progress.

    Raises:
        Problem: truncated, altered, incomplete, for another architecture, or without the earlier one it needs.
    """
    bundle = open_bundle(path, "BUNDLE")
    sums = read_sums(bundle)
    if unknown := {CONTENTS, *(f"{IMAGES}/{name}" for name in LAYOUT)} - set(sums):
        raise Problem(f"bundle {bundle.name} is incomplete: SHA256SUMS has no {sorted(unknown)[0]}", AGAIN)
    check_files(bundle, sums, [CONTENTS], lambda _: None)
    contents = read_contents(read(bundle, CONTENTS))
    platform = manifest.get_platform(contents.platform)
    if platform.machine != machine:
        raise Problem(f"{path.name} is for {platform.machine}, this engine runs {machine}", "take the other bundle")
    own = [blob(digest) for digest in contents.blobs if digest not in contents.from_earlier]
    if missing := [name for name in own if sums.get(name) != name.rpartition("/")[2]]:
        raise Problem(f"bundle {bundle.name} is incomplete: {missing[0]} is not in it", AGAIN)
    base = _open_earlier(contents, earlier)
    needed = [blob(digest) for digest in contents.from_earlier]
    total = _size(bundle, sums) + (_size(base, needed) if base else 0)
    with meter(console, "verifying", total) as advance:
        check_files(bundle, sums, sums, advance)
        if base:
            check_files(base, {name: name.rpartition("/")[2] for name in needed}, needed, advance)
    sources = [(bundle, f"{IMAGES}/{name}") for name in LAYOUT] + [(bundle, name) for name in own]
    return Verified(contents, fingerprint(bundle), sources + [(base, name) for name in needed if base])


def _open_earlier(contents: Contents, earlier: Path | None) -> Bundle | None:
    if not contents.earlier:
        return None
    if earlier is None:
        raise Problem(
            "this bundle holds only what changed since an earlier one", "EARLIER= names that bundle too", usage=True
        )
    base = open_bundle(earlier, "EARLIER")
    if fingerprint(base) != contents.earlier.fingerprint:
        raise Problem(f"{earlier.name} is not the bundle that this one is a difference to", "EARLIER= another one")
    return base


def _size(bundle: Bundle, paths: Iterable[str]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(KeyError):  # said in full by the check
            total += bundle.size(path)
    return total


def load_bundle(engine: Engine, verified: Verified, console: Console) -> None:
    """Hand the image to the engine, which names it once it has all of it.

    Raises:
        Problem: the engine refuses it.
    """
    client = engine.client(seconds=None)
    total = sum(bundle.size(path) for bundle, path in verified.sources)
    try:
        with meter(console, "loading", total, then="the engine unpacks") as advance:
            for event in client.api.load_image(_tar(verified.sources, advance)):  # type: ignore[no-untyped-call]
                if "error" in event:
                    raise Problem(*_refused(str(event["error"])))
    except APIError as error:
        raise Problem(*_refused(str(error.explanation))) from None
    except RequestException as error:
        raise Problem(f"the Docker engine went away: {error}", "see its log, then load again") from None
    for name in verified.contents.names:
        _check_loaded(engine, name, verified.contents)


def _check_loaded(engine: Engine, name: str, contents: Contents) -> None:
    try:
        found = engine.client().images.get(name).id
    except ImageNotFound:
        found = "nothing"
    if found not in (contents.digest, contents.config):  # containerd's store names the manifest, the old one the config
        raise Problem(f"the engine has {found} as {name} after loading", "load again; see the engine's log")


def _refused(text: str) -> tuple[str, str]:
    if "no space left" in text:
        return "the disk of the Docker engine filled up; no image was named", "free some, then load again"
    return f"the engine refuses the image: {' '.join(text.split())[:300]}", "see the engine's log"


def _tar(sources: Iterable[tuple[Bundle, str]], advance: Advance) -> Iterator[bytes]:
    """The OCI layout as a tar, made while it is sent."""
    for bundle, path in sources:
        info = tarfile.TarInfo(path.removeprefix(f"{IMAGES}/"))
        info.size = bundle.size(path)
        yield info.tobuf(tarfile.USTAR_FORMAT)
        yield from counted(bundle.stream(path), advance)
        yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
