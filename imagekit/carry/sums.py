"""SHA256SUMS: written last, checked before anything else is believed. Its own digest tells one bundle from another."""

import hashlib
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from imagekit.carry.contents import SUMS
from imagekit.carry.meter import Advance
from imagekit.carry.reader import AGAIN, Bundle, FolderBundle, read
from imagekit.errors import Problem
from imagekit.registry import digest_of

LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")
WORKERS = 4  # disks are slower than hashing; hashlib lets the threads run side by side


def write_sums(folder: Path) -> str:
    """Write SHA256SUMS over all files of `folder` and return its fingerprint. Blobs are named by their digest."""
    bundle = FolderBundle(folder)
    paths = sorted(bundle.files())
    with ThreadPoolExecutor(WORKERS) as pool:
        sums = pool.map(lambda path: _named_or_hashed(bundle, path), paths)
    text = "".join(f"{sum_}  {path}\n" for sum_, path in zip(sums, paths, strict=True)).encode()
    (folder / SUMS).write_bytes(text)
    return digest_of(text)


def _named_or_hashed(bundle: Bundle, path: str) -> str:
    name = path.rpartition("/")[2]
    return name if "/blobs/sha256/" in path else _hash(bundle, path, lambda _: None)


def _hash(bundle: Bundle, path: str, advance: Advance) -> str:
    hashed = hashlib.sha256()
    for piece in bundle.stream(path):
        hashed.update(piece)
        advance(len(piece))
    return hashed.hexdigest()


def read_sums(bundle: Bundle) -> dict[str, str]:
    """Return path -> hex digest.

    Raises:
        Problem: SHA256SUMS is missing, or cut off in the middle of a line.
    """
    text = read(bundle, SUMS).decode(errors="replace")
    matches = [LINE.fullmatch(line) for line in text.splitlines()]
    if not matches or None in matches or not text.endswith("\n"):
        raise Problem(f"bundle {bundle.name}: {SUMS} is damaged", AGAIN)
    return {match[2]: match[1] for match in matches if match}


def fingerprint(bundle: Bundle) -> str:
    """Return the digest of SHA256SUMS."""
    return digest_of(read(bundle, SUMS))


def check_files(bundle: Bundle, sums: dict[str, str], paths: Iterable[str], advance: Advance) -> None:
    """Compare files with their sums, all of them before anyone acts on one.

    Raises:
        Problem: a file is missing or altered; it is named.
    """
    present = bundle.files()
    wanted = sorted(paths)
    if missing := [path for path in wanted if path not in present]:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise Problem(f"bundle {bundle.name} is incomplete: {missing[0]}{more} is missing", AGAIN)
    workers = WORKERS if isinstance(bundle, FolderBundle) else 1  # a tar has one file position
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(lambda path: _hash(bundle, path, advance), wanted))
    if wrong := [path for path, hex_ in zip(wanted, found, strict=True) if hex_ != sums[path]]:
        more = f" and {len(wrong) - 1} more" if wrong[1:] else ""
        raise Problem(f"bundle {bundle.name} is altered or truncated: {wrong[0]}{more}", AGAIN)
