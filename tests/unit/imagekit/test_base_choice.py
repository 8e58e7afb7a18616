"""Which base a build stands on, with a docker client that only pretends."""

import json
import os
from pathlib import Path

import pytest
from hostkit import AddProgram, Said

from imagekit import base as bases
from imagekit import bootstrap, emulation
from imagekit.base import LocalImages, base_probes, cann_references, resolve_base
from imagekit.engine import Engine
from imagekit.errors import Problem
from imagekit.manifest import Manifest, Platform
from imagekit.network import NetworkSettings
from imagekit.probe import Prober
from imagekit.reproduce.layers import content, facts
from imagekit.reproduce.stored import read_layout

ENGINE = Engine(("docker",), {}, "unix:///x", "26.1", "0.13", "2.26", "x86_64", True)
CANN = "swr.cn-south-1.myhuaweicloud.com/ascendhub/cann:8.3.rc1-910b-ubuntu22.04-py3.11"
QUAY = "quay.io/ascend/cann:8.3.rc1-910b-ubuntu22.04-py3.11"
INDEX = {
    "digest": "sha256:1dex",
    "manifests": [{"platform": {"architecture": "amd64"}}, {"platform": {"architecture": "arm64"}}],
}


class FakeDocker:
    """A docker that has some images and reaches some registries; both are files, one per reference."""

    def __init__(self, programs: AddProgram, folder: Path) -> None:
        self.local, self.remote, self.log = folder / "local", folder / "remote", folder / "docker.log"
        self.local.mkdir()
        self.remote.mkdir()
        programs(
            "docker",
            f"""
PATH=$BIN
echo "$@" >> {self.log}
key() {{ printf %s "$1" | tr / _; }}
case "$*" in
"image inspect --format {{{{json .}}}} "*) cat "{self.local}/$(key "$5")" 2>/dev/null || exit 1 ;;
"buildx imagetools inspect "*" --format {{{{json .}}}}") cat "{self.remote}/$(key "$4")" 2>/dev/null ||
    {{ echo "ERROR: x: no such host" >&2; exit 1; }}
    ;;
"create --pull never --platform linux/"*) [ -e "{self.local}/$(key "$6").${{5#linux/}}" ] && echo c0ffee ;;
"pull --platform "*) exit 0 ;;
"rm c0ffee") ;;
"load") cat > {folder}/loaded.tar ;;
*) exit 64 ;;
esac""",
        )

    def has(
        self, reference: str, arch: str = "amd64", also: str = "", digest: str = "sha256:l0cal", **labels: str
    ) -> None:
        name = reference.replace("/", "_")
        image = {"Architecture": arch, "Id": "sha256:1d", "RepoDigests": [f"x@{digest}"] if digest else []}
        image["Config"] = {"Labels": {f"ai.rlinf.npu.{label}": value for label, value in labels.items()} or None}
        (self.local / name).write_text(json.dumps(image))
        if also:
            (self.local / f"{name}.{also}").touch()

    def offers(self, reference: str, manifest: object = INDEX, image: object = None) -> None:
        """As buildx shows it: nothing but what is known."""
        answer = {"name": reference, "manifest": manifest, "image": image}
        (self.remote / reference.replace("/", "_")).write_text(json.dumps({k: v for k, v in answer.items() if v}))


