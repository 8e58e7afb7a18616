"""images/rlinf-npu/upstream/install, with an install.sh that records how it is called and makes a mess on purpose."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from imagekit.manifest import ROOT

pytestmark = pytest.mark.programs

FOLDER = ROOT / "images" / "rlinf-npu" / "upstream"
MIRROR = "https://mirror.test/"

# What RLinf's script does to the world around it, in small.
INSTALL = r"""
set -euo pipefail
while [ $# -gt 0 ]; do echo "$1" >>"$LOG/arguments"; [ "$1" != --venv ] || venv=$2; shift; done
env >"$LOG/environment"
pwd >"$LOG/folder"
git config --global --get-regexp '^url' >"$LOG/git" || true
git config --global url.https://mirror.test/github.com/.insteadOf https://github.com/
sudo -n true && sudo sh -c 'echo "$APT_CONFIG"' >"$LOG/apt"
sed -i s/old/new/ pyproject.toml
echo 'source /vendor/set_env.sh' >>"$venv/bin/activate"
mkdir -p "$venv/libero/.git" "$venv/libero/libero.egg-info" "$DOWNLOAD_DIR/.maniskill"
chmod 700 "$DOWNLOAD_DIR/.maniskill"
site=$(echo "$venv"/lib/python*/site-packages)
while read -r name version; do
    info=$site/$name-$version.dist-info
    mkdir -p "$info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$name" "$version" >"$info/METADATA"
done <requirements/installed
info=$site/openpi-0.1.0.dist-info
echo '{"url":"https://mirror.test/https://github.com/RLinf/openpi","vcs_info":{"vcs":"git"}}' >"$info/direct_url.json"
printf 'openpi-0.1.0.dist-info/direct_url.json,sha256=old,1\nopenpi/__init__.py,sha256=kept,0\n' >"$info/RECORD"
"""
UV = r"""
case "$1" in
venv) for venv; do :; done
    site=$venv/lib/python$SERIES/site-packages
    mkdir -p "$venv/bin" "$site"
    ln -s "$REAL_PYTHON" "$venv/bin/python"
    printf 'home = %s\n' "$(dirname "$REAL_PYTHON")" >"$venv/pyvenv.cfg"
    echo original >"$venv/bin/activate" ;;
*) echo "$VIRTUAL_ENV $*" >>"$LOG/uv" ;;
esac
"""


@dataclass(frozen=True)
class Place:
    """A folder in which the installer can be run."""

    root: Path

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        known = {
            "PATH": f"{self.root}/bin:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "LOG": str(self.root / "log"),
            "REAL_PYTHON": sys.executable,
            "SERIES": f"{sys.version_info.major}.{sys.version_info.minor}",
            "SOURCE": str(self.root / "source"),
            "VENV": str(self.root / "venv"),
            "ASSETS": str(self.root / "assets"),
            "PYTHON": sys.executable,
            "INSTALL_ARGUMENTS": "--platform ascend embodied",
            "REPAIR": "torch-npu==2.6.0.post3 pyarrow==20.0.0",
            "STRIP": "tensorflow* torchcodec flash-attn*",
            "PROMISED": "torch==2.6.0 torch-npu==2.6.0",
            "APT_CONFIG": "/of/with-net",
        }
        return subprocess.run(
            ["/bin/bash", str(FOLDER / "install")], env=known | environment, capture_output=True, text=True, check=False
        )

    def log(self, name: str) -> list[str]:
        return (self.root / "log" / name).read_text(encoding="utf-8").splitlines()

    @property
    def site(self) -> Path:
        return next((self.root / "venv" / "lib").glob("python*/site-packages"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The installer has run once, with everything that a build can give it."""
    place = prepare(tmp_path_factory.mktemp("upstream"))
    (place.root / "gitconfig").write_text('[url "https://git.corp/"]\n\tinsteadOf = https://github.com/\n')
    done = place.run(
        INSTALL_MIRROR="--use-mirror", GIT_CONFIG_SECRET=str(place.root / "gitconfig"), SSL_CERT_FILE="/run/ca"
    )
    assert done.returncode == 0, done.stderr
    yield place


