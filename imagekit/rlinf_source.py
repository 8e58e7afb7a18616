"""Bring RLinf's tree onto this machine: from git, from PyPI or from a folder. A complete folder or none at all."""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import uv

from imagekit.errors import Problem
from imagekit.manifest import Manifest, Mirror
from imagekit.network import NetworkSettings
from imagekit.probe import Probe, Prober, probe_git, probe_index
from imagekit.process import Pulse, Say, follow, run

PYPI = "https://pypi.org/simple"
FIXED_TIME = 1_577_836_800  # 2020-01-01: files without a time of their own must not change a layer's digest
SKIPPED = shutil.ignore_patterns(".git", "__pycache__", "*.pyc", ".*_cache", ".venv", "*.egg-info", ".DS_Store")
# A stalled transfer ends by itself; a slow one goes on.
GIT_PATIENCE = {"GIT_TERMINAL_PROMPT": "0", "GIT_HTTP_LOW_SPEED_LIMIT": "1000", "GIT_HTTP_LOW_SPEED_TIME": "30"}


@dataclass(frozen=True)
class RlinfSource:
    """RLinf's tree.

    Attributes:
        kind: where it came from.
        path: folder that holds `rlinf/` and, but for PyPI, `examples/` and so on.
        version: of its pyproject.toml or wheel.
        revision: git commit; `pypi-<hash>` of the wheel; for a folder `git describe`, with its content's hash when
            that is not a clean checkout. Fit for an image tag.
    """

    kind: Literal["git", "pypi", "dir"]
    path: Path
    version: str
    revision: str


def check_wanted(wanted: str) -> None:
    """Refuse a folder that cannot be RLinf's, before anything is installed or built.

    Raises:
        Problem: neither auto, git, pypi nor a folder with `rlinf/` in it.
    """
    if wanted in ("auto", "git", "pypi"):
        return
    folder = Path(wanted).expanduser()
    if not folder.is_dir():
        raise Problem(f"SOURCE={wanted}: no such folder", "use auto, git, pypi or RLinf's folder", usage=True)
    if not (folder / "rlinf").is_dir():
        raise Problem(f"SOURCE={wanted} holds no rlinf/ folder", "name the top of an RLinf checkout", usage=True)


def source_probes(
    manifest: Manifest, wanted: str, mirror: Mirror | None, network: NetworkSettings, cache: Path, seconds: float
) -> list[Probe]:
    """Return what `resolve_source` would have to ask: git and the index for `auto`, unless the commit is cached."""
    fetch = _Fetch(manifest, network, cache, lambda _: None)
    if wanted != "auto" or fetch.has_git():
        return []
    index = "the mirror's package index" if mirror else "the package index"
    env = network.env()
    return [
        probe_git(manifest.rlinf.git, env),
        probe_index(index, f"{network.index or PYPI}/rlinf/", env, seconds),
    ]


def resolve_source(
    manifest: Manifest,
    wanted: str,
    mirror: Mirror | None,
    network: NetworkSettings,
    cache: Path,
    say: Say,
    prober: Prober,
) -> RlinfSource:
    """Return RLinf's tree as `wanted`.

    Args:
        manifest: says which revision and which wheel.
        wanted: `auto` (git when it answers, else PyPI), `git`, `pypi` or a folder.
        mirror: for messages only; its URLs are in `network`.
        network: proxy, CA, index and git rewriting.
        cache: folder of ours that keeps the bare repository and the trees.
        say: gets what is decided, and signs of life.
        prober: answers what is in reach.

    Raises:
        Problem: not one of these, not in reach, or not RLinf.
    """
    check_wanted(wanted)
    cache.mkdir(parents=True, exist_ok=True)
    fetch = _Fetch(manifest, network, cache, say)
    if wanted == "auto":
        return _choose(fetch, prober, source_probes(manifest, wanted, mirror, network, cache, prober.seconds))
    if wanted == "git":
        return fetch.from_git()
    if wanted == "pypi":
        return fetch.from_pypi()
    return _from_folder(Path(wanted).expanduser().resolve(), manifest, cache)