@pytest.fixture
def fake(programs: AddProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    monkeypatch.setattr(bases, "ensure_emulation", lambda *_, **__: None)
    monkeypatch.setattr(bases, "bootstrap_debian", lambda *_: pytest.fail("must not bootstrap"))
    return FakeDocker(programs, tmp_path)


@pytest.fixture
def amd64(manifest: Manifest) -> Platform:
    return manifest.get_platform("amd64")


def resolve(manifest: Manifest, kind: str, platform: Platform, said: Said) -> bases.ResolvedBase:
    return resolve_base(manifest, LocalImages(ENGINE, platform), kind, NetworkSettings(), said, Prober(5))


def test_each_image_is_inspected_once_for_the_questions_and_for_the_answer(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said
) -> None:
    fake.has("debian:bookworm")
    local, network = LocalImages(ENGINE, amd64), NetworkSettings()
    probes = base_probes(manifest, local, "auto", network)
    assert {probe.name for probe in probes} == set(cann_references(manifest, network))
    resolve_base(manifest, local, "auto", network, said, Prober(5))
    inspected = [line for line in fake.log.read_text().splitlines() if line.startswith("image inspect")]
    assert len(inspected) == len(set(inspected)) == len(probes) + 1


def test_references_follow_the_vendors_grammar_and_the_mirror_goes_first(manifest: Manifest) -> None:
    assert cann_references(manifest, NetworkSettings())[:2] == [CANN, QUAY]
    mirrored = cann_references(manifest, NetworkSettings(repositories=("mirror/cann", "quay.io/ascend/cann")))
    assert [name.partition(":")[0] for name in mirrored] == [
        "mirror/cann",
        "quay.io/ascend/cann",
        "swr.cn-south-1.myhuaweicloud.com/ascendhub/cann",
        "docker.io/ascendai/cann",
    ]


def test_a_local_cann_image_needs_no_registry(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said
) -> None:
    fake.has(QUAY)
    base = resolve(manifest, "auto", amd64, said)
    assert (base.kind, base.os, base.name, base.digest) == ("cann", "ubuntu22.04", QUAY, "sha256:l0cal")
    assert base.contexts == {"cann": f"docker-image://{QUAY}"}  # by tag: a digest would ask the registry
    assert "imagetools" not in fake.log.read_text()


@pytest.mark.parametrize("kind", ["auto", "cann"])
def test_a_stand_in_with_the_vendors_name_is_never_taken_for_the_vendors_image(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, kind: str
) -> None:
    fake.has(QUAY, simulated="true")
    base = resolve(manifest, kind, amd64, said)
    assert (base.kind, base.os, base.contexts) == ("sim", "ubuntu22.04", {"cann": f"docker-image://{QUAY}"})
    assert [line for line in said if "SIMULATED" in line and "-sim" in line]


def test_a_remote_cann_image_is_pinned_by_digest_first_registry_first(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said
) -> None:
    fake.offers(CANN)
    fake.offers(QUAY)
    base = resolve(manifest, "cann", amd64, said)
    assert base.contexts == {"cann": f"docker-image://{CANN}@sha256:1dex"}
    assert len([line for line in said if line.startswith("  probe ")]) == 3


def configured(simulated: str, arch: str = "amd64") -> dict[str, object]:
    return {"architecture": arch, "os": "linux", "config": {"Labels": {"ai.rlinf.npu.simulated": simulated}}}


SINGLE = {"digest": "sha256:1dex", "mediaType": "application/vnd.oci.image.manifest.v1+json", "size": 7}
BOTH = {"linux/amd64": configured("true"), "linux/arm64": configured("true", "arm64")}


@pytest.mark.parametrize("kind", ["auto", "cann"])
@pytest.mark.parametrize(("answer", "image"), [(SINGLE, configured("true")), (INDEX, BOTH)])
def test_a_stand_in_at_a_registry_is_never_taken_for_the_vendors_image(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, kind: str, answer: object, image: object
) -> None:
    """A company's mirror, or a cache, under a name that the vendor's image is looked for by."""
    fake.offers(QUAY, answer, image)
    base = resolve(manifest, kind, amd64, said)
    assert (base.kind, base.os, base.digest) == ("sim", "ubuntu22.04", "sha256:1dex")
    assert base.contexts == {"cann": f"docker-image://{QUAY}@sha256:1dex"}
    assert [line for line in said if QUAY in line and "SIMULATED" in line and "-sim" in line]
    assert fake.log.read_text().count(f"imagetools inspect {QUAY} ") == 1


@pytest.mark.parametrize(
    ("answer", "image"),
    [
        (
            INDEX,
            {"linux/amd64": configured("false"), "linux/arm64": configured("true", "arm64")},
        ),  # the other one's label
        (INDEX, {"linux/arm64": configured("true", "arm64")}),
        (INDEX, {"linux/amd64": {"architecture": "amd64", "os": "linux", "config": {"Labels": None}}}),
        (INDEX, {"linux/amd64": {"architecture": "amd64", "os": "linux"}}),
        (INDEX, None),
        (SINGLE, {"architecture": "amd64", "os": "linux", "config": {}}),
        (SINGLE, None),
    ],
)
def test_an_image_at_a_registry_that_does_not_say_simulated_is_the_vendors(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, answer: object, image: object
) -> None:
    fake.offers(CANN, answer, image)
    assert resolve(manifest, "cann", amd64, said).kind == "cann"


@pytest.mark.parametrize("name", ["linux/arm64", "linux/arm64/v8"])
def test_a_foreign_platforms_own_label_counts(fake: FakeDocker, manifest: Manifest, said: Said, name: str) -> None:
    fake.offers(CANN, INDEX, {"linux/amd64": configured("false"), name: configured("true", "arm64")})
    assert resolve(manifest, "cann", manifest.get_platform("arm64"), said).kind == "sim"


def test_an_image_without_the_wanted_platform_does_not_count(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said
) -> None:
    fake.has(CANN, arch="arm64")
    fake.offers(CANN, {"digest": "sha256:a", "manifests": [{"platform": {"architecture": "arm64"}}]})
    with pytest.raises(Problem, match=r"neither here nor in reach \(not for linux/amd64, no such host\)"):
        resolve(manifest, "cann", amd64, said)


def test_a_second_platform_under_the_same_tag_is_found(fake: FakeDocker, manifest: Manifest, said: Said) -> None:
    fake.has(CANN, arch="amd64", also="arm64")
    base = resolve(manifest, "cann", manifest.get_platform("arm64"), said)
    assert base.name == CANN
    assert fake.log.read_text().endswith("rm c0ffee\n")


def test_auto_falls_back_in_two_lines(fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said) -> None:
    fake.has("debian:bookworm")
    base = resolve(manifest, "auto", amd64, said)
    assert (base.kind, base.os, base.contexts) == ("sim", "debian12", {"debian": "docker-image://debian:bookworm"})
    told = [line for line in said if not line.startswith("  probe ")]
    assert len(told) == 2
    assert "no such host" in told[0]
    assert "SIMULATED" in told[1]
    assert "BASE=cann" in told[1]


def test_cann_never_falls_back(fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said) -> None:
    fake.has("debian:bookworm")
    with pytest.raises(Problem, match=r"BASE=sim") as caught:
        resolve(manifest, "cann", amd64, said)
    assert caught.value.exit_code == 1


def test_sim_asks_no_vendor_registry(fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said) -> None:
    fake.has("debian:bookworm", digest="")
    base = resolve(manifest, "sim", amd64, said)
    assert base.digest == "sha256:1d"  # the old store has no digest for an import
    assert "cann" not in fake.log.read_text()


def test_debian_is_pulled_where_a_registry_answers(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said
) -> None:
    fake.offers("debian:bookworm")
    assert resolve(manifest, "sim", amd64, said).digest == "sha256:1dex"
    assert "pull --platform linux/amd64 debian:bookworm" in fake.log.read_text()


def test_else_debian_is_bootstrapped_under_a_name_of_its_own_for_each_platform(
    fake: FakeDocker, manifest: Manifest, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.has("debian:bookworm", arch="amd64")  # must not be taken for arm64
    monkeypatch.setattr(bases, "bootstrap_debian", lambda *args: fake.has(args[4], arch="arm64"))
    base = resolve(manifest, "sim", manifest.get_platform("arm64"), said)
    day = manifest.apt.date.lower()
    assert base.contexts == {"debian": f"docker-image://rlinf-npu/debian:bookworm-arm64-{day}"}
    monkeypatch.setattr(bases, "bootstrap_debian", lambda *_: pytest.fail("once is enough"))
    assert resolve(manifest, "sim", manifest.get_platform("arm64"), said) == base


def test_a_bootstrapped_debian_of_another_day_is_not_taken(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files carry apt.date: the image on it would not be the one that a new machine builds."""
    monkeypatch.setattr(bases, "bootstrap_debian", lambda *args: fake.has(args[4]))
    today = resolve(manifest, "sim", amd64, said)
    moved = manifest.model_copy(update={"apt": manifest.apt.model_copy(update={"date": "20301231T000000Z"})})
    later = resolve(moved, "sim", amd64, said)
    assert later.name == "rlinf-npu/debian:bookworm-amd64-20301231t000000z" != today.name


def test_an_unknown_base_is_a_usage_error(fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said) -> None:
    with pytest.raises(Problem, match="BASE='cuda' is not a base") as caught:
        resolve(manifest, "cuda", amd64, said)
    assert caught.value.exit_code == 2


# --- bootstrap --------------------------------------------------------------------------------------------------------


def write_root(root: Path, day: int) -> None:
    """A bootstrapped root with what must not get into an image."""
    for name in ("etc/hostname", "etc/resolv.conf", "etc/passwd-", "etc/apt/sources.list", "var/log/bootstrap.log"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"of this machine, day {day}")
    for name in ("var/lib/apt/lists/partial", "var/cache/apt/archives", "dev/pts", "etc/apt/sources.list.d"):
        (root / name).mkdir(parents=True)
    (root / "var/lib/apt/lists/deb_Packages").write_text("list")
    (root / "etc/shadow").write_text(f"root:*:{day}:0:99999:7:::\nsync:*:{day}:0:99999:7:::\n")
    (root / "etc/os-release").write_text("ID=debian\n")
    os.utime(root / "etc/os-release", (1000, 1000))  # as packed in a package: a time that must stay


def test_nothing_of_this_machine_or_day_stays_in_the_root(tmp_path: Path) -> None:
    write_root(tmp_path, 20700)
    bootstrap.clean_root(tmp_path, 86400 * 20000)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert files == ["etc/machine-id", "etc/os-release", "etc/shadow"]
    assert (tmp_path / "etc/shadow").read_text().splitlines()[1] == "sync:*:20000:0:99999:7:::"
    assert (tmp_path / "etc/machine-id").read_text() == ""
    assert not any((tmp_path / "dev").iterdir())


@pytest.fixture
def bootstrapping(
    fake: FakeDocker, programs: AddProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> FakeDocker:
    """A debootstrap that copies a root made by the test; `unshare` just runs it."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("imagekit.apt.KEYRING", "/dev/null")
    monkeypatch.setattr(bootstrap, "SCRATCH", tmp_path / "scratch")
    programs("unshare", 'shift; exec "$@"')
    programs("debootstrap", f'PATH=$BIN; echo "$@" > {tmp_path}/arguments; cp -rp {tmp_path}/root "$5"; touch "$5/etc"')
    for name in ("tar", "sleep"):
        programs(name, f'PATH=$BIN exec {name} "$@"')
    return fake


def test_two_bootstraps_give_the_same_image(
    bootstrapping: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, tmp_path: Path
) -> None:
    digests = []
    for day in (20700, 20800):
        write_root(tmp_path / "root", day)
        bootstrap.bootstrap_debian(manifest, ENGINE, amd64, NetworkSettings(), "try:amd64", said)
        (image,) = read_layout(tmp_path / "loaded.tar")
        digests.append(image.digest)
        (tmp_path / "root").rename(tmp_path / f"root-{day}")
    assert digests[0] == digests[1]
    assert image.config["architecture"] == "amd64"
    assert bootstrapping.log.read_text().splitlines()[-1] == "load"


def test_the_mirror_is_used_but_does_not_stay(
    bootstrapping: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, tmp_path: Path
) -> None:
    write_root(tmp_path / "root", 20700)
    network = NetworkSettings(apt="https://mirror.example")
    bootstrap.bootstrap_debian(manifest, ENGINE, amd64, network, "try:amd64", said)
    assert (tmp_path / "arguments").read_text().endswith("https://mirror.example/debian\n")
    (image,) = read_layout(tmp_path / "loaded.tar")
    (layer,) = image.layers
    found = facts(image, layer)
    text = content(image, layer, "/etc/apt/sources.list.d/debian.sources").decode()
    names = [tuple(name.split("/")) for name in found]
    assert names == sorted(names)
    assert found["/etc/os-release"].time == "1000"
    assert found["/etc/shadow"].time == str(manifest.apt.seconds)
    assert "mirror.example" not in text
    assert "Suites: bookworm bookworm-updates\n" in text
    assert "Suites: bookworm-security\n" in text


def test_a_dated_debian_comes_from_the_server_that_keeps_that_day(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Debian is here or at a registry: APT=snapshot is exact."""
    fake.has("debian:bookworm")
    name = f"rlinf-npu/debian:bookworm-amd64-{manifest.apt.date.lower()}-snapshot"
    fake.has(name)
    found = resolve_base(manifest, LocalImages(ENGINE, amd64), "sim", NetworkSettings(), said, Prober(5), dated=True)
    assert found.name == name
    fake.local.joinpath(name.replace("/", "_")).unlink()
    archives: list[str] = []
    monkeypatch.setattr(bases, "bootstrap_debian", lambda *args: (fake.has(args[4]), archives.append(args[6])))
    resolve_base(manifest, LocalImages(ENGINE, amd64), "sim", NetworkSettings(), said, Prober(5), dated=True)
    assert archives == [f"https://snapshot.debian.org/archive/debian/{manifest.apt.date}"]


def test_a_failed_bootstrap_imports_nothing(
    bootstrapping: FakeDocker, programs: AddProgram, manifest: Manifest, amd64: Platform, said: Said, tmp_path: Path
) -> None:
    programs("debootstrap", "echo 'E: Failed getting release file'; exit 1")
    with pytest.raises(Problem, match=r"debootstrap failed: E: Failed getting release file"):
        bootstrap.bootstrap_debian(manifest, ENGINE, amd64, NetworkSettings(), "try:amd64", said)
    assert not (tmp_path / "loaded.tar").exists()


def test_bootstrapping_needs_root(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Problem, match=r"no registry offers debian:bookworm and bootstrapping it needs root"):
        bootstrap.bootstrap_debian(manifest, ENGINE, amd64, NetworkSettings(), "try:amd64", said)


# --- emulation --------------------------------------------------------------------------------------------------------

KERNEL_SAYS = """enabled
interpreter /usr/bin/qemu-aarch64
flags: {flags}
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""


@pytest.fixture
def binfmt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "binfmt_misc"
    folder.mkdir()
    (folder / "register").touch()
    monkeypatch.setattr(emulation, "BINFMT", folder)
    monkeypatch.setattr(emulation, "registered_version", lambda _: "")  # what it says is in test_emulation.py
    return folder


def test_this_machines_own_platform_needs_nothing(amd64: Platform, said: Said) -> None:
    emulation.ensure_emulation(amd64, said, engine=ENGINE)
    assert said == []


@pytest.mark.parametrize(("flags", "fit"), [("OCF", True), ("F", True), ("OC", False)])
def test_only_a_registration_that_works_in_containers_counts(binfmt: Path, flags: str, fit: bool) -> None:
    (binfmt / "anything").write_text(KERNEL_SAYS.format(flags=flags))
    assert emulation.is_registered("aarch64") is fit
    assert not emulation.is_registered("x86_64")


def test_registering_writes_what_the_kernel_expects(binfmt: Path) -> None:
    emulation.register("aarch64", "/usr/bin/qemu-aarch64")
    line = (binfmt / "register").read_text()
    assert line.startswith(r":qemu-aarch64:M::\x7fELF\x02\x01\x01")
    assert line.endswith(":/usr/bin/qemu-aarch64:OCF")
    assert len(line) < 256  # the kernel takes no longer line


def test_without_root_the_way_out_is_named(
    programs: AddProgram, binfmt: Path, manifest: Manifest, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Problem, match=r"linux/arm64 programs cannot run on this .* no emulation; as root: .*qemu-user"):
        emulation.ensure_emulation(manifest.get_platform("arm64"), said, engine=ENGINE)


def test_a_base_for_another_platform_takes_qemu_from_the_mirror(
    fake: FakeDocker, manifest: Manifest, amd64: Platform, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(bases, "ensure_emulation", lambda *_, mirror, **__: asked.append(mirror))
    fake.has(manifest.base.sim.image)
    resolve_base(manifest, LocalImages(ENGINE, amd64), "sim", NetworkSettings(apt="https://m"), said, Prober(5))
    assert asked == ["https://m"]


def test_what_the_engine_emulates_already_is_left_as_it_is(
    programs: AddProgram, binfmt: Path, manifest: Manifest, said: Said
) -> None:
    programs("docker", 'echo "Platforms: linux/amd64, linux/amd64/v2, linux/arm64"')
    emulation.ensure_emulation(manifest.get_platform("arm64"), said, engine=ENGINE)
    assert said == []
    assert (binfmt / "register").read_text() == ""


def test_an_engine_elsewhere_is_asked_not_changed(programs: AddProgram, manifest: Manifest, said: Said) -> None:
    programs("docker", 'echo "Platforms: linux/amd64, linux/386"')
    remote = Engine(("docker",), {}, "ssh://lab", "26.1", "0.13", "2.26", "x86_64", True)
    with pytest.raises(Problem, match=r"the engine at ssh://lab cannot run linux/arm64"):
        emulation.ensure_emulation(manifest.get_platform("arm64"), said, engine=remote)
    programs("docker", 'echo "Platforms: linux/amd64, linux/arm64"')
    emulation.ensure_emulation(manifest.get_platform("arm64"), said, engine=remote)
