"""How this machine reaches the outside: CA bundle, proxy, package index, mirrors.

Builds get it as BuildKit secrets, never as a layer or an argument: `ca` and `net` (read by images/common/with-net), and
`gitconfig` (for RLinf's own installer). An index URL or a proxy may hold a password, so nothing here is ever printed.
"""

import contextlib
import os
import re
import shlex
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from imagekit.errors import Problem
from imagekit.process import run

if TYPE_CHECKING:  # imagekit/pip_settings.py reads this module before pydantic is installed
    from imagekit.manifest import Mirror

CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
# Where distributions keep the bundle: Debian, Fedora/openEuler/Kylin, SUSE, Alpine.
CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
GITHUB = "https://github.com/"


@dataclass(frozen=True)
class NetworkSettings:
    """What this machine uses to reach the network. The texts are secrets: `repr` shows none of them.

    Attributes:
        ca: PEM bundle that is trusted here, None when none was found.
        http_proxy, https_proxy, no_proxy: as in the environment, empty when unset.
        index: package index that replaces PyPI (a mirror's, else the one this user configured), empty for PyPI;
            without a slash at its end, because the names of packages are put behind it.
        apt: mirror's root URL that replaces the hosts of Debian's and Ubuntu's archives, empty for the originals.
        git_prefix: text put before https://github.com/ URLs, empty for none.
        repositories: the mirror's repositories of the vendor image, tried first.
        torch_pages: the mirror's pages of PyTorch's CPU wheels.
        install_mirror: argument that makes RLinf's own installer take its mirrors, empty for none.
        find_links: pages that uv may take wheels from beside the index.
        git_rewrites: (URL, what it replaces) of this user's own git configuration, as far as a build can reach it.
    """

    ca: Path | None = None
    http_proxy: str = field(default="", repr=False)
    https_proxy: str = field(default="", repr=False)
    no_proxy: str = field(default="", repr=False)
    index: str = field(default="", repr=False)
    apt: str = ""
    git_prefix: str = ""
    repositories: tuple[str, ...] = ()
    torch_pages: tuple[str, ...] = ()
    install_mirror: str = ""
    find_links: tuple[str, ...] = ()
    git_rewrites: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def from_host(
        cls, mirror: "Mirror | None" = None, *, environ: Mapping[str, str] = os.environ, root: Path = Path("/")
    ) -> "NetworkSettings":
        """Read the settings of this machine; a mirror, which is asked for explicitly, goes before them.

        Raises:
            Problem: a variable names a CA bundle that is not there.
        """
        return cls(
            ca=find_ca(environ, root),
            http_proxy=_either(environ, "http_proxy"),
            https_proxy=_either(environ, "https_proxy"),
            no_proxy=_either(environ, "no_proxy"),
            index=(mirror.pypi if mirror else _find_index(environ)).rstrip("/"),
            apt=mirror.apt if mirror else "",
            git_prefix=mirror.git_prefix if mirror else "",
            repositories=tuple(mirror.repositories) if mirror else (),
            torch_pages=tuple(mirror.pytorch) if mirror else (),
            git_rewrites=_find_rewrites(environ),
        )

    def warnings(self) -> list[str]:
        """Return what will work on this machine but not inside a build, in words that hold no secret."""
        hosts = {urllib.parse.urlsplit(proxy).hostname for proxy in (self.http_proxy, self.https_proxy) if proxy}
        if hosts & {"localhost", "127.0.0.1", "::1"}:
            return ["The proxy is on this machine's loopback, which builds cannot reach; let it listen on docker0 too."]
        return []

    def env(self) -> dict[str, str]:
        """Return the variables for git, uv, debootstrap and apt run on this machine, on top of our environment."""
        result: dict[str, str] = {}
        for name, value in self._proxies().items():
            result[name] = result[name.lower()] = value
        if self.ca:
            names = (*CA_VARIABLES, "GIT_SSL_CAINFO", "CURL_CA_BUNDLE")
            result.update(dict.fromkeys(names, str(self.ca)))
        if self.index:
            result["UV_DEFAULT_INDEX"] = result["PIP_INDEX_URL"] = self.index
        if self.git_prefix:
            result.update(_git_rewrite(self.git_prefix, os.environ))
        return result

    @contextlib.contextmanager
    def secrets(self) -> Iterator[dict[str, Path]]:
        """`write_secrets` into a folder of its own that only this user can enter."""
        with tempfile.TemporaryDirectory(prefix="rlinf-npu-") as folder, self.write_secrets(Path(folder)) as paths:
            yield paths

    @contextlib.contextmanager
    def write_secrets(self, folder: Path) -> Iterator[dict[str, Path]]:
        """Write the build secrets into `folder` and remove them afterwards.

        Yields:
            Path by secret id: `ca` (PEM, empty when there is none), `net` (KEY=VALUE lines for a shell), `gitconfig`.
        """
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "ca": self.ca.read_bytes() if self.ca else b"",
            "net": self._net().encode(),
            "gitconfig": self._gitconfig().encode(),
        }
        paths = {name: folder / name for name in content}
        try:
            for name, path in paths.items():
                _write_private(path, content[name])
            yield paths
        finally:
            for path in paths.values():
                path.unlink(missing_ok=True)

    def _proxies(self) -> dict[str, str]:
        found = {"HTTP_PROXY": self.http_proxy, "HTTPS_PROXY": self.https_proxy, "NO_PROXY": self.no_proxy}
        return {name: value for name, value in found.items() if value}

    def _net(self) -> str:
        values = {
            **self._proxies(),
            "APT_MIRROR": self.apt,
            "UV_DEFAULT_INDEX": self.index,
            "PIP_INDEX_URL": self.index,
            "UV_FIND_LINKS": ",".join(self.find_links),
            "INSTALL_MIRROR": self.install_mirror,
        }
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items() if value)

    def _gitconfig(self) -> str:
        """Without the mirror's prefix: RLinf's installer, the only reader, sets that itself."""
        quoted = [(_quote(url), _quote(replaced)) for url, replaced in self.git_rewrites]
        return "".join(f"[url {url}]\n\tinsteadOf = {replaced}\n" for url, replaced in quoted)


