"""`make bundle`, then `make load` and install.sh into a second, empty engine: the same image, or nothing at all."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagekit.carry.contents import Contents, read_contents
from imagekit.compose.record import find_built
from imagekit.manifest import ROOT, load_manifest
from imagekit.tags import SIM
from tests.e2e import compose_kit
from tests.e2e.checkout import Checkout
from tests.e2e.commands import run_merged
from tests.e2e.registry_kit import TinyImages, engine, standard_labels, tiny
from tests.e2e.scratch import ScratchImages, scratch
from tests.e2e.second_engine import SecondEngine, old_programs, second_engine, why_not

__all__ = ["scratch", "tiny"]

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.timeout(300)]

NAME = "rlinf-npu-e2e:carried-sim"


@pytest.fixture
def empty() -> Iterator[SecondEngine]:
    with second_engine() as started:
        yield started


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


@pytest.fixture
def bundle(checkout: Checkout, scratch: ScratchImages, tmp_path: Path) -> Path:
    """A bundle of an image with zstd layers, as the real ones have."""
    scratch.build(simulated=True, name=NAME, size=300_000)
    checkout.good("bundle", IMAGE=NAME, OUTPUT=str(tmp_path / "bundle"))
    return tmp_path / "bundle"


def contents_of(bundle: Path) -> Contents:
    return read_contents((bundle / "bundle.json").read_bytes())


def ids(engine: SecondEngine) -> list[str]:
    return [str(image.id) for image in engine.engine.client().images.list()]


def install(bundle: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_merged([str(bundle / "install.sh"), *arguments], os.environ | environment)


def test_an_image_that_was_carried_runs_as_before(checkout: Checkout, tiny: TinyImages, tmp_path: Path) -> None:
    """On the machine's own engine: bundled, removed, loaded, run."""
    name = tiny.build(run="echo carried >/what", name="rlinf-npu-e2e:runs-sim", labels=standard_labels(simulated=True))
    before = engine().client().images.get(name).id
    checkout.good("bundle", IMAGE=name, OUTPUT=str(tmp_path / "b.tar"))
    engine().client().images.remove(name)
    checkout.good("load", BUNDLE=str(tmp_path / "b.tar"))
    assert engine().client().images.get(name).id == before
    assert engine().client().containers.run(name, ["cat", "/what"], remove=True, network_mode="none") == b"carried\n"


def test_make_load_into_an_empty_engine(checkout: Checkout, bundle: Path, empty: SecondEngine) -> None:
    said = checkout.good("load", BUNDLE=str(bundle), **empty.environ)
    contents = contents_of(bundle)
    assert ids(empty) == [contents.digest]
    record = json.loads(next(checkout.folder.glob("build/built-*-sim.json")).read_text(encoding="utf-8"))
    assert record["images"]["rlinf-npu"]["tags"] == [NAME]
    assert NAME in (checkout.folder / "build/compose-cards.yaml").read_text(encoding="utf-8")
    fingerprint = subprocess.run(["sha256sum", bundle / "SHA256SUMS"], capture_output=True, text=True, check=True)
    assert f"whole; fingerprint sha256:{fingerprint.stdout.split()[0]}" in said


def test_install_sh_into_dockers_old_image_store(bundle: Path) -> None:
    with second_engine(containerd_store=False) as old:
        done = install(bundle, **old.environ)
        assert done.returncode == 0, done.stdout
        assert ids(old) == [contents_of(bundle).config]
        assert "docker compose up train" in done.stdout


def test_docker_20_10_loads_it_and_runs_it(checkout: Checkout, tiny: TinyImages, tmp_path: Path) -> None:
    """The engine that bundles have gzip layers for. A difference too, whose earlier layers are there already."""
    labels = standard_labels(simulated=True)
    first = tiny.build(run="echo first >/what", name="rlinf-npu-e2e:first-sim", labels=labels)
    second = tiny.build(run="echo second >/what", name="rlinf-npu-e2e:second-sim", labels=labels)
    checkout.good("bundle", IMAGE=first, OUTPUT=str(tmp_path / "first"))
    checkout.good("bundle", IMAGE=second, SINCE=str(tmp_path / "first"), OUTPUT=str(tmp_path / "second"))
    with second_engine(containerd_store=False, programs=old_programs()) as old:
        assert old.engine.version.startswith("20.10.")
        done = install(tmp_path / "first", **old.environ)
        assert done.returncode == 0, done.stdout
        checkout.good("load", BUNDLE=str(tmp_path / "second"), EARLIER=str(tmp_path / "first"), **old.environ)
        assert sorted(ids(old)) == sorted(contents_of(tmp_path / name).config for name in ("first", "second"))
        for name, word in ((first, b"first\n"), (second, b"second\n")):
            run = old.engine.client().containers.run
            assert run(name, ["cat", "/what"], remove=True, network_mode="none") == word


