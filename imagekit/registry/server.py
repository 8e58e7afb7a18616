"""A registry on loopback, with TLS and a password, that lives as long as its `with` block: Debian's docker-registry.

For `make ci-local` and the tests. The same program, storage and protocol that people run in earnest.
"""

import contextlib
import ctypes
import ctypes.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from imagekit.apt import debian_program
from imagekit.errors import Problem
from imagekit.network import find_ca
from imagekit.process import Say
from imagekit.registry.trust import CERTS_D

PROGRAM = "docker-registry"
HOST = "127.0.0.1"
START_SECONDS = 20.0
CONFIG = """\
version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: "{folder}/data"}}
  delete: {{enabled: true}}
http:
  addr: "{host}"
  tls: {{certificate: "{folder}/tls/server.crt", key: "{folder}/tls/server.key"}}
auth:
  htpasswd: {{realm: loopback, path: "{folder}/htpasswd"}}
"""


class LoopbackRegistry:
    """One registry. `environ` is what a client needs to use it: DOCKER_CONFIG with the login.

    Attributes:
        host: `127.0.0.1:PORT`.
        folder: everything it has, its data included (`folder/data`).
        user, password: the login.
        environ: our environment with the login.
    """

    def __init__(self, folder: Path, say: Say = lambda _: None) -> None:
        """Lay out certificate, login and configuration below `folder`; nothing is started."""
        self.folder, self._program = folder, debian_program(PROGRAM, say)
        self.host = f"{HOST}:{_free_port()}"
        self.user, self.password = "robot", secrets.token_urlsafe(18)
        self._process: subprocess.Popen[bytes] | None = None
        _make_certificate(folder / "tls")
        self.ca = folder / "tls" / "ca.crt"
        (folder / "htpasswd").write_text(f"{self.user}:{_bcrypt(self.password)}\n", encoding="utf-8")
        (folder / "config.yml").write_text(CONFIG.format(folder=folder, host=self.host), encoding="utf-8")
        self.environ = dict(os.environ) | {"DOCKER_CONFIG": str(self._log_in(folder / "docker"))}

    def start(self) -> None:
        """Start it, on the data that is there; returns when it answers.

        Raises:
            Problem: it does not.
        """
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "serve", str(self.folder / "config.yml")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not _answers(self.host):
            if self._process.poll() is not None or time.monotonic() > deadline:
                last = (self.folder / "log").read_text(encoding="utf-8", errors="replace").strip()[-300:]
                raise Problem(f"the registry on {self.host} did not start: {last}", "see its log")
            time.sleep(0.05)

    def stop(self, kill: bool = False) -> None:
        """End it; with `kill` in the middle of whatever it does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            self._process.wait()
            self._process = None

    @contextlib.contextmanager
    def trusted(self, root: Path = Path("/")) -> Iterator[None]:
        """Let the engine of this machine, and our client, trust its certificate: docker's folder for this one host.

        Who may not write there gets a CA bundle in `environ`; engines take a registry on loopback without looking.
        """
        folder = root / CERTS_D / self.host
        try:
            folder.mkdir(parents=True)
            shutil.copy(self.ca, folder / "ca.crt")
        except PermissionError:
            bundle = self.folder / "bundle.pem"
            known = find_ca()
            bundle.write_bytes((known.read_bytes() if known else b"") + b"\n" + self.ca.read_bytes())
            self.environ["SSL_CERT_FILE"] = str(bundle)
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def blob(self, digest: str) -> Path:
        """Where a blob is on the disk."""
        value = digest.removeprefix("sha256:")
        return self.folder / "data/docker/registry/v2/blobs/sha256" / value[:2] / value / "data"

    def _log_in(self, folder: Path) -> Path:
        """Write what `docker login` would; the rest of the user's configuration (plugins, contexts) stays in use."""
        folder.mkdir(mode=0o700)
        mine = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
        for name in ("cli-plugins", "contexts", "buildx"):
            if (mine / name).exists():
                (folder / name).symlink_to(mine / name)
        login = b64encode(f"{self.user}:{self.password}".encode()).decode()
        path = folder / "config.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps({"auths": {self.host: {"auth": login}}}), encoding="utf-8")
        return folder


@contextlib.contextmanager
def loopback_registry(say: Say = lambda _: None) -> Iterator[LoopbackRegistry]:
    """Start a registry that this machine's engine trusts; stop it and remove all it had afterwards.

    Raises:
        Problem: docker-registry is not to be had.
    """
    with tempfile.TemporaryDirectory(prefix="registry-") as folder:
        registry = LoopbackRegistry(Path(folder), say)
        with registry.trusted():
            try:
                registry.start()
                yield registry
            finally:
                registry.stop()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


def _answers(host: str) -> bool:
    name, _, port = host.partition(":")
    with contextlib.suppress(OSError), socket.create_connection((name, int(port)), timeout=1):
        return True
    return False


def _make_certificate(folder: Path) -> None:
    """A CA of its own and a server certificate, valid for a week."""
    folder.mkdir()
    extensions = f"subjectAltName=IP:{HOST},DNS:localhost\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
    (folder / "ext").write_text(extensions, encoding="utf-8")
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    for command in (
        f"req -x509 -days 7 -subj /CN=loopback-ca -keyout ca.key -out ca.crt {key}",
        f"req -subj /CN=loopback -keyout server.key -out server.csr {key}",
        "x509 -req -days 7 -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile ext -out server.crt",
    ):
        done = subprocess.run(["openssl", *command.split()], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Problem(f"openssl made no certificate: {done.stderr.strip()[-200:]}", "apt-get install openssl")


def _bcrypt(password: str) -> str:
    """The only kind of hash that docker-registry takes. By the system's libcrypt; Python has no crypt from 3.13 on."""
    library = ctypes.CDLL(ctypes.util.find_library("crypt") or "libcrypt.so.1")
    library.crypt.restype = library.crypt_gensalt.restype = ctypes.c_char_p
    library.crypt_gensalt.argtypes = [ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_int]
    salt = library.crypt_gensalt(b"$2b$", 5, None, 0)
    hashed = library.crypt(password.encode(), salt)
    if not hashed or not hashed.startswith(b"$2b$"):
        raise Problem("this system's libcrypt has no bcrypt", "install libxcrypt")
    return str(hashed.decode())