def find_ca(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Path | None:
    """Return the CA bundle that a variable names, else the system's, None when there is none.

    Raises:
        Problem: a variable names a file that is not there.
    """
    for name in CA_VARIABLES:
        if value := environ.get(name):
            if not Path(value).is_file():
                raise Problem(f"{name} names {value}, which is not there", f"correct or unset {name}")
            return Path(value)
    candidates = (root / bundle.lstrip("/") for bundle in CA_BUNDLES)
    return next((path for path in candidates if path.is_file()), None)


def _either(environ: Mapping[str, str], name: str) -> str:
    """Lower case first, as curl and Python do."""
    return environ.get(name) or environ.get(name.upper()) or ""


def _find_index(environ: Mapping[str, str]) -> str:
    """The index this user configured for uv or pip. One on a local path means nothing inside a build."""
    found = (
        environ.get("UV_DEFAULT_INDEX")
        or environ.get("UV_INDEX_URL")
        or environ.get("PIP_INDEX_URL")
        or _index_in_files(environ)
    )
    found = re.sub(r"^[\w-]+=(?=https?://)", "", found.strip())  # uv allows name=URL
    return found if found.startswith(("http://", "https://")) else ""


def _index_in_files(environ: Mapping[str, str]) -> str:
    for pip in ("pip3", "pip"):
        shown = run((pip, "config", "get", "global.index-url"), seconds=10, env=dict(environ))
        if shown.ok:
            return shown.out.strip()
    return ""


def _git_rewrite(prefix: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Let git itself put `prefix` before GitHub's URLs; a longer insteadOf of the user's own still wins."""
    count = int(environ.get("GIT_CONFIG_COUNT") or 0)
    return {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"url.{prefix}{GITHUB}.insteadOf",
        f"GIT_CONFIG_VALUE_{count}": GITHUB,
    }


def _find_rewrites(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The user's `url.<URL>.insteadOf` that a build can use: no local path, no server that asks for an ssh key."""
    shown = run(("git", "config", "--null", "--get-regexp", r"^url\..*\.insteadof$"), seconds=10, env=dict(environ))
    pairs = [entry.partition("\n")[::2] for entry in shown.out.split("\0") if entry] if shown.ok else []
    found = [(key.removeprefix("url.").rpartition(".")[0], replaced) for key, replaced in pairs]
    return tuple((url, replaced) for url, replaced in found if url.startswith(("http://", "https://", "git://")))


def _quote(text: str) -> str:
    """As git's configuration files want it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)  # a left-over may have another owner or mode
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