def prepare(root: Path) -> Place:
    for name in ("bin", "home", "tmp", "log", "source/requirements"):
        (root / name).mkdir(parents=True)
    (root / "source" / "requirements" / "install.sh").write_text(INSTALL)
    (root / "source" / "requirements" / "installed").write_text(
        "torch 2.6.0+cpu\ntorch_npu 2.6.0\ntensorflow_graphics 1\ntensorflow 2.15\ntensorboard 2\n"
        "torchcodec 0.5\nopenpi 0.1.0\n"
    )
    (root / "source" / "pyproject.toml").write_text("old\n")
    (root / "bin" / "uv").write_text(f"#!/bin/sh\n{UV}")
    (root / "bin" / "uv").chmod(0o755)
    return Place(root)


def test_it_is_called_with_the_manifests_arguments_in_a_copy_of_the_tree(made: Place) -> None:
    assert made.log("arguments") == ["--use-mirror", "--venv", f"{made.root}/venv", "--platform", "ascend", "embodied"]
    assert made.log("folder")[0].startswith(f"{made.root}/tmp/")
    assert (made.root / "source" / "pyproject.toml").read_text() == "old\n"


def test_every_tool_of_it_gets_the_hosts_network(made: Place) -> None:
    environment = dict(line.partition("=")[::2] for line in made.log("environment"))
    assert environment["UV_NO_GITHUB_FAST_PATH"] == "1"
    assert environment["UV_PYTHON_DOWNLOADS"] == "never"
    assert environment["WGETRC"].startswith(f"{made.root}/tmp/")
    assert made.log("git") == ["url.https://git.corp/.insteadof https://github.com/"]
    assert made.log("apt") == ["/of/with-net"]  # what sudo would have dropped


def test_no_configuration_stays_behind(made: Place) -> None:
    assert list((made.root / "home").iterdir()) == []
    assert list((made.root / "tmp").iterdir()) == []
    assert (made.root / "venv" / "bin" / "activate").read_text() == "original\n"
    left = [path for path in (made.root / "venv").rglob("*") if path.is_file() and b"mirror.test" in path.read_bytes()]
    assert left == []


def test_a_mirrors_address_becomes_the_original_one(made: Place) -> None:
    info = made.site / "openpi-0.1.0.dist-info"
    text = (info / "direct_url.json").read_bytes()
    assert json.loads(text)["url"] == "https://github.com/RLinf/openpi"
    rewritten, kept = (info / "RECORD").read_text().splitlines()
    assert rewritten.startswith("openpi-0.1.0.dist-info/direct_url.json,sha256=")
    assert rewritten.endswith(f",{len(text)}")
    assert kept == "openpi/__init__.py,sha256=kept,0"


def test_what_breaks_on_an_npu_is_uninstalled(made: Place) -> None:
    assert made.log("uv")[1:] == [f"{made.root}/venv pip uninstall tensorflow tensorflow-graphics torchcodec"]


def test_what_does_not_work_here_is_replaced(made: Place) -> None:
    """install.sh takes 2.6.0 for torch 2.6.0, built for CANN 8.2; with the simulated 8.3 import fails."""
    assert made.log("uv")[0] == f"{made.root}/venv pip install --no-deps torch-npu==2.6.0.post3 pyarrow==20.0.0"


def test_libero_is_found_without_an_activated_shell(made: Place) -> None:
    assert list((made.root / "venv" / "libero").iterdir()) == []  # neither its history nor its metadata once more
    assert (made.site / "upstream.pth").read_text() == f"{made.root}/venv/libero\n"


def test_assets_are_for_every_user(made: Place) -> None:
    assert (made.root / "assets" / ".maniskill").stat().st_mode & 0o777 == 0o777


def test_another_torch_than_the_labels_promise_is_an_error(tmp_path: Path) -> None:
    place = prepare(tmp_path)
    done = place.run(PROMISED="torch==2.7.1 torch-npu==2.6.0 torchvision==0.21.0", STRIP="nothing-of-it")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-3:] == [
        "error: RLinf's installer left torch 2.6.0+cpu, images.toml promises 2.7.1",
        "error: RLinf's installer left torchvision nothing, images.toml promises 0.21.0",
        "  fix: build.py bump, or INSTALLER=lock",
    ]
    assert [line for line in place.log("uv") if "uninstall" in line] == []  # nothing matched


def test_its_failure_is_ours_and_leaves_no_scratch(tmp_path: Path) -> None:
    place = prepare(tmp_path)
    (tmp_path / "source" / "requirements" / "install.sh").write_text("echo 'no such mirror' >&2; exit 7")
    done = place.run()
    assert done.returncode == 7
    assert "no such mirror" in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []
