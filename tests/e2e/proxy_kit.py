"""A company's proxy in small: HTTPS with a password, a CA of its own, and some hosts that it answers for itself.

For machines from which those hosts are not in reach, and to see that a build leaves nothing of such a network behind.
"""

import base64
import contextlib
import http.client
import secrets
import select
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from imagekit.network import find_ca

CONNECT_SECONDS, IDLE_SECONDS, PIECE = 15, 600, 1 << 18
USER = "builder"


@dataclass(frozen=True)
class Asked:
    """A request for a host that the proxy answers for."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What a site says."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Site = Callable[[Asked], Answer]


class _Handler(BaseHTTPRequestHandler):
    """CONNECT, and then what comes through it: to a site of ours, or on to the real host."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: "_Server"
    site: Site | None = None

    def do_CONNECT(self) -> None:
        """Answer for the host, or connect the two ends."""
        host, _, port = self.path.rpartition(":")
        if not self._knows_the_password():
            self.send_response(407)  # git asks again on the same connection
            self.send_header("Proxy-Authenticate", 'Basic realm="proxy"')
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif host in self.server.sites:
            self._connected()
            self.connection = self.request = self.server.tls.wrap_socket(self.connection, server_side=True)
            self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
            self.site, self.close_connection = self.server.sites[host], False
        else:
            self.close_connection = True
            self._pass_on(host, int(port))

    def _ask(self) -> None:
        """A request that came through a CONNECT."""
        if self.site is None:
            self.send_error(405, "HTTPS only")
            return
        parts = urlsplit(self.path)
        asked = Asked(self.command, parts.path, parse_qs(parts.query), self.headers, self._body())
        self.server.asked.append(f"{self.headers.get('Host', '')}{self.path}")
        answer = self.site(asked)
        self.send_response(answer.status)
        for name, value in ({"Content-Length": str(len(answer.body))} | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = _ask

    def _body(self) -> bytes:
        """git sends large ones in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(pieces)

    def _knows_the_password(self) -> bool:
        return secrets.compare_digest(self.headers.get("Proxy-Authorization", ""), self.server.expected)

    def _connected(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    def _pass_on(self, host: str, port: int) -> None:
        self.server.passed.add(host)
        try:
            other = _connect(host, port)
        except OSError as error:
            self.server.silent[host] = str(error)
            self.send_error(502, f"{host}: {error}")
            return
        with other:
            self._connected()
            _relay(self.connection, other)

    def log_message(self, *_: object) -> None:
        """Keep quiet: `asked` and `passed` are the record."""


def _connect(host: str, port: int) -> socket.socket:
    """A name server may refuse some of the fifty questions that uv has at once: ask again."""
    for pause in (0.5, 1, 2):
        with contextlib.suppress(OSError):
            return socket.create_connection((host, port), timeout=CONNECT_SECONDS)
        time.sleep(pause)
    return socket.create_connection((host, port), timeout=CONNECT_SECONDS)


def _relay(left: socket.socket, right: socket.socket) -> None:
    """Carry bytes both ways until one side is done or nothing moves."""
    peers = {left: right, right: left}
    with contextlib.suppress(OSError):
        while ready := select.select(list(peers), [], [], IDLE_SECONDS)[0]:
            for end in ready:
                if not (piece := end.recv(PIECE)):
                    return
                peers[end].sendall(piece)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # uv opens fifty connections at once

    def __init__(self, address: str, expected: str, sites: Mapping[str, Site], tls: ssl.SSLContext) -> None:
        self.expected, self.sites, self.tls = expected, sites, tls
        self.asked: list[str] = []
        self.passed: set[str] = set()
        self.silent: dict[str, str] = {}
        super().__init__((address, 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up early is no error of ours."""


class Proxy:
    """A proxy that runs. `environ` is all that a user behind it would have set.

    Attributes:
        ca: its own CA, PEM.
        password: what its users must say; nothing else in the world is the same.
    """

    def __init__(self, server: _Server, folder: Path, password: str) -> None:
        """`folder` holds ca.crt; a bundle of it and of all that this machine trusts is written beside it."""
        self._server, self.ca, self.password = server, folder / "ca.crt", password
        known = find_ca()
        bundle = folder / "bundle.pem"
        bundle.write_bytes((known.read_bytes() if known else b"") + b"\n" + self.ca.read_bytes())
        address, port = server.server_address[:2]
        self.environ = {
            "HTTPS_PROXY": f"http://{USER}:{password}@{address!s}:{port}",
            "SSL_CERT_FILE": str(bundle),
        }

    @property
    def asked(self) -> list[str]:
        """Host and path of every request that it answered itself."""
        return list(self._server.asked)

    @property
    def passed(self) -> set[str]:
        """Hosts that it was asked to connect to, and did not answer for."""
        return set(self._server.passed)

    @property
    def silent(self) -> dict[str, str]:
        """Those of `passed` that could not be reached, and why."""
        return dict(self._server.silent)


@contextlib.contextmanager
def proxy(folder: Path, address: str, sites: Mapping[str, Site]) -> Iterator[Proxy]:
    """Run one on `address` that answers for the hosts of `sites`; its files go to `folder`."""
    password = secrets.token_urlsafe(18)
    make_certificates(folder, sorted(sites))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")
    expected = "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode()
    with _Server(address, expected, sites, tls) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield Proxy(server, folder, password)
        finally:
            server.shutdown()
            thread.join()


def make_certificates(folder: Path, hosts: list[str]) -> None:
    """ca.crt, and server.crt for all `hosts`; valid for a week."""
    names = ",".join(f"DNS:{host}" for host in hosts)
    (folder / "ext").write_text(
        f"subjectAltName={names}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
        "authorityKeyIdentifier=keyid\n",
        encoding="utf-8",
    )
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    signs = "-addext keyUsage=critical,keyCertSign"
    for command in (
        f"req -x509 -days 7 -subj /CN=stand-in-proxy {signs} -keyout ca.key -out ca.crt {key}",
        f"req -subj /CN=stand-in -keyout server.key -out server.csr {key}",
        "x509 -req -days 7 -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile ext -out server.crt",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, capture_output=True, check=True)


def answers(host: str) -> bool:
    """Whether an HTTPS server can be reached from here, as it is."""
    context = ssl.create_default_context(cafile=str(find_ca() or "") or None)
    connection = http.client.HTTPSConnection(host, timeout=CONNECT_SECONDS / 3, context=context)
    try:
        connection.request("HEAD", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