def _choose(fetch: "_Fetch", prober: Prober, probes: list[Probe]) -> RlinfSource:
    if not probes:
        return fetch.from_git()
    git, pypi = prober.ask(probes)
    fetch.say(git.line)
    fetch.say(pypi.line)
    reason = git.reason
    if git.ok:
        try:
            return fetch.from_git()
        except Problem as problem:
            reason = problem.what
    if not pypi.ok and not fetch.has_pypi():
        raise Problem(
            f"RLinf is in reach neither by git ({reason}) nor by PyPI ({pypi.reason})",
            "check network and proxy, try MIRROR=cn, or SOURCE=<folder> with a checkout of RLinf",
        )
    fetch.say(
        f"RLinf's git repository is not usable ({reason}); taking rlinf {fetch.manifest.versions.rlinf} from PyPI."
    )
    fetch.say("It has no examples/. SOURCE=git insists on the repository.")
    return fetch.from_pypi()


@dataclass(frozen=True)
class _Fetch:
    manifest: Manifest
    network: NetworkSettings
    cache: Path
    say: Say

    @property
    def _repo(self) -> Path:
        return self.cache / "rlinf.git"

    @property
    def _git_tree(self) -> Path:
        """Named by what decides its content: the revision, and the paths taken of it."""
        paths = hashlib.sha256("\n".join(self.manifest.rlinf.paths).encode()).hexdigest()[:8]
        return self.cache / f"rlinf-git-{self.manifest.rlinf.revision[:12]}-{paths}"

    @property
    def _pypi_tree(self) -> Path:
        return self.cache / f"rlinf-pypi-{self.manifest.rlinf.pypi_sha256[:12]}"

    def has_git(self) -> bool:
        return self._git_tree.is_dir() or self._has_commit()

    def has_pypi(self) -> bool:
        return self._pypi_tree.is_dir()

    def from_git(self) -> RlinfSource:
        tree = self._git_tree
        if not tree.is_dir():
            if not self._has_commit():
                self._fetch_commit()
            with _complete(tree) as unfinished:
                self._export(unfinished)
        return RlinfSource("git", tree, _version(tree), self.manifest.rlinf.revision)

    def from_pypi(self) -> RlinfSource:
        sha256 = self.manifest.rlinf.pypi_sha256
        tree = self._pypi_tree
        if not tree.is_dir():
            with _complete(tree) as unfinished:
                self._install_wheel(unfinished)
        return RlinfSource("pypi", tree, _version(tree), f"pypi-{sha256[:12]}")

    def _git(self, *command: str) -> tuple[str, ...]:
        return ("git", "--git-dir", str(self._repo), *command)

    def _has_commit(self) -> bool:
        return run(self._git("cat-file", "-e", f"{self.manifest.rlinf.revision}^{{commit}}")).ok

    def _fetch_commit(self) -> None:
        """Fetch one commit without its history, by the user's own git: insteadOf, proxies and credentials apply."""
        rlinf = self.manifest.rlinf
        _must(bool(shutil.which("git")), "git is not installed", "install it, or use SOURCE=pypi or SOURCE=<folder>")
        self.say(f"Fetching RLinf {rlinf.revision[:12]} from {rlinf.git}")
        if not (self._repo / "HEAD").exists():
            with _complete(self._repo) as unfinished:
                _must(run(("git", "init", "-q", "--bare", str(unfinished))).ok, "git cannot create a repository", "")
        env = {**self.network.env(), **GIT_PATIENCE}
        # a ref keeps git's own housekeeping from dropping the commit
        refspec = f"{rlinf.revision}:refs/pinned/{rlinf.revision}"
        command = self._git("fetch", "--progress", "--no-tags", "--depth=1", rlinf.git, refspec)
        done = follow(command, Pulse(self.say, "git"), env=env)
        if not done.ok:
            fatal = [line for line in done.out.splitlines() if line.startswith(("fatal:", "error:"))]
            raise Problem(
                f"git cannot fetch RLinf: {(fatal or [done.last_line])[0]}",
                "check network and proxy, try MIRROR=cn, SOURCE=pypi or SOURCE=<folder>",
            )

    def _export(self, folder: Path) -> None:
        """Write the listed paths; git gives every file the commit's time."""
        rlinf = self.manifest.rlinf
        with tempfile.NamedTemporaryFile(dir=self.cache, suffix=".tar") as tar:
            archive = ("-c", "tar.umask=0022", "archive", "--format=tar", "-o", tar.name)
            made = run(self._git(*archive, rlinf.revision, "--", *rlinf.paths))
            _must(made.ok, f"git archive: {made.last_line}", "correct rlinf.paths in images.toml")
            unpacked = run(("tar", "--extract", "--no-same-owner", "--file", tar.name, "--directory", str(folder)))
            _must(unpacked.ok, f"tar: {unpacked.last_line}", "is the disk full?")
        os.utime(folder, (FIXED_TIME, FIXED_TIME))

    def _install_wheel(self, folder: Path) -> None:
        """Unpack the wheel, after comparing it with the manifest's hash."""
        rlinf, version = self.manifest.rlinf, self.manifest.versions.rlinf
        self.say(f"Fetching rlinf {version} from the package index")
        with tempfile.NamedTemporaryFile("w", dir=self.cache, suffix=".txt") as requirement:
            requirement.write(f"rlinf=={version} --hash=sha256:{rlinf.pypi_sha256}\n")
            requirement.flush()
            command = [uv.find_uv_bin(), "pip", "install", "--no-config", "--no-deps", "--require-hashes"]
            command += [
                "--only-binary=:all:",
                "--link-mode=copy",
                f"--python={sys.executable}",
                "--target",
                str(folder),
                "-r",
                requirement.name,
            ]
            done = follow(command, Pulse(self.say, "uv"), env=self.network.env())
        _must(
            done.ok,
            f"rlinf {version} cannot be had from the package index: {_cause(done.out, self.network.index)}",
            "check network and proxy, try MIRROR=cn, SOURCE=git or SOURCE=<folder>",
        )
        for pattern in (".lock", "*/uv_cache.json", "*/INSTALLER", "*/REQUESTED", "*/RECORD", "*/direct_url.json"):
            for path in folder.glob(pattern):  # says how it was installed here, not what it is
                path.unlink()
        _set_times(folder)


