"""What the host-side unit tests share: the real manifest, and programs that only pretend."""

import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostkit import AddProgram, Answer, Said, Serve

from imagekit.manifest import Manifest, load_manifest


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture(scope="session")
def manifest() -> Manifest:
    return load_manifest()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Little HTTP servers on loopback that end with the test."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(answer: Answer) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = answer(self.path)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddProgram:
    """PATH with nothing but the programs that a test adds (shell scripts); coreutils stay in reach by `$BIN`.

    The real docker, apt and dockerd of this machine are out of reach.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in list(os.environ):
        if name.startswith(("DOCKER_", "BUILDX_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("imagekit.engine.daemon.SBIN", str(folder))

    def add(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\nBIN=/usr/bin:/bin\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return add