def test_a_difference_and_the_earlier_one_make_the_whole(
    checkout: Checkout, bundle: Path, scratch: ScratchImages, empty: SecondEngine, tmp_path: Path
) -> None:
    scratch.build(simulated=True, name="rlinf-npu-e2e:second-sim", size=300_000)
    second = tmp_path / "second"
    said = checkout.good("bundle", IMAGE="rlinf-npu-e2e:second-sim", SINCE=str(bundle), OUTPUT=str(second))
    assert "left out, for they are in" in said
    assert sum(path.stat().st_size for path in (second / "images").rglob("*") if path.is_file()) < 10_000
    assert "only what changed" in checkout.refused(2, "load", BUNDLE=str(second), **empty.environ)
    done = install(second, **empty.environ)
    assert (done.returncode, "only what changed" in done.stdout) == (2, True), done.stdout
    assert ids(empty) == []
    done = install(second, os.path.relpath(bundle), **empty.environ)
    assert done.returncode == 0, done.stdout
    assert ids(empty) == [contents_of(second).digest]
    checkout.good("load", BUNDLE=str(second), EARLIER=str(bundle), **empty.environ)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def another_architecture(bundle: Path) -> None:
    """Sums and all: what a bundle for the other machine looks like."""
    for name, pattern in (("bundle.env", r"ARCH=\w+"), ("bundle.json", r'"linux/\w+"')):
        text = (bundle / name).read_text(encoding="utf-8")
        found = re.search(pattern, text)
        assert found is not None
        other = found[0].replace(*(("amd64", "arm64") if "amd64" in found[0] else ("arm64", "amd64")))
        (bundle / name).write_text(text.replace(found[0], other), encoding="utf-8")
    files = [line[66:] for line in (bundle / "SHA256SUMS").read_text(encoding="utf-8").splitlines()]
    sums = subprocess.run(["sha256sum", "--", *files], cwd=bundle, capture_output=True, text=True, check=True)
    (bundle / "SHA256SUMS").write_text(sums.stdout, encoding="utf-8")


def test_no_harm_reaches_the_engine(checkout: Checkout, bundle: Path, empty: SecondEngine, tmp_path: Path) -> None:
    layer = max((bundle / "images/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size).name
    harms = {
        "a flipped bit": lambda folder: flip(folder / "images/blobs/sha256" / layer),
        "a truncated layer": lambda folder: truncate(folder / "images/blobs/sha256" / layer),
        "a missing layer": lambda folder: (folder / "images/blobs/sha256" / layer).unlink(),
        "an altered setting": lambda folder: flip(folder / "compose.yaml"),
        "another architecture": another_architecture,
    }
    for number, (what, harm) in enumerate(harms.items()):
        harmed = tmp_path / f"harmed{number}"
        shutil.copytree(bundle, harmed)
        harm(harmed)
        line = checkout.refused(1, "load", BUNDLE=str(harmed), **empty.environ)
        assert re.search("altered or truncated|incomplete|is for", line), f"{what}: {line}"
        done = install(harmed, **empty.environ)
        assert done.returncode == 1, f"{what}: {done.stdout}"
        assert done.stdout.count("error: ") == 1, f"{what}: {done.stdout}"
        assert ids(empty) == [], what


def test_a_truncated_tar_does_not_reach_the_engine(
    checkout: Checkout, bundle: Path, empty: SecondEngine, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.tar"
    checkout.good("bundle", IMAGE=NAME, OUTPUT=str(whole))
    (tmp_path / "half.tar").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert "truncated" in checkout.refused(1, "load", BUNDLE=str(tmp_path / "half.tar"), **empty.environ)
    assert ids(empty) == []
    checkout.good("load", BUNDLE=str(whole), **empty.environ)
    assert ids(empty) == [contents_of(bundle).digest]


def test_a_disk_that_fills_up_leaves_no_name(checkout: Checkout, scratch: ScratchImages, tmp_path: Path) -> None:
    scratch.build(simulated=True, name=NAME, size=100_000_000)
    checkout.good("bundle", IMAGE=NAME, OUTPUT=str(tmp_path / "b"))
    with second_engine(size="60m") as small:
        line = checkout.refused(1, "load", BUNDLE=str(tmp_path / "b"), **small.environ)
        assert "the disk of the Docker engine filled up" in line
        assert ids(small) == []


def test_an_image_without_the_fixes_stays_here(checkout: Checkout, scratch: ScratchImages, tmp_path: Path) -> None:
    scratch.build(simulated=True, name="rlinf-npu-e2e:x-unfixed-sim")
    line = checkout.refused(1, "bundle", IMAGE="rlinf-npu-e2e:x-unfixed-sim", OUTPUT=str(tmp_path / "b"))
    assert "never leaves the machine" in line
    assert "no image rlinf-npu-e2e:nope" in checkout.refused(1, "bundle", IMAGE="rlinf-npu-e2e:nope")
    assert not (tmp_path / "b").exists()


@pytest.mark.skipif(bool(compose_kit.why_not()), reason=compose_kit.why_not())
def test_configure_sh_needs_no_python_of_the_hosts(bundle: Path) -> None:
    """With the real image's Python, a bare PATH, and a folder that is not the checkout."""
    built = find_built(ROOT / "build", load_manifest().image[-1].name, compose_kit.arch(), SIM)
    assert built is not None
    settings = bundle / "bundle.env"
    settings.write_text(re.sub("IMAGE=.*", f"IMAGE={built.reference}", settings.read_text("utf-8")), "utf-8")
    shutil.copy(bundle / ".env.example", bundle / ".env")
    path = bundle.parent / "bin"
    path.mkdir()
    for name in ("docker", "id", "dirname"):
        (path / name).symlink_to(str(shutil.which(name)))
    configure = ["/bin/sh", str(bundle / "configure.sh")]
    done = subprocess.run(configure, env={"PATH": str(path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"image: {NAME}" in (bundle / "build/compose-cards.yaml").read_text("utf-8")
    compose = ["docker", "compose", "--profile", "sim", "config", "--images"]
    shown = subprocess.run(compose, cwd=bundle, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert set(shown.stdout.split()) == {NAME}
    (bundle / ".env").write_text("NPUS=0-99\n", encoding="utf-8")
    done = subprocess.run(configure, env={"PATH": str(path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: NPUS=0-99: no card ")
