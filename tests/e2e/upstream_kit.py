"""What RLinf's own installer fetches from outside PyPI, made here where it is not in reach.

RLinf's repository itself cannot be made. Where GitHub does not answer, UPSTREAM_REPOS names a folder of bare clones,
`OWNER/NAME.git`: RLinf/RLinf has to be there, and what else is there is served as it is. The others come from PyPI, in
the releases of our lock. GitHub is "a company's copy" then, which git is sent to by url.*.insteadOf, and PyTorch's
index, Hugging Face and GitHub's downloads are answered by the proxy. What is in reach is used as it is.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import requests

from imagekit.locks import locked_versions
from imagekit.manifest import load_manifest
from imagekit.network import GITHUB, find_ca
from tests.e2e.proxy_kit import Answer, Asked, Proxy, Site, answers, proxy

PYPI = "https://pypi.org/simple"
CODE = "code.company.invalid"  # a name that nobody has (RFC 2606)
RLINF = "RLinf/RLinf"
SCENES = "bridge_v2_real2sim_dataset"  # the asset whose checksum ManiSkill knows
TOKENIZER = "big_vision/paligemma_tokenizer.model"  # where openpi looks below OPENPI_DATA_HOME
# The date too: the same release gives the same commit, which uv and BuildKit know again.
COMMITTED = {"NAME": "stand-in", "EMAIL": "stand-in", "DATE": "2020-01-01T00:00:00Z"}
IDENTITY = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in COMMITTED.items()}
NOT_FOUND = Answer(404, b"not found\n", {"Content-Type": "text/plain"})


@dataclass(frozen=True)
class Outside:
    """The network that a build is given.

    Attributes:
        environ: what a user behind that proxy has set.
        proxy: says what was asked for.
        described: a line for each thing that is not the real one.
    """

    environ: dict[str, str]
    proxy: Proxy
    described: list[str]


@contextlib.contextmanager
def standing_in(folder: Path, address: str) -> Iterator[Outside]:
    """Serve on `address`, which builds can reach, what is not in reach; `folder` holds everything."""
    sites, described, rewrites = dict[str, Site](), list[str](), dict[str, str]()
    if not answers("github.com"):
        repositories = Repositories(folder / "repositories")
        sites |= {"github.com": _github, CODE: repositories.serve, "api.github.com": lambda _: NOT_FOUND}
        rewrites = rewriting(f"https://{CODE}/")
        described += ["github.com's downloads: empty archives", *repositories.described]
    if not answers("huggingface.co"):
        sites["huggingface.co"] = _hugging_face
        described.append("huggingface.co: an empty archive and a tokenizer without words")
    if not answers("download.pytorch.org"):
        sites["download.pytorch.org"] = _pytorch
        described.append("download.pytorch.org: PyPI's wheels of torch and its like, which are for CUDA")
    (folder / "proxy").mkdir()
    with proxy(folder / "proxy", address, sites) as running:
        yield Outside(running.environ | rewrites, running, described)


def rewriting(url: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Let git go to `url` for GitHub's addresses, beside what the user has set."""
    number = int(environ.get("GIT_CONFIG_COUNT") or 0)
    return {
        "GIT_CONFIG_COUNT": str(number + 1),
        f"GIT_CONFIG_KEY_{number}": f"url.{url}.insteadOf",
        f"GIT_CONFIG_VALUE_{number}": GITHUB,
    }


# --- PyPI -------------------------------------------------------------------------------------------------------------


@cache
def locked() -> dict[str, str]:
    """Version by name, of our lock for x86-64: the releases that stand-ins are made from."""
    return locked_versions(load_manifest().get_platform("amd64"))


@cache
def _files(name: str) -> list[dict[str, Any]]:
    """PyPI's files of a package (PEP 691)."""
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    answer = requests.get(f"{PYPI}/{name}/", headers=accept, timeout=60, verify=str(find_ca() or True))
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json()["files"]
    return found


def _unpack(name: str, version: str, folder: Path) -> None:
    """A release's sources, without the folder that they are packed in."""
    ending = f"-{version}.tar.gz"
    (file,) = [file for file in _files(name) if file["filename"].endswith(ending)]
    content = requests.get(file["url"], timeout=600, verify=str(find_ca() or True)).content
    assert hashlib.sha256(content).hexdigest() == file["hashes"]["sha256"]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extractall(folder / "packed", filter="data")
    (top,) = (folder / "packed").iterdir()
    for path in top.iterdir():
        path.rename(folder / path.name)
    top.rmdir()
    top.parent.rmdir()


