"""Each fault of a host fires exactly its rules; a healthy one is silent."""

import json
import socket
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from doctor_machine import DRIVER, GIB, NOW, Break, Machine
from rlinf_npu.doctor.system import FsUsage


def test_healthy_is_silent(host: Machine) -> None:
    assert host.fired() == {}
    report = host.examine()
    assert {"docker-old", "firmware-version", "disk-docker"} <= set(report.checked)
    assert "import" not in report.checked


CASES: dict[str, tuple[Break, dict[str, str]]] = {
    "no docker": (lambda m: m.remove("/usr/local/bin/docker"), {"docker-missing": "error"}),
    "old engine": (lambda m: m.docker(engine="20.10.24"), {"docker-old": "error"}),
    "old buildx": (lambda m: m.docker(buildx="v0.12.1"), {"docker-old": "error"}),
    "old compose": (lambda m: m.docker(compose="1.29.2"), {"docker-old": "error"}),
    "no disk for images": (
        lambda m: m.usage.update({"/var/lib/docker": FsUsage(50 * GIB, 5 * GIB, 0, 0)}),
        {"disk-docker": "warning"},
    ),
    "old firmware": (
        lambda m: m.file("/usr/local/Ascend/firmware/version.info", "Version=6.4.12\n") and None,
        {"firmware-version": "error"},
    ),
    "new firmware": (
        lambda m: m.file("/usr/local/Ascend/firmware/version.info", "Version=8.0.0.1\n") and None,
        {"firmware-version": "error"},
    ),
    "no driver": (lambda m: m.remove(DRIVER), {"driver-missing": "error"}),
    "no nodes": (lambda m: [m.remove(f"/dev/davinci{n}") for n in range(8)] and None, {"no-cards": "error"}),
}


@pytest.mark.parametrize("name", CASES)
def test_fault(host: Machine, name: str) -> None:
    breaks, expected = CASES[name]
    breaks(host)
    assert host.fired() == expected


def test_engine_that_does_not_answer(host: Machine) -> None:
    host.script("/usr/local/bin/docker", 'echo "permission denied while trying to connect" >&2', "exit 1")
    report = host.examine(("docker-unreachable",))
    assert "permission denied" in report.findings[0].evidence


def _sha(character: str) -> str:
    return "sha256:" + character * 64


_LOCK = {
    "schema": 1,
    "releases": [
        {"image": "rlinf-npu", "tag": "1", "digest": _sha("a"), "platforms": {"linux/arm64": _sha("b")}, "chip": "910b"}
    ],
}
_OURS, _MIRROR, _LOCAL = "quay.example/x/rlinf-npu 1", "mirror.example/x/rlinf-npu 1", "rlinf-npu 1"
IMAGES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "no image": ((), {}),
    "the index's digest": ((f"{_OURS} {_sha('a')} {_sha('a')}",), {}),
    "the platform's digest": ((f"{_MIRROR} {_sha('b')} {_sha('e')}",), {}),
    "a name given after a pull by digest": ((f"{_OURS} {_sha('b')} {_sha('e')}", f"{_LOCAL} <none> {_sha('e')}"), {}),
    "another tag": ((f"quay.example/x/rlinf-npu 2 {_sha('c')} {_sha('c')}",), {}),
    "a mirror's other image": ((f"{_MIRROR} {_sha('c')} {_sha('c')}",), {"release-digest": "error"}),
    "one of two is another": (
        (f"{_OURS} {_sha('a')} {_sha('a')}", f"{_MIRROR} {_sha('c')} {_sha('c')}"),
        {"release-digest": "error"},
    ),
    "built here": ((f"{_LOCAL} {_sha('d')} {_sha('d')}",), {"release-digest": "note"}),
    "loaded into the old image store": ((f"{_MIRROR} <none> {_sha('e')}",), {}),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_against_the_lock(host: Machine, name: str) -> None:
    images, expected = IMAGES[name]
    host.docker(images=images)
    assert "release-digest" in host.examine(("release-digest",)).skipped
    host.lock = host.file("/checkout/images.lock", json.dumps(_LOCK))
    assert host.fired() == expected


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"releases": [{"image": "x"}]}', '{"releases": [7]}'])
def test_a_damaged_lock_is_a_warning(host: Machine, text: str) -> None:
    host.lock = host.file("/checkout/images.lock", text)
    assert host.fired() == {"release-digest": "warning"}


class _Server(BaseHTTPRequestHandler):
    clock = NOW

    def do_HEAD(self) -> None:
        self.send_response_only(404)  # any status means that somebody answers
        self.send_header("Date", formatdate(self.clock, usegmt=True))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[str]:
    """A real HTTP server on loopback."""
    with HTTPServer(("127.0.0.1", 0), _Server) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/simple"
        listening.shutdown()
        thread.join()


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_mirrors(host: Machine, server: str) -> None:
    host.mirrors = [server]
    assert host.fired() == {}
    host.mirrors = [server, f"http://127.0.0.1:{_closed_port()}/"]
    assert host.fired() == {"mirror": "warning"}
    host.mirrors = host.mirrors[1:]
    assert host.fired() == {"mirror": "error"}


def test_clock_against_a_mirror(host: Machine, server: str) -> None:
    host.mirrors = [server]
    host.now = NOW + 4000
    assert host.fired() == {"clock": "error"}


def test_proxy(host: Machine, server: str) -> None:
    port = server.rpartition(":")[2].partition("/")[0]
    host.env |= {"https_proxy": f"http://user:pw@127.0.0.1:{port}", "no_proxy": "localhost"}
    assert host.fired() == {}
    host.env["https_proxy"] = f"http://user:pw@127.0.0.1:{_closed_port()}"
    report = host.examine()
    assert [finding.rule for finding in report.findings] == ["proxy-unreachable"]
    assert "pw" not in report.findings[0].evidence
