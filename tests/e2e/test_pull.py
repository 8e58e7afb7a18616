"""`make pull` from a real registry (TLS, password) into a second, empty engine: what comes, is refused, is resumed.

After every refusal the engine has no image under a local name, and the build record is not written.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from imagekit import lookup
from imagekit.carry.lockfile import Lock, read_lock, write_lock
from imagekit.manifest import load_manifest
from imagekit.registry import RegistryClient, canonical, parse
from imagekit.registry.client import INDEX
from imagekit.registry.server import LoopbackRegistry
from tests.e2e.checkout import Checkout
from tests.e2e.registry_kit import registry
from tests.e2e.scratch import ScratchImages, scratch
from tests.e2e.second_engine import SecondEngine, second_engine, why_not

__all__ = ["registry", "scratch"]

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(bool(why_not()), reason=why_not()), pytest.mark.timeout(300)]

NAME, CHIP = "rlinf-npu", load_manifest().versions.chip
HERE = lookup.pick_platform(load_manifest(), "")[0].name
TAG = "0.3.0-test"
BIG = 200_000_000  # bytes


@pytest.fixture
def empty() -> Iterator[SecondEngine]:
    with second_engine() as started:
        yield started


class Shop:
    """A registry that releases are put into, a copy of the checkout that pulls, and the engine it pulls into."""

    def __init__(self, registry: LoopbackRegistry, scratch: ScratchImages, folder: Path) -> None:
        self.registry, self.scratch = registry, scratch
        self.checkout = Checkout(folder / "checkout")
        self.place = f"{registry.host}/e2e"
        self.client = RegistryClient(registry.host, environ=registry.environ)
        self.login = {"DOCKER_CONFIG": registry.environ["DOCKER_CONFIG"]}

    def publish(self, tag: str = TAG, *, lock: bool = True, size: int = 1000) -> str:
        """Build, push and put an index of one platform under `tag`; return the manifest's digest."""
        image = self.scratch.build(size=size)
        remote = f"{self.place}/{NAME}:candidate"
        self.docker("tag", image, remote)
        self.docker("push", "--quiet", remote)
        self.docker("rmi", remote)
        candidate = self.client.manifest(parse(remote))
        digest = candidate.descriptor.digest
        entry = replace(candidate.descriptor, platform=HERE).document()
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}
        self.client.put_manifest(candidate.reference.tagged(tag), canonical(index), INDEX)
        if lock:
            self.checkout.good("lock-images", tag, REGISTRY=self.place, **self.login)
        return digest

    def docker(self, *arguments: str) -> None:
        done = subprocess.run(
            ["docker", *arguments], env=self.registry.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def arguments(self, engine: SecondEngine, **more: str) -> dict[str, str]:
        return {"REGISTRY": self.place, "CHIP": CHIP} | self.login | engine.environ | more

    def pull(self, engine: SecondEngine, **more: str) -> str:
        return self.checkout.good("pull", **self.arguments(engine, **more))

    def refused(self, engine: SecondEngine, code: int = 1, **more: str) -> str:
        line = self.checkout.refused(code, "pull", **self.arguments(engine, **more))
        assert local_names(engine) == []
        assert not list(self.checkout.folder.glob("build/built-*.json"))
        return line

    def lock(self) -> Lock:
        return read_lock(self.checkout.folder / "images.lock")


@pytest.fixture
def shop(registry: LoopbackRegistry, scratch: ScratchImages, tmp_path: Path) -> Shop:
    return Shop(registry, scratch, tmp_path)


def local_names(engine: SecondEngine) -> list[str]:
    tags = [tag for image in engine.engine.client().images.list() for tag in image.tags]
    return [tag for tag in tags if tag.startswith(f"{NAME}:")]


def image_id(engine: SecondEngine, tag: str = TAG) -> str:
    return str(engine.engine.client().images.get(f"{NAME}:{tag}").id)


def test_an_empty_engine_gets_the_recorded_digest_and_compose_uses_it(shop: Shop, empty: SecondEngine) -> None:
    digest = shop.publish()
    said = shop.pull(empty)
    assert image_id(empty) == digest
    assert shop.lock().releases[0].platforms == {HERE: digest}
    record = json.loads((shop.checkout.folder / f"build/built-{HERE[6:]}.json").read_text(encoding="utf-8"))
    assert record["images"][NAME]["digest"] == digest
    assert f"image: {NAME}:{TAG}" in (shop.checkout.folder / "build/compose-cards.yaml").read_text(encoding="utf-8")
    assert "(3 of 3 layers" in said
    assert shop.registry.password not in said


def test_dockers_old_image_store_gets_the_same_image(shop: Shop) -> None:
    digest = shop.publish()
    config = shop.client.manifest(parse(f"{shop.place}/{NAME}@{digest}")).config.digest
    with second_engine(containerd_store=False) as old:
        assert not old.engine.containerd_store
        shop.pull(old)
        assert image_id(old) == config


def test_an_update_moves_only_what_changed(shop: Shop, empty: SecondEngine) -> None:
    shop.publish()
    shop.pull(empty)
    digest = shop.publish("0.3.1-test")
    said = shop.pull(empty, TAG="0.3.1-test")
    assert image_id(empty, "0.3.1-test") == digest
    assert "moved 0.0 of" in said
    assert "(1 of 3 layers" in said  # the base and the first RUN are the same


def test_the_newest_release_for_the_chip_is_taken(shop: Shop, empty: SecondEngine) -> None:
    shop.publish("0.3.0-old")
    newer = shop.publish("0.3.1-new")
    lock = shop.lock()
    younger = lock.find(NAME, "0.3.1-new")
    assert younger is not None
    write_lock(
        lock.with_release(younger.model_copy(update={"created": "2027-01-01T00:00:00Z"})),
        shop.checkout.folder / "images.lock",
    )
    shop.pull(empty)
    assert local_names(empty) == [f"{NAME}:0.3.1-new"]
    assert image_id(empty, "0.3.1-new") == newer
    assert "no release is for chip a3" in shop.checkout.refused(2, "pull", **shop.arguments(empty, CHIP="a3"))


def test_a_tag_that_moved_changes_nothing(shop: Shop, empty: SecondEngine) -> None:
    first = shop.publish()
    other = shop.publish(lock=False)
    assert other != first
    said = shop.pull(empty)
    assert image_id(empty) == first
    assert f"note: tag {TAG} stands for" in said


def test_a_digest_that_nobody_has_is_refused(shop: Shop, empty: SecondEngine) -> None:
    shop.publish()
    wrong = "sha256:" + "0" * 64
    assert "images.lock says sha256:" in shop.refused(empty, TAG=f"{TAG}@{wrong}")
    shop.checkout.edit("images.lock", r'"linux/(\w+)": "sha256:[0-9a-f]{64}"', rf'"linux/\1": "{wrong}"')
    assert wrong[:19] in shop.refused(empty)


def test_without_a_recorded_release_the_way_on_is_said(shop: Shop, empty: SecondEngine) -> None:
    digest = shop.publish(lock=False)
    assert "no release is recorded in images.lock" in shop.refused(empty, 2)
    assert f"images.lock has no digest for tag {TAG}" in shop.refused(empty, 2, TAG=TAG)
    shop.pull(empty, TAG=f"{TAG}@{digest}")
    assert image_id(empty) == digest


def test_a_corrupted_layer_is_refused(shop: Shop, empty: SecondEngine) -> None:
    digest = shop.publish(size=300_000)
    layers = shop.client.manifest(parse(f"{shop.place}/{NAME}@{digest}")).layers
    flip_byte(shop.registry.blob(layers[1].digest))
    assert "not what the digest promises" in shop.refused(empty)


def test_a_corrupted_manifest_is_refused(shop: Shop, empty: SecondEngine) -> None:
    path = shop.registry.blob(shop.publish())
    path.write_bytes(path.read_bytes().replace(b'"schemaVersion"', b'"schemaVersioN"'))
    assert "error: " in shop.refused(empty)


def flip_byte(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))


