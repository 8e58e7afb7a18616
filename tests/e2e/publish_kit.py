"""Publishing tiny images: a manifest with a suite of seconds, a stand-in for the vulnerability database."""

import io
import json
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from imagekit.manifest import Manifest, Suite, Waiver, load_manifest
from imagekit.publish import promote as promotion
from imagekit.publish import push as pushing
from imagekit.publish.evidence import FILE, Evidence
from imagekit.publish.gate import Gate
from imagekit.publish.identity import identify
from imagekit.registry import File, Reference, RegistryClient, canonical, parse
from imagekit.registry.server import LoopbackRegistry
from tests.e2e.registry_kit import TinyImages

HERE = "tests/e2e/tiny_suite"
NAMESPACE = "e2e"
# A Python package that syft finds, in two versions as with vendored copies: something to ask the database about.
PACKAGE = (
    "for v in 1.0 1.1; do d=/usr/lib/python3/dist-packages/v$v/leftpad-$v.dist-info; mkdir -p $d; touch $d/RECORD; "
    "printf 'Metadata-Version: 2.1\\nName: leftpad\\nVersion: %s\\n' $v >$d/METADATA; done"
)


class Database:
    """OSV's query API on loopback. `known` holds what it knows, by package and version."""

    def __init__(self) -> None:
        """Start it."""
        self.known: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []
        database = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name, version = query["package"]["name"], query["version"]
                database.asked.append(f"{name} {version}")
                body = json.dumps({"vulns": database.known.get(f"{name} {version}", [])}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/query"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def add(self, package: str, identifier: str) -> None:
        """Make a vulnerability of a package (`name version`) known."""
        name, _, version = package.partition(" ")
        affected = {"package": {"name": name, "ecosystem": "PyPI"}, "versions": [version]}
        entry = {"id": identifier, "summary": "made up", "details": "made up", "modified": "2026-01-01T00:00:00Z"}
        self.known.setdefault(package, []).append(entry | {"affected": [affected]})

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


class Publisher:
    """What a maintainer does, with tiny images on a registry of this machine."""

    def __init__(self, registry: LoopbackRegistry, tiny: TinyImages, database: Database, folder: Path) -> None:
        """Keep caches and reports in `folder`."""
        self.registry, self.tiny, self.database, self.folder = registry, tiny, database, folder
        self.environ = dict(registry.environ) | {"REGISTRY": f"{registry.host}/{NAMESPACE}", "OSV_URL": database.url}
        self.output = io.StringIO()
        self.console = Console(file=self.output, width=200)
        self.manifest = tiny_manifest()
        self.client = RegistryClient(registry.host, environ=self.environ)

    def build(self, *, run: str = "true", simulated: bool = True, **labels: str) -> str:
        """Build an image with a package that the database can be asked about."""
        prefix = self.manifest.project.label_prefix
        base = {} if simulated else {f"{prefix}.base": "cann", f"{prefix}.simulated": "false"}
        return self.tiny.build(
            run=f"{PACKAGE} && {run}", labels=base | {k.replace("__", "."): v for k, v in labels.items()}
        )

    def push(self, local: str) -> Reference:
        """Push a candidate; return it by digest."""
        pushed = pushing.push(self.manifest, self.tiny.engine, local, self.console, self.environ)
        return parse(pushed.reference)

    def gate(self, image: Reference, suite: str = "") -> tuple[Evidence, list[str]]:
        """Gate it."""
        say = lambda text: self.console.print(text, markup=False)  # noqa: E731
        gate = Gate(
            self.manifest,
            self.tiny.engine,
            self.console,
            say,
            self.environ,
            cache=self.folder / "cache",
            reports=self.folder / "reports",
        )
        return gate.run(str(image), suite)

    def promote(self, image: Reference) -> dict[str, str]:
        """Promote it; return digest by release tag."""
        _, tags = promotion.promote(self.manifest, str(image), self.environ)
        return {tag.tag: tag.digest for tag in tags}

    def release_tags(self, image: Reference) -> list[str]:
        """Every tag of the repository that is neither a candidate nor a list of attachments."""
        return [t for t in self.client.tags(image) if not t.startswith(("candidate-", "sha256-"))]

    def publish(self, **how: Any) -> Reference:
        """Build, push, gate to green, promote."""
        image = self.push(self.build(**how))
        assert self.gate(image)[1] == []
        self.promote(image)
        return image

    def waive(self, test: str, until: date) -> None:
        """Put a waiver into images.toml."""
        waiver = Waiver(test=test, reason="known, and being worked on", until=until)
        self.change(waiver=[waiver])

    def change(self, **publish: Any) -> None:
        """Change [publish] of images.toml."""
        self.manifest = self.manifest.model_copy(update={"publish": self.manifest.publish.model_copy(update=publish)})


def tiny_manifest() -> Manifest:
    """images.toml with a suite for tiny images."""
    manifest = load_manifest()
    suites = {"tiny": Suite(tests=[f"{HERE}/tiny.py"]), "part": Suite(tests=[f"{HERE}/tiny.py::test_has_its_marker"])}
    tiny = {"suites": suites, "required_suite": "tiny", "always": [f"{HERE}/tiny_always.py"]}
    nothing_known: dict[str, Any] = {"waiver": [], "vulnerability": []}
    return manifest.model_copy(update={"publish": manifest.publish.model_copy(update=tiny | nothing_known)})


@pytest.fixture
def publisher(
    registry: LoopbackRegistry, tiny: TinyImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Publisher]:
    """Everything that a maintainer has. Its suite does not depend on files that somebody may be editing just now."""
    monkeypatch.setattr("imagekit.publish.suites.INPUTS", ())
    database = Database()
    yield Publisher(registry, tiny, database, tmp_path)
    database.stop()


def for_arm64(publisher: Publisher, image: Reference) -> Reference:
    """Push the same layers as an image for arm64, under its own candidate tag; return it by digest."""
    client, manifest = publisher.client, publisher.client.manifest(image)
    config = client.config(manifest) | {"architecture": "arm64"}
    written = client.put_blob(image, json.dumps(config).encode(), manifest.config.media_type)
    raw = json.dumps(manifest.document | {"config": written.document()}).encode()
    return image.at(client.put_manifest(image.tagged("candidate-arm64"), raw, manifest.descriptor.media_type))


def as_if_gated(publisher: Publisher, image: Reference, like: Reference) -> None:
    """Attach to `image` what a gate on a machine of its architecture would, after that of `like`.

    This is the forgery that docs/publish.md says unsigned evidence cannot prevent.
    """
    client, subject = publisher.client, publisher.client.manifest(image)
    content = identify(publisher.manifest, client.config(subject)).content
    for entry in client.referrers(like):
        files = client.files(like, entry)
        if FILE in files:
            changes = {"digest": image.digest, "content": content, "platform": "linux/arm64"}
            files[FILE] = canonical(json.loads(files[FILE]) | changes)
        listed = [File(name, "application/octet-stream", data) for name, data in files.items()]
        client.attach(subject, entry.artifact_type, listed, entry.annotations)
