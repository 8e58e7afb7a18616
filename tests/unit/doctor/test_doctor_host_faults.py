"""Each fault of a host fires exactly its rules; a healthy one is silent."""

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
