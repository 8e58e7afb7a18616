"""`make venv`, the first to need a network: the index of MIRROR= and the CA of the host, pip's own settings first."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imagekit import lookup, pip_settings
from imagekit.errors import Problem
from imagekit.manifest import ROOT, Manifest

# A Python without any package, and a pip that notes the variables which it gets.
PYTHON = """#!/bin/sh
case "$*" in
"-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp {pip} "$3/bin/pip" ;;
*) exec {python} -S "$@" ;;
esac
"""
PIP = """#!/bin/sh
case "$*" in
"config list") cat {folder}/configured ;;
*host.txt) echo "index=$PIP_INDEX_URL cert=$PIP_CERT" > {folder}/seen ;;
esac
"""
MakeVenv = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(("value", "name"), [("1", "cn"), ("0", None), ("", None)])
def test_every_command_reads_use_mirrors(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, value: str, name: str | None
) -> None:
    monkeypatch.setenv("USE_MIRRORS", value)
    assert lookup.pick_mirror(manifest, "") == (manifest.mirrors[name] if name else None)


@pytest.mark.parametrize(("name", "use_mirrors"), [("", ""), ("", "0"), ("", "1"), ("cn", ""), ("cn", "0")])
def test_the_mirrors_are_those_of_a_build(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, name: str, use_mirrors: str
) -> None:
    monkeypatch.setenv("USE_MIRRORS", use_mirrors)
    picked = lookup.pick_mirror(manifest, name)
    assert pip_settings.mirrored_index(name, use_mirrors) == (picked.pypi if picked else "")


def test_an_unknown_mirror_is_refused_in_the_same_words(manifest: Manifest) -> None:
    with pytest.raises(Problem) as build:
        lookup.pick_mirror(manifest, "mars")
    with pytest.raises(Problem) as venv:
        pip_settings.mirrored_index("mars", "")
    assert (str(venv.value), venv.value.exit_code) == (str(build.value), build.value.exit_code)


@pytest.mark.parametrize("section", ["global", "install", ":env:"])
def test_what_pip_is_told_already_stays(manifest: Manifest, tmp_path: Path, section: str) -> None:
    bundle = tmp_path / "corp.pem"
    bundle.touch()
    environ = {"MIRROR": "cn", "SSL_CERT_FILE": str(bundle)}
    theirs = f"{section}.index-url='https://corp/simple'\n{section}.cert='/corp.pem'\n"
    assert pip_settings.pip_variables(theirs, environ, root=tmp_path) == {}
    others = f"{section}.extra-index-url='https://corp/simple'\ndownload.index-url='https://corp'\n{section}.cert=''\n"
    both = {"PIP_INDEX_URL": manifest.mirrors["cn"].pypi, "PIP_CERT": str(bundle)}
    assert pip_settings.pip_variables(others, environ, root=tmp_path) == both


def test_without_settings_pip_is_told_nothing(tmp_path: Path) -> None:
    assert pip_settings.pip_variables("", {}, root=tmp_path) == {}


@pytest.fixture
def make_venv(tmp_path: Path) -> MakeVenv:
    """`make venv` in a copy of the checkout that has what the target reads, with a pip that only pretends."""
    shutil.copytree(ROOT / "imagekit", tmp_path / "imagekit", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "images.toml", "requirements/host.txt", "runtime/pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "configured").touch()
    for name, text in (("python", PYTHON), ("pip", PIP)):
        path = tmp_path / name
        path.write_text(text.format(python=sys.executable, pip=tmp_path / "pip", folder=tmp_path))
        path.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE"))}

    def make(**environ: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "--no-print-directory", "venv", f"PYTHON={tmp_path}/python"]
        return subprocess.run(
            command, cwd=tmp_path, env=kept | environ, capture_output=True, text=True, check=False, timeout=60
        )

    return make


@pytest.mark.programs
@pytest.mark.parametrize("asked", [{"MIRROR": "cn"}, {"USE_MIRRORS": "1"}])
def test_make_takes_the_mirror_and_the_ca(
    make_venv: MakeVenv, manifest: Manifest, tmp_path: Path, asked: dict[str, str]
) -> None:
    bundle = tmp_path / "a corporate CA.pem"
    bundle.touch()
    done = make_venv(**asked, SSL_CERT_FILE=str(bundle))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen").read_text() == f"index={manifest.mirrors['cn'].pypi} cert={bundle}\n"
    assert (tmp_path / ".venv/.complete").exists()


@pytest.mark.programs
def test_make_leaves_the_users_own_index_in_force(make_venv: MakeVenv, tmp_path: Path) -> None:
    (tmp_path / "configured").write_text("global.index-url='https://corp/simple'\nglobal.cert='/corp.pem'\n")
    assert make_venv(MIRROR="cn").returncode == 0
    assert (tmp_path / "seen").read_text() == "index= cert=\n"


@pytest.mark.programs
def test_make_refuses_an_unknown_mirror_before_anything_is_removed(make_venv: MakeVenv, tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/mine").touch()
    done = make_venv(MIRROR="mars")
    assert done.stderr.startswith("error: no mirrors called 'mars'\n  fix: known: cn\n")
    assert done.returncode == 2
    assert (tmp_path / ".venv/mine").exists()
    assert not (tmp_path / "seen").exists()