def _from_folder(folder: Path, manifest: Manifest, cache: Path) -> RlinfSource:
    parts = [folder / name for name in manifest.rlinf.paths if (folder / name).exists()]
    parts += sorted(folder.glob("rlinf-*.dist-info"))
    with tempfile.TemporaryDirectory(dir=cache, prefix="unfinished-") as scratch:
        copy = Path(scratch) / "tree"
        copy.mkdir()
        for part in parts:
            _copy(part, copy / part.name)
        _set_times(copy)
        version, digest = _version(copy), hash_tree(copy)
        tree = cache / f"rlinf-dir-{digest[:12]}"
        if not tree.is_dir():
            copy.rename(tree)
    return RlinfSource("dir", tree, version, _describe(folder, digest))


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=SKIPPED)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _describe(folder: Path, digest: str) -> str:
    """`git describe` of a clean checkout, with the content's hash when files differ from it; else the hash alone."""

    def git(*command: str) -> str:
        return run(("git", "-C", str(folder), *command)).out.strip()

    top = git("rev-parse", "--show-toplevel")
    if not top or Path(top).resolve() != folder:
        return f"dir-{digest[:12]}"
    described = re.sub(r"[^\w.-]", "-", git("describe", "--always", "--long", "--abbrev=12"))
    return f"{described}-dirty-{digest[:12]}" if git("status", "--porcelain") else described


def hash_tree(folder: Path) -> str:
    """Return the SHA-256 of names, modes and contents below `folder`, whatever the times and the order on disk."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = b""
        if stat.S_ISLNK(mode):
            content = str(path.readlink()).encode()
        elif stat.S_ISREG(mode):
            content = hashlib.sha256(path.read_bytes()).digest()
        kind = f"{stat.S_IFMT(mode):o} {bool(mode & 0o100)}"
        total.update(f"{path.relative_to(folder)}\0{kind}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def _version(tree: Path) -> str:
    project = tree / "pyproject.toml"
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    for info in sorted(tree.glob("rlinf-*.dist-info")):
        return info.name.removeprefix("rlinf-").removesuffix(".dist-info")
    raise Problem(f"{tree.name}: RLinf's version is in neither pyproject.toml nor dist-info", "use a full checkout")


@contextlib.contextmanager
def _complete(target: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name only when everything went well."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="unfinished-") as scratch:
        unfinished = Path(scratch) / target.name
        unfinished.mkdir()
        yield unfinished
        if target.is_dir():  # another run was faster
            return
        unfinished.rename(target)


def _set_times(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (FIXED_TIME, FIXED_TIME), follow_symlinks=False)


def _cause(output: str, secret: str) -> str:
    """The line of uv's output that says why, without the index URL when it may hold a password."""
    lines = [re.sub(r"^\W+", "", line) for line in output.splitlines() if re.search(r"\w", line)]  # uv draws a tree
    cause = next((line for line in lines if "hash" in line.lower()), lines[-1] if lines else "no output")
    return cause.replace(secret, "<index>") if secret else cause


def _must(ok: bool, what: str, fix: str) -> None:
    if not ok:
        raise Problem(what, fix)
