"""`host/repository:tag@sha256:...`, taken apart as Docker does (distribution/reference)."""

import ipaddress
import re
from dataclasses import dataclass, replace

from imagekit.errors import Problem

DOCKER_HUB, HUB_HOST, HUB_NAMESPACE = "docker.io", "registry-1.docker.io", "library"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::\d{1,5})?")


@dataclass(frozen=True)
class Reference:
    """One image, or a repository when neither `tag` nor `digest` is given.

    Attributes:
        host: with the port where there is one.
        repository: `namespace/name`.
        tag: empty for none.
        digest: `sha256:<64 hex>`, empty for none. It goes before the tag.
    """

    host: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """As docker takes it."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def name(self) -> str:
        """Last part of the repository, which is the image's name."""
        return self.repository.rpartition("/")[2]

    @property
    def target(self) -> str:
        """What the manifest is asked for by: the digest, else the tag, else `latest`."""
        return self.digest or self.tag or "latest"

    def at(self, digest: str) -> "Reference":
        """The same repository, by digest alone."""
        return replace(self, tag="", digest=digest)

    def tagged(self, tag: str) -> "Reference":
        """The same repository, by tag alone.

        Raises:
            Problem: not a tag.
        """
        if not TAG.fullmatch(tag):
            raise Problem(f"{tag!r} is not a tag", "letters, digits, dot, dash and underscore; 128 at most", usage=True)
        return replace(self, tag=tag, digest="")


def parse(text: str) -> Reference:
    """Take a reference apart.

    Raises:
        Problem: it is none.
    """
    rest, at, digest = text.partition("@")
    first, slash, path = rest.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        host = first
    else:
        host, path = DOCKER_HUB, rest if slash else f"{HUB_NAMESPACE}/{rest}"
    path, colon, tag = path.partition(":")
    good = _HOST.fullmatch(host) and _REPOSITORY.fullmatch(path)
    if not good or (at and not DIGEST.fullmatch(digest)) or (colon and not TAG.fullmatch(tag)):
        raise Problem(f"{text!r} is not an image reference", "HOST/REPOSITORY[:TAG][@sha256:DIGEST]", usage=True)
    return Reference(host, path, tag, digest)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, and plain http therefore leaves it not."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) and not host.endswith("]") else host
    name = name.strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
