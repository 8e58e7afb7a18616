"""Torch for x86-64: PyTorch's CPU wheels where they answer, PyPI's otherwise; by the manifest's hashes either way."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hostkit import Said, Serve
from uv import find_uv_bin

from imagekit.errors import Problem
from imagekit.locks import LOCKS, lock_path
from imagekit.manifest import Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.probe import Prober
from imagekit.torch_lock import CPU_LOCKS, cpu_lock, locks_for, write_cpu_lock
from imagekit.torch_wheels import choose, pages

pytestmark = pytest.mark.programs


@pytest.fixture
def amd64(manifest: Manifest) -> Platform:
    return manifest.get_platform("amd64")


@pytest.fixture
def network(serve: Serve) -> NetworkSettings:
    """A network in which one page answers on /cpu/ and nothing else."""
    address = serve(lambda path: (200 if path == "/cpu/" else 404, b""))
    return NetworkSettings(no_proxy="*", torch_pages=(f"http://{address}/cpu/",))


def out_of_reach(network: NetworkSettings) -> NetworkSettings:
    return replace(network, torch_pages=(network.torch_pages[0].replace("/cpu/", "/gone/"),))


def test_cpu_wheels_are_taken_where_they_answer(
    manifest: Manifest, amd64: Platform, network: NetworkSettings, said: Said
) -> None:
    assert choose(manifest, "auto", amd64, network, Prober(5), said) == "cpu"
    assert said[0].startswith("  probe PyTorch's CPU wheels: in reach")
    assert choose(manifest, "auto", amd64, out_of_reach(network), Prober(5), said) == "pypi"
    assert "not in reach: HTTP 404" in said[1]


def test_asked_for_by_name_they_are_insisted_on_or_not_looked_for(
    manifest: Manifest, amd64: Platform, network: NetworkSettings, said: Said
) -> None:
    with pytest.raises(Problem, match=r"CPU wheels are not in reach \(HTTP 404\); try MIRROR=cn, or TORCH=pypi"):
        choose(manifest, "cpu", amd64, out_of_reach(network), Prober(5), said)
    said.clear()
    assert choose(manifest, "pypi", amd64, network, Prober(5), said) == "pypi"
    assert choose(manifest, "cpu", manifest.get_platform("arm64"), network, Prober(5), said) == "pypi"
    assert said == []


def test_a_release_without_a_recorded_hash_comes_from_pypi(
    manifest: Manifest, amd64: Platform, network: NetworkSettings, said: Said
) -> None:
    newer = manifest.model_copy(update={"versions": manifest.versions.model_copy(update={"torch": "2.7.1"})})
    assert choose(newer, "auto", amd64, network, Prober(5), said) == "pypi"
    assert said == []
    with pytest.raises(Problem, match=r"no CPU wheel of torch 2\.7\.1 is recorded"):
        choose(newer, "cpu", amd64, network, Prober(5), said)


def test_the_mirrors_pages_replace_pytorchs(manifest: Manifest) -> None:
    mirror = manifest.mirrors["cn"]
    assert pages(manifest, NetworkSettings.from_host(mirror, environ={})) == tuple(mirror.pytorch)
    assert pages(manifest, NetworkSettings()) == tuple(manifest.python.cpu.pages)


def test_the_cpu_lock_differs_in_those_packages_alone(manifest: Manifest, amd64: Platform, tmp_path: Path) -> None:
    write_cpu_lock(manifest, tmp_path)
    committed = lock_path(amd64).read_text(encoding="utf-8")
    derived = (tmp_path / lock_path(amd64).name).read_text(encoding="utf-8")
    pin = re.compile(r"^[a-z0-9][^\s=]*==\S+", re.MULTILINE)
    torch, vision = manifest.versions.torch, manifest.versions.torchvision
    changed = set(pin.findall(derived)) - set(pin.findall(committed))
    assert changed == {f"torch=={torch}+cpu", f"torchvision=={vision}+cpu"}
    assert set(pin.findall(committed)) - set(pin.findall(derived)) == {f"torch=={torch}", f"torchvision=={vision}"}
    assert derived.count("--hash=sha256:") < committed.count("--hash=sha256:")
    for sha256 in manifest.python.cpu.sha256.values():
        assert derived.count(sha256) == 1


def test_uv_reads_the_cpu_lock(manifest: Manifest, tmp_path: Path) -> None:
    """With no index at all uv gets as far as looking for the first package: the file is well-formed."""
    write_cpu_lock(manifest, tmp_path)
    lock = next(tmp_path.glob("*.txt"))
    command = [find_uv_bin(), "pip", "install", "--dry-run", "--no-config", "--no-index", "--no-cache", "--no-deps"]
    command += ["--require-hashes", "--target", str(tmp_path / "target"), "-r", str(lock)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "not found in the provided package locations" in said, said


def test_a_lock_without_torch_is_named(manifest: Manifest) -> None:
    with pytest.raises(Problem, match=r"the lock holds no torch==.*; run `make lock`"):
        cpu_lock(manifest, "numpy==1.26.4 --hash=sha256:0\n")


def test_a_build_takes_the_committed_lock_unless_told(manifest: Manifest) -> None:
    assert locks_for("pypi") == LOCKS
    assert locks_for("cpu") == CPU_LOCKS