def test_a_registry_killed_in_the_middle_is_gone_on_with(shop: Shop, empty: SecondEngine) -> None:
    digest = shop.publish(size=BIG)
    pulling = subprocess.Popen(
        [sys.executable, "build.py", "pull"],
        cwd=shop.checkout.folder,
        env=shop.checkout.env | shop.arguments(empty),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for_bytes(empty, 10_000_000, pulling)
    shop.registry.stop(kill=True)
    said, _ = pulling.communicate(timeout=120)
    assert pulling.returncode == 1, said
    assert [line for line in said.splitlines() if line.startswith("error: ")], said
    assert local_names(empty) == []
    shop.registry.start()
    shop.pull(empty)
    assert image_id(empty) == digest


def wait_for_bytes(engine: SecondEngine, count: int, process: "subprocess.Popen[str]") -> None:
    ingest = engine.data / "containerd/daemon/io.containerd.content.v1.content/ingest"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if max((path.stat().st_size for path in ingest.glob("*/data")), default=0) > count:
            return
        time.sleep(0.002)
    raise AssertionError(f"no layer was seen on its way: {process.communicate()[0]}")


def test_a_disk_that_fills_up_leaves_no_name(shop: Shop) -> None:
    shop.publish(size=BIG)
    with second_engine(size="150m") as small:
        assert "the disk of the Docker engine filled up" in shop.refused(small)


def test_a_wrong_password_a_wrong_architecture_and_no_registry(shop: Shop, empty: SecondEngine, tmp_path: Path) -> None:
    digest = shop.publish()
    (tmp_path / "nobody").mkdir()
    assert "not authorised" in shop.refused(empty, DOCKER_CONFIG=str(tmp_path / "nobody"))
    assert "does not answer" in shop.refused(empty, REGISTRY="127.0.0.1:1/e2e")
    assert "is for linux/arm64, this host is" in shop.refused(empty, TAG=f"arm@{arm_manifest(shop, digest)}")


def test_a_login_in_two_variables(shop: Shop, empty: SecondEngine, tmp_path: Path) -> None:
    """For the engine's pull as for our own requests; the password is nowhere in what is said."""
    digest = shop.publish()
    (tmp_path / "nobody").mkdir()
    login = {"REGISTRY_USER": shop.registry.user, "REGISTRY_PASSWORD": shop.registry.password}
    said = shop.pull(empty, DOCKER_CONFIG=str(tmp_path / "nobody"), **login)
    assert image_id(empty) == digest
    assert shop.registry.password not in said


def arm_manifest(shop: Shop, digest: str) -> str:
    """The same image with a configuration that says arm64, under a manifest of its own."""
    reference = parse(f"{shop.place}/{NAME}@{digest}")
    manifest = shop.client.manifest(reference)
    config = shop.client.config(manifest) | {"architecture": "arm64"}
    blob = shop.client.put_blob(reference, json.dumps(config).encode(), manifest.config.media_type)
    raw = json.dumps(manifest.document | {"config": blob.document()}).encode()
    return shop.client.put_manifest(reference.tagged("arm"), raw, manifest.descriptor.media_type)


def test_mirrors_are_asked_in_their_order(shop: Shop, empty: SecondEngine) -> None:
    digest = shop.publish()
    shop.checkout.edit("images.toml", r"^mirrors = \[\]", f'mirrors = ["127.0.0.1:2/x", "{shop.place}"]')
    shop.checkout.edit("images.toml", r'^registry = ".*?"', 'registry = "127.0.0.1:1/x"')
    said = shop.pull(empty, REGISTRY="")
    assert image_id(empty) == digest
    assert said.count("not from there: registry 127.0.0.1:") == 2


def test_an_image_that_hides_its_simulation_is_refused(shop: Shop, empty: SecondEngine) -> None:
    image = shop.scratch.build(simulated=True)
    remote = f"{shop.place}/{NAME}:{TAG}"
    shop.docker("tag", image, remote)
    shop.docker("push", "--quiet", remote)
    shop.docker("rmi", remote)
    digest = shop.client.resolve(parse(remote)).digest
    assert "is simulated, but its name does not" in shop.refused(empty, TAG=f"{TAG}@{digest}")