# --- git --------------------------------------------------------------------------------------------------------------


class Repositories:
    """The repositories of images.toml, served over HTTP by git's own program."""

    def __init__(self, folder: Path) -> None:
        """Make those that are not in UPSTREAM_REPOS; without RLinf's there the test is skipped."""
        self.folder, self.described = folder, list[str]()
        self.given = Path(os.environ.get("UPSTREAM_REPOS", "/nonexistent"))
        if not (self.given / f"{RLINF}.git").is_dir():
            pytest.skip(f"GitHub does not answer, and UPSTREAM_REPOS names no folder with {RLINF}.git in it")
        makers: dict[str, Callable[[Path], str]] = {
            "huggingface/lerobot": self._lerobot,
            "RLinf/openpi": self._openpi,
            "RLinf/LIBERO": self._libero,
            "haosulab/ManiSkill": self._maniskill,
        }
        for name, make in makers.items():
            if not (self.given / f"{name}.git").is_dir():
                made = folder / f"{name}.git"
                made.mkdir(parents=True)
                self.described.append(f"{name}: {make(made)}")

    def serve(self, asked: Asked) -> Answer:
        """git's smart protocol, for `OWNER/NAME` with or without `.git`."""
        match = re.fullmatch(r"/([\w.-]+/[\w.-]+?)(?:\.git)?/(info/refs|git-upload-pack|HEAD)", asked.path)
        path = self._path(match[1]) if match else None
        if match is None or path is None:
            return NOT_FOUND
        environ = os.environ | {
            "GIT_PROJECT_ROOT": str(path),
            "PATH_INFO": f"/{match[2]}",
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": asked.method,
            "QUERY_STRING": "&".join(f"{name}={value[0]}" for name, value in asked.query.items()),
            "CONTENT_TYPE": asked.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(asked.body)),
            "HTTP_CONTENT_ENCODING": asked.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": asked.headers.get("Git-Protocol", ""),
            # single commits may be asked for, as of GitHub; the clones may belong to somebody else
            **_configured({"uploadpack.allowAnySHA1InWant": "true", "safe.directory": "*"}),
        }
        done = subprocess.run(
            ["git", "http-backend"], input=asked.body, env=environ, stdout=subprocess.PIPE, check=True
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        return Answer(int(headers.pop("Status", "200").split()[0]), body, headers)

    def _path(self, name: str) -> Path | None:
        folders = (self.given / f"{name}.git", self.folder / f"{name}.git")
        return next((path.resolve() for path in folders if path.is_dir()), None)

    def _lerobot(self, folder: Path) -> str:
        """PyPI has no release of the commit that openpi names."""
        version = locked()["lerobot"]
        _unpack("lerobot", version, folder)
        self._commit(folder)
        return f"PyPI's {version}, which is newer than the commit that openpi names"

    def _openpi(self, folder: Path) -> str:
        """As which RLinf has published it, under the names that the repository has."""
        version = locked()["rlinf-openpi"]
        _unpack("rlinf-openpi", version, folder)
        edit(folder / "pyproject.toml", 'name = "rlinf-openpi"', 'name = "openpi"')
        edit(folder / "pyproject.toml", "rlinf-transformer-openpi==", "transformers==")
        if (made := self.folder / "huggingface/lerobot.git").is_dir():
            commit = _git(made, "rev-parse", "HEAD")
            edit(folder / "pyproject.toml", r"(?<=huggingface/lerobot\", rev = \")\w+", commit)
        self._commit(folder)
        return f"PyPI's rlinf-openpi {version}"

    def _libero(self, folder: Path) -> str:
        """Without the limit on MuJoCo: install.sh replaces that by a newer one."""
        version = locked()["rlinf-libero"]
        _unpack("rlinf-libero", version, folder)
        edit(folder / "pyproject.toml", r"(?<=\"mujoco>=3\.0\.0),<[\d.]+", "")
        self._commit(folder)
        return f"PyPI's rlinf-libero {version}, without its pictures and meshes"

    def _maniskill(self, folder: Path) -> str:
        """At the tag that install.sh asks for; it compares an asset's checksum, which is our stand-in's then."""
        script = _git(self.given / f"{RLINF}.git", "show", f"{load_manifest().rlinf.revision}:requirements/install.sh")
        (version,) = re.findall(r"ManiSkill\.git@v(\S+)", script)
        _unpack("mani-skill", version, folder)
        checksum = hashlib.sha256(archive(SCENES)).hexdigest()
        edit(folder / "mani_skill/utils/assets/data.py", rf'(?s)({SCENES}",\s+checksum=")\w+', rf"\g<1>{checksum}")
        self._commit(folder, f"v{version}")
        return f"PyPI's {version}, with the checksum of our asset"

    def _commit(self, folder: Path, tag: str = "") -> None:
        """The work tree stays: git serves what is in .git."""
        _git(folder, "init", "--quiet", "--initial-branch=main")
        _git(folder, "add", "--all", "--force")
        _git(folder, "commit", "--quiet", "--message=stand-in")
        if tag:
            _git(folder, "tag", tag)


def edit(path: Path, pattern: str, replacement: str) -> None:
    """Change a file in one place, which must be there."""
    text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
    assert count == 1, f"{pattern} is {count} times in {path.name}"
    path.write_text(text, encoding="utf-8")


def _git(folder: Path, *arguments: str) -> str:
    environ = os.environ | IDENTITY | _configured({"core.compression": "0", "safe.directory": "*"})
    done = subprocess.run(["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _configured(values: dict[str, str]) -> dict[str, str]:
    """git settings, in place of the user's."""
    found = {"GIT_CONFIG_COUNT": str(len(values)), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    for number, (key, value) in enumerate(values.items()):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


# --- the other sites --------------------------------------------------------------------------------------------------


def archive(name: str) -> bytes:
    """A zip with one folder in it; the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr(zipfile.ZipInfo(f"{name}/stand-in.txt", (2020, 1, 1, 0, 0, 0)), "not the real one\n")
    return buffer.getvalue()


def _github(asked: Asked) -> Answer:
    """Releases and archives; repositories are elsewhere."""
    if asked.path.endswith(".zip"):
        return Answer(200, archive(asked.path.split("/")[2]), {"Content-Type": "application/zip"})
    return Answer(200, b"releases\n") if asked.path.endswith("/releases") else NOT_FOUND


def _hugging_face(asked: Asked) -> Answer:
    """The tokenizer as a repository with one file, by the hub's own protocol, and ManiSkill's asset."""
    commit, content = "0" * 40, b"no words\n"
    if asked.path.endswith(f"/{SCENES}.zip"):
        return Answer(200, archive(SCENES), {"Content-Type": "application/zip"})
    if asked.path.startswith("/api/models/RLinf/openpi_tokenizer"):
        about = {"id": "RLinf/openpi_tokenizer", "sha": commit, "siblings": [{"rfilename": TOKENIZER}]}
        return Answer(200, json.dumps(about).encode(), {"Content-Type": "application/json"})
    if asked.path == f"/RLinf/openpi_tokenizer/resolve/{commit}/{TOKENIZER}":
        etag = hashlib.sha256(content).hexdigest()
        return Answer(200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": commit})
    return Answer(200, b"a page\n") if asked.path == "/RLinf/openpi_tokenizer" else NOT_FOUND


def _pytorch(asked: Asked) -> Answer:
    """PEP 503 pages of the CPU index: PyPI's files, of torch those of the release that the image promises.

    The real index has no triton, which PyPI's torch wants.
    """
    versions = load_manifest().versions
    promised = {"torch": versions.torch, "torchvision": versions.torchvision, "torchaudio": versions.torch}
    name = asked.path.removeprefix("/whl/cpu/").strip("/")
    if not (name in promised or name in ("torchcodec", "triton")):
        return NOT_FOUND
    beginning = f"{name}-{promised[name]}-" if name in promised else ""
    files = [file for file in _files(name) if file["filename"].startswith(beginning)]
    links = [f'<a href="{file["url"]}#sha256={file["hashes"]["sha256"]}">{file["filename"]}</a><br>' for file in files]
    page = "<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>"
    return Answer(200, page.encode(), {"Content-Type": "text/html"})
