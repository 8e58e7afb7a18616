"""The client against a small server of the test: tokens, retries, resumed transfers, referrers with and without an API.

docker-registry itself (basic auth, TLS, the fall-back tag) is in tests/e2e.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from imagekit.registry import (
    Altered,
    Descriptor,
    NotFound,
    Reference,
    RegistryClient,
    Unauthorised,
    Unreachable,
    digest_of,
)
from imagekit.registry.client import INDEX, MANIFEST

RAW = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": {}, "layers": []}).encode()
BLOB = b"0123456789" * 1000


class Server(ThreadingHTTPServer):
    """A registry that asks for a token per right, is busy at first when told to, and has the referrers API."""

    def __init__(self) -> None:
        """Listen; loopback, plain http."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.busy, self.seen, self.cut = 0, list[str](), 0
        self.manifest, self.blob = RAW, BLOB
        self.scopes = {"repository:a/b:pull"}
        self.realm = ""

    @property
    def host(self) -> str:
        """For references."""
        return f"127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers."""

    server: Server

    def do_GET(self) -> None:
        """Tokens at /token, everything else only with one."""
        self.server.seen.append(f"{self.path} {self.headers.get('Authorization', '-')}")
        if self.path.startswith("/token"):
            good = [scope for scope in self.server.scopes if scope.replace(":", "%3A").replace("/", "%2F") in self.path]
            return self.answer(200 if good else 401, json.dumps({"token": f"T-{good[0]}" if good else ""}).encode())
        if not self.headers.get("Authorization", "").startswith("Bearer T-"):
            realm = self.server.realm or f"http://{self.server.host}/token"
            challenge = f'Bearer realm="{realm}",service="s",scope="repository:a/b:pull"'
            return self.answer(401, b"", {"WWW-Authenticate": challenge})
        return self.give()

    def give(self) -> None:
        """To somebody who may."""
        if self.server.busy:
            self.server.busy -= 1
            return self.answer(503)
        if "/referrers/" in self.path:
            entry = {"mediaType": MANIFEST, "digest": digest_of(b"x"), "size": 1, "artifactType": "t/a"}
            return self.answer(200, json.dumps({"manifests": [entry]}).encode(), {"Content-Type": INDEX})
        if "/blobs/" in self.path:
            return self.give_blob()
        code = 404 if self.path.endswith("/manifests/gone") else 200
        return self.answer(code, self.server.manifest, {"Content-Type": MANIFEST})

    def give_blob(self) -> None:
        """The whole or a range; cut off after `cut` bytes when told to."""
        start = int((self.headers.get("Range") or "bytes=0-")[6:].rstrip("-"))
        data = self.server.blob[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: self.server.cut or None])

    def answer(self, code: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """Send it."""
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    threading.Thread(target=lambda: started.serve_forever(poll_interval=0.01), daemon=True).start()
    yield started
    started.shutdown()
    started.server_close()


@pytest.fixture
def client(server: Server, tmp_path: Path) -> RegistryClient:
    return RegistryClient(server.host, environ={"DOCKER_CONFIG": str(tmp_path)}, sleep=lambda _: None)


def image(server: Server, **how: str) -> Reference:
    return Reference(server.host, "a/b", **how)


def blob(data: bytes = BLOB) -> Descriptor:
    return Descriptor("x/y", digest_of(data), len(data))


def test_one_token_serves_many_requests(server: Server, client: RegistryClient) -> None:
    for _ in range(3):
        assert client.manifest(image(server, tag="t")).raw == RAW
    assert len([line for line in server.seen if line.startswith("/token")]) == 1


def test_what_the_token_service_does_not_grant(server: Server, client: RegistryClient) -> None:
    server.scopes = {"nothing"}
    with pytest.raises(Unauthorised, match="no credentials"):
        client.manifest(image(server, tag="t"))


def test_credentials_are_not_sent_to_a_token_service_without_tls(server: Server, client: RegistryClient) -> None:
    server.realm = "http://tokens.example.com/token"
    with pytest.raises(Unauthorised, match="without TLS"):
        client.manifest(image(server, tag="t"))


def test_a_busy_registry_is_asked_again(server: Server, client: RegistryClient) -> None:
    server.busy = 2
    assert client.exists(image(server, tag="t"))


def test_a_registry_that_stays_busy(server: Server, client: RegistryClient) -> None:
    server.busy = 99
    with pytest.raises(Unreachable, match="503"):
        client.manifest(image(server, tag="t"))


def test_a_registry_that_is_not_there(tmp_path: Path) -> None:
    gone = RegistryClient("127.0.0.1:9", environ={"DOCKER_CONFIG": str(tmp_path)}, sleep=lambda _: None)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 does not answer: .*refused"):
        gone.manifest(Reference("127.0.0.1:9", "a/b", "t"))


def test_no_such_tag(server: Server, client: RegistryClient) -> None:
    with pytest.raises(NotFound, match="a/b:gone"):
        client.manifest(image(server, tag="gone"))
    assert not client.exists(image(server, tag="gone"))


def test_a_manifest_that_is_not_its_digest(server: Server, client: RegistryClient) -> None:
    good = client.manifest(image(server, digest=digest_of(RAW)))
    server.manifest = RAW + b" "
    with pytest.raises(Altered, match=good.descriptor.digest):
        client.manifest(good.reference)


def test_a_page_that_is_no_manifest(server: Server, client: RegistryClient) -> None:
    server.manifest = b"<html>"
    with pytest.raises(Altered, match="not JSON"):
        client.manifest(image(server, tag="t"))


def test_blob(server: Server, client: RegistryClient) -> None:
    assert client.blob(image(server), blob()) == BLOB


def test_an_altered_blob_is_not_given_out_whole(server: Server, client: RegistryClient) -> None:
    server.blob = BLOB[:-1] + b"X"
    got = []
    with pytest.raises(Altered, match="promised"):
        got.extend(client.stream(image(server), blob()))
    assert b"".join(got) != server.blob


def test_a_transfer_that_breaks_off_and_goes_on(server: Server, client: RegistryClient) -> None:
    server.cut = 4000
    with pytest.raises((Unreachable, Altered)):
        client.blob(image(server), blob())
    server.cut = 0
    assert b"".join(client.stream(image(server), blob(), start=4000)) == BLOB[4000:]


def test_referrers_by_api(server: Server, client: RegistryClient) -> None:
    place = image(server, digest=digest_of(RAW))
    assert [entry.artifact_type for entry in client.referrers(place)] == ["t/a"]
    assert client.referrers(place, "t/other") == []


def test_a_descriptor_survives_its_document() -> None:
    entry = Descriptor(MANIFEST, digest_of(b""), 0, "t/a", {"k": "v"}, "linux/arm64")
    assert Descriptor.of(entry.document()) == entry
