"""Software bills of material: syft reads the image's layers from the registry, by digest."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imagekit.errors import Problem
from imagekit.process import Pulse, Say, follow
from imagekit.publish.attachments import CYCLONEDX, SPDX
from imagekit.registry import Reference, RegistryClient
from imagekit.registry.credentials import HOST, PASSWORD, USER

SYFT = Path(sys.executable).parent / "syft"
COLOUR, STAMP = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"^\s*\[\d+\]\s+[A-Z]+\s+")


@dataclass(frozen=True)
class Package:
    """One package of an image, by its package URL's type: `pypi`, `deb`, ..."""

    kind: str
    name: str
    version: str


@dataclass(frozen=True)
class Sbom:
    """The same list in both formats."""

    spdx: bytes = field(repr=False)
    cyclonedx: bytes = field(repr=False)

    @property
    def files(self) -> dict[str, bytes]:
        """By media type."""
        return {SPDX: self.spdx, CYCLONEDX: self.cyclonedx}

    @property
    def packages(self) -> list[Package]:
        """Packages, each once, sorted."""
        return packages(json.loads(self.cyclonedx))


def packages(document: Mapping[str, Any]) -> list[Package]:
    """Read the packages of a CycloneDX document; what has no package URL (files, the system itself) is none."""
    found = set()
    for component in document.get("components") or []:
        kind = str(component.get("purl") or "").removeprefix("pkg:").partition("/")[0]
        if kind and component.get("version"):
            found.add(Package(kind, str(component["name"]), str(component["version"])))
    return sorted(found, key=lambda p: (p.kind, p.name, p.version))


def make(client: RegistryClient, image: Reference, say: Say, cache: Path) -> Sbom:
    """Let syft read the image; what it found for the same digest before is used again.

    Raises:
        Problem: syft failed.
    """
    kept = cache / image.digest.replace(":", "-")
    names = ("spdx.json", "cyclonedx.json")
    if not all((kept / name).is_file() for name in names):
        _scan(client, image, kept, say)
    return Sbom(*((kept / name).read_bytes() for name in names))


def _scan(client: RegistryClient, image: Reference, folder: Path, say: Say) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        out = Path(scratch, "out")
        out.mkdir()
        command = [str(SYFT), "scan", f"registry:{image}", "--verbose"]
        command += [f"--output=spdx-json={out}/spdx.json", f"--output=cyclonedx-json={out}/cyclonedx.json"]
        pulse = Pulse(say, "bill of materials")
        done = follow(command, lambda line: pulse(words(line)), env=_environment(client, Path(scratch)))
        if not done.ok:
            raise Problem(f"syft could not read {image}: {done.last_line[:200]}", "see above")
        out.rename(folder)


def words(line: str) -> str:
    """Return a line of syft's log (`[0012]  INFO indexing files`) without its stamp and colours."""
    return STAMP.sub("", COLOUR.sub("", line)).strip()


def _environment(client: RegistryClient, scratch: Path) -> dict[str, str]:
    """syft's settings. Docker's store it reads by itself; a login from the environment goes by variables of its own."""
    env = {
        "SYFT_CHECK_FOR_APP_UPDATE": "false",
        "SYFT_LOG_QUIET": "false",
        "SSL_CERT_FILE": client.transport.trust.bundle,
        "TMPDIR": str(scratch),
        "DOCKER_CONFIG": client.environ.get("DOCKER_CONFIG", os.environ.get("DOCKER_CONFIG", "")),
    }
    if all(client.environ.get(name) for name in (USER, PASSWORD, HOST)) and client.transport.credentials:
        env["SYFT_REGISTRY_AUTH_AUTHORITY"] = client.host
        env["SYFT_REGISTRY_AUTH_USERNAME"] = client.transport.credentials.user
        env["SYFT_REGISTRY_AUTH_PASSWORD"] = client.transport.credentials.password
    return {name: value for name, value in env.items() if value}
