"""RLinf's tree from git, from an index and from a folder: real git, real uv, nothing beyond this machine."""

import base64
import hashlib
import http.server
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hostkit import Said

from imagekit.errors import Problem
from imagekit.manifest import Manifest
from imagekit.network import NetworkSettings
from imagekit.probe import Prober
from imagekit.rlinf_source import RlinfSource, hash_tree, resolve_source

pytestmark = pytest.mark.programs

PYPROJECT = '[project]\nname = "rlinf"\nversion = "0.3.1"\n'
QUIET = NetworkSettings(no_proxy="*")


def git(folder: Path, *command: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")
    run = subprocess.run(["git", *identity, *command], cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def write_tree(folder: Path) -> None:
    for name in ("rlinf/__init__.py", "rlinf/run.sh", "examples/a.py", "docs/big.md", "rlinf/__pycache__/x.pyc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "rlinf/run.sh").chmod(0o755)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / ".gitignore").write_text("__pycache__\n")


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository, and the commit that is wanted of it."""
    folder = tmp_path_factory.mktemp("committed") / "upstream"
    write_tree(folder)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one", "--date", "2026-03-01T00:00:00Z")
    wanted = git(folder, "rev-parse", "HEAD")
    git(folder, "commit", "-q", "-m", "two", "--allow-empty")  # the wanted one is not the tip
    return folder, wanted


@pytest.fixture
def upstream(committed: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(committed[0], tmp_path / "upstream"))


@pytest.fixture
def ours(manifest: Manifest, upstream: Path, committed: tuple[Path, str]) -> Manifest:
    """The manifest with the upstream of this test, and an index that answers nothing."""
    paths = ["rlinf", "examples", "pyproject.toml"]
    return with_rlinf(manifest, git=str(upstream), revision=committed[1], paths=paths)


def with_rlinf(manifest: Manifest, **changes: object) -> Manifest:
    return manifest.model_copy(update={"rlinf": manifest.rlinf.model_copy(update=changes)})


def resolve(manifest: Manifest, wanted: str, cache: Path, said: Said, network: NetworkSettings = QUIET) -> RlinfSource:
    return resolve_source(manifest, wanted, None, network, cache, said, Prober(5))


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_git_gives_the_listed_paths_of_the_wanted_commit(
    ours: Manifest, upstream: Path, tmp_path: Path, said: Said
) -> None:
    source = resolve(ours, "git", tmp_path / "cache", said)
    assert (source.kind, source.version, source.revision) == ("git", "0.3.1", ours.rlinf.revision)
    assert names(source.path) == ["examples/a.py", "pyproject.toml", "rlinf/__init__.py", "rlinf/run.sh"]
    assert (source.path / "rlinf/run.sh").stat().st_mode & 0o777 == 0o755
    times = {int(path.stat().st_mtime) for path in source.path.rglob("*")}
    assert times == {int(git(upstream, "log", "-1", "--format=%ct", ours.rlinf.revision))}


def test_what_is_cached_needs_no_upstream(ours: Manifest, upstream: Path, tmp_path: Path, said: Said) -> None:
    first = resolve(ours, "git", tmp_path / "cache", said)
    shutil.rmtree(upstream)
    said.clear()
    assert resolve(ours, "auto", tmp_path / "cache", said) == first
    assert said == []
    shutil.rmtree(first.path)  # the bare repository alone is enough
    assert resolve(ours, "git", tmp_path / "cache", said) == first
    assert (first.path / "rlinf/__init__.py").exists()


def test_the_users_own_git_configuration_applies(
    ours: Manifest, upstream: Path, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{upstream}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://git.invalid/RLinf.git")
    elsewhere = with_rlinf(ours, git="https://git.invalid/RLinf.git")
    assert resolve(elsewhere, "auto", tmp_path / "cache", said).kind == "git"
    assert "in reach" in said[0]


def test_git_out_of_reach_is_one_line_and_leaves_no_tree(ours: Manifest, tmp_path: Path, said: Said) -> None:
    lost = with_rlinf(ours, git=str(tmp_path / "absent"))
    with pytest.raises(Problem, match=r"git cannot fetch RLinf: fatal: .*; check network and proxy, try MIRROR=cn"):
        resolve(lost, "git", tmp_path / "cache", said)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["rlinf.git"]


def test_a_path_that_the_commit_lacks_is_named(ours: Manifest, tmp_path: Path, said: Said) -> None:
    wrong = with_rlinf(ours, paths=["rlinf", "toolkitz"])
    with pytest.raises(Problem, match=r"toolkitz.*; correct rlinf\.paths in images\.toml"):
        resolve(wrong, "git", tmp_path / "cache", said)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["rlinf.git"]


# --- from an index ----------------------------------------------------------------------------------------------------


def write_wheel(folder: Path) -> str:
    """A smallest possible rlinf 0.3.0 wheel and its page; returns the wheel's SHA-256."""
    wheel = folder / "rlinf-0.3.0-py3-none-any.whl"
    files = {
        "rlinf/__init__.py": "",
        "rlinf-0.3.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: rlinf\nVersion: 0.3.0\n",
        "rlinf-0.3.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(text)}\n"
        archive.writestr("rlinf-0.3.0.dist-info/RECORD", record + "rlinf-0.3.0.dist-info/RECORD,,\n")
    (folder / "rlinf").mkdir()
    (folder / "rlinf/index.html").write_text(f'<a href="../{wheel.name}">{wheel.name}</a>')
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


class Index(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index(
    tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Manifest, NetworkSettings]]:
    folder = tmp_path / "simple"
    folder.mkdir()
    sha256 = write_wheel(folder)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    network = NetworkSettings(no_proxy="*", index=f"http://127.0.0.1:{server.server_port}")
    yield with_rlinf(manifest, git=str(tmp_path / "absent"), pypi_sha256=sha256), network
    server.shutdown()
    thread.join()
    server.server_close()


def test_auto_falls_back_to_the_index_and_says_so(
    index: tuple[Manifest, NetworkSettings], tmp_path: Path, said: Said
) -> None:
    manifest, network = index
    source = resolve(manifest, "auto", tmp_path / "cache", said, network)
    assert (source.kind, source.version) == ("pypi", "0.3.0")
    assert source.revision == f"pypi-{manifest.rlinf.pypi_sha256[:12]}"
    assert names(source.path) == [
        "rlinf-0.3.0.dist-info/METADATA",
        "rlinf-0.3.0.dist-info/WHEEL",
        "rlinf/__init__.py",
    ]
    assert {int(path.stat().st_mtime) for path in source.path.rglob("*")} == {1_577_836_800}
    assert "taking rlinf 0.3.0 from PyPI" in said.text
    assert resolve(manifest, "pypi", tmp_path / "cache", said) == source  # cached: the index is not asked


def test_a_wheel_with_another_hash_is_refused(
    index: tuple[Manifest, NetworkSettings], tmp_path: Path, said: Said
) -> None:
    manifest, network = index
    with pytest.raises(Problem, match=r"rlinf 0\.3\.0 cannot be had from the package index: .*[Hh]ash"):
        resolve(with_rlinf(manifest, pypi_sha256="0" * 64), "pypi", tmp_path / "cache", said, network)
    assert list(tmp_path.glob("cache/*")) == []


def test_neither_git_nor_index_is_one_clear_line(ours: Manifest, tmp_path: Path, said: Said) -> None:
    lost = with_rlinf(ours, git=str(tmp_path / "absent"))
    network = NetworkSettings(no_proxy="*", index="http://127.0.0.1:9/simple")
    with pytest.raises(
        Problem, match=r"RLinf is in reach neither by git \(.*\) nor by PyPI \(ConnectionError\); .*SOURCE="
    ):
        resolve(lost, "auto", tmp_path / "cache", said, network)


# --- from a folder ----------------------------------------------------------------------------------------------------


def test_a_clean_checkout_is_known_by_git(ours: Manifest, upstream: Path, tmp_path: Path, said: Said) -> None:
    source = resolve(ours, str(upstream), tmp_path / "cache", said)
    assert (source.kind, source.version) == ("dir", "0.3.1")
    assert source.revision == git(upstream, "rev-parse", "--short=12", "HEAD")
    assert names(source.path) == ["examples/a.py", "pyproject.toml", "rlinf/__init__.py", "rlinf/run.sh"]


def test_a_change_gives_another_tree_and_revision(ours: Manifest, upstream: Path, tmp_path: Path, said: Said) -> None:
    before = resolve(ours, str(upstream), tmp_path / "cache", said)
    (upstream / "rlinf/new.py").write_text("untracked")
    after = resolve(ours, str(upstream), tmp_path / "cache", said)
    assert after.path != before.path
    assert after.revision.startswith(f"{before.revision}-dirty-")


def test_a_folder_without_git_is_known_by_its_content(ours: Manifest, tmp_path: Path, said: Said) -> None:
    for name in ("one", "two"):
        write_tree(tmp_path / name)
    (tmp_path / "two/docs/big.md").write_text("not taken, so it does not count")
    one, two = (resolve(ours, str(tmp_path / name), tmp_path / "cache", said) for name in ("one", "two"))
    assert one == two
    assert one.revision.startswith("dir-")


def test_the_hash_sees_content_names_and_modes_only(tmp_path: Path) -> None:
    file = tmp_path / "a/x"
    file.parent.mkdir()
    file.write_text("1")
    seen = {hash_tree(tmp_path)}
    file.touch()
    assert hash_tree(tmp_path) in seen
    file.write_text("2")
    seen.add(hash_tree(tmp_path))
    file.chmod(0o755)
    seen.add(hash_tree(tmp_path))
    file.rename(file.with_name("y"))
    seen.add(hash_tree(tmp_path))
    assert len(seen) == 4


@pytest.mark.parametrize(("wanted", "complaint"), [("nowhere", "no such folder"), (".", r"holds no rlinf/ folder")])
def test_a_folder_that_is_not_rlinf_is_a_usage_error(
    ours: Manifest, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch, wanted: str, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Problem, match=complaint) as caught:
        resolve(ours, wanted, tmp_path / "cache", said)
    assert caught.value.exit_code == 2
    assert list(tmp_path.glob("cache/*")) == []
