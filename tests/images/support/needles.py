"""What must not be in an image: this machine's CA, proxy and package index, mirrors, keys."""

import base64
import itertools
import os
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import certifi

from imagekit.network import NetworkSettings
from tests.images.support.layers import Entry
from tests.images.support.subjects import manifest

PUBLIC_FOLDER = Path("/usr/share/ca-certificates")  # of the ca-certificates package
PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s+(.+?)\s+-----END CERTIFICATE-----", re.S)


TEXT_BYTES = 4 << 20  # larger than any configuration


@dataclass(frozen=True)
class Needle:
    """Bytes to look for. `what` names them without showing them: a report must not leak what it is about.

    Attributes:
        text: matters in text only (a configuration), so that it is not looked for in gigabytes of libraries.
    """

    what: str
    data: bytes
    text: bool = False


@dataclass(frozen=True)
class Hit:
    """A needle in a file of a layer, or in a configuration (`path` ends in a blob's name then)."""

    what: str
    path: str
    layer: str


def certificates(text: str) -> set[bytes]:
    """DER bytes of every certificate in a PEM text."""
    return {ssl.PEM_cert_to_DER_cert(match.group(0)) for match in PEM.finditer(text)}


def private_certificates() -> set[bytes]:
    """Certificates trusted here that the public bundles do not hold: a company's, an intercepting proxy's."""
    bundle = NetworkSettings.from_host().ca
    trusted = certificates(bundle.read_text(encoding="utf-8", errors="replace")) if bundle else set()
    public = certificates(Path(certifi.where()).read_text(encoding="utf-8"))
    for file in PUBLIC_FOLDER.rglob("*.crt"):
        public |= certificates(file.read_text(encoding="utf-8", errors="replace"))
    return trusted - public


def of_certificate(der: bytes) -> list[Needle]:
    """A certificate as PEM (a whole line from its middle) and as DER (its end, which is its signature)."""
    text = base64.b64encode(der)
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return [Needle("a private CA (PEM)", lines[len(lines) // 2]), Needle("a private CA (DER)", der[-64:])]


def of_host() -> list[Needle]:
    """What this machine uses to reach the network."""
    network = NetworkSettings.from_host()
    needles = [needle for der in private_certificates() for needle in of_certificate(der)]
    for url in filter(None, (network.http_proxy, network.https_proxy, network.index)):
        parts = urlsplit(url)
        needles += [Needle("a proxy's or an index's password", parts.password.encode())] if parts.password else []
        if parts.hostname and parts.hostname not in ("pypi.org", "localhost", "127.0.0.1"):
            needles.append(Needle("a proxy's or an index's host", parts.hostname.encode()))
    for url, _ in network.git_rewrites:
        parts = urlsplit(url)
        needles += [Needle("a password for git", parts.password.encode())] if parts.password else []
        needles += [Needle("a host that git is sent to", parts.hostname.encode())] if parts.hostname else []
    for name, value in os.environ.items():
        if re.search(r"(TOKEN|SECRET|PASSWORD|API_KEY)$", name) and len(value) >= 12:
            needles.append(Needle(f"the value of {name}", value.encode()))
    return needles


def of_mirrors() -> list[Needle]:
    """Every host that MIRROR can switch to."""
    hosts = set()
    for mirror in manifest().mirrors.values():
        hosts |= {urlsplit(url).hostname for url in (mirror.apt, mirror.pypi, mirror.git_prefix)}
    return [Needle(f"mirror {host}", host.encode(), text=True) for host in sorted(filter(None, hosts))]


def find(entry: Entry, needles: list[Needle]) -> Iterator[Hit]:
    """Every needle that is in the file, or in its name."""
    left = {needle.data: needle.what for needle in needles if not needle.text or entry.size <= TEXT_BYTES}
    overlap = max(map(len, left), default=0)
    for piece in itertools.chain([entry.path.encode()], entry.pieces(overlap) if left else ()):
        for data in [data for data in left if data in piece]:
            yield Hit(left.pop(data), entry.path, entry.layer)
