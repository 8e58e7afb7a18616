"""Which release: the one that was asked for, else the newest real one for this host's chip and architecture."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from imagekit.carry.lockfile import Lock, Release
from imagekit.errors import Problem
from imagekit.registry.reference import DIGEST, TAG

GIVE = "TAG=tag@sha256:... with a digest you trust, or lock-images (docs/pull.md)"


@dataclass(frozen=True)
class Wanted:
    """What is to be pulled. `digest` is an index's or a manifest's; `manifest` is the platform's, empty if unknown."""

    image: str
    tag: str
    digest: str
    manifest: str = ""


def pick_release(lock: Lock, image: str, platform: str, tag: str, chip: Callable[[Sequence[str]], str]) -> Wanted:
    """Return what to pull.

    Args:
        lock: images.lock.
        image: name of the image.
        platform: of this host.
        tag: TAG, with or without a digest; empty for the newest release.
        chip: is given the published chips and returns the host's; asked only when it matters.

    Raises:
        Problem: no release is recorded, none fits, TAG is no tag, or its digest is not the recorded one.
    """
    if tag:
        return _named(lock, image, platform, tag)
    real = [release for release in lock.releases if release.image == image and not release.simulated]
    if not real:
        have = "only simulated releases are" if lock.releases else "no release is"
        raise Problem(f"{have} recorded in images.lock", _other(lock, image) or GIVE, usage=True)
    chips = sorted({release.chip for release in real})
    wanted = chip(chips)
    fitting = [release for release in real if release.chip == wanted]
    if not fitting:
        raise Problem(f"no release is for chip {wanted}, they are for {', '.join(chips)}", "make image", usage=True)
    newest = max(fitting, key=lambda release: (platform in release.platforms, release.created, len(release.tag)))
    return _for_platform(newest, platform)


def _named(lock: Lock, image: str, platform: str, text: str) -> Wanted:
    tag, at, digest = text.partition("@")
    if not re.fullmatch(TAG, tag) or (at and not re.fullmatch(DIGEST, digest)):
        raise Problem(f"TAG={text} is not a tag", "TAG=tag, or TAG=tag@sha256:<64 hex digits>", usage=True)
    release = lock.find(image, tag)
    if release is None:
        if digest:
            return Wanted(image, tag, digest)
        raise Problem(f"images.lock has no digest for tag {tag}", _other(lock, image) or GIVE, usage=True)
    if digest and digest not in (release.digest, release.platforms.get(platform)):
        raise Problem(f"TAG={tag}: images.lock says {release.digest}, not {digest}", "find out which is right")
    return _for_platform(release, platform)


def _for_platform(release: Release, platform: str) -> Wanted:
    if platform not in release.platforms:
        have = ", ".join(sorted(release.platforms))
        raise Problem(f"release {release.tag} is not there for {platform}, only for {have}", "make image builds it")
    return Wanted(release.image, release.tag, release.digest, release.platforms[platform])


def _other(lock: Lock, image: str) -> str:
    tags = [release.tag for release in lock.releases if release.image == image]
    return f"TAG={'|'.join(tags[:4])}" if tags else ""
