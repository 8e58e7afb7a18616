"""INSTALLER=upstream: RLinf's own requirements/install.sh in place of the lock."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hostkit import AddProgram, Said, Serve

from imagekit import installers, lookup
from imagekit.errors import Problem
from imagekit.locks import locked_versions
from imagekit.manifest import Installer, Manifest
from imagekit.network import NetworkSettings
from imagekit.planner import Request, bake, facts, labels
from imagekit.probe import Prober
from imagekit.publish.identity import identify, releases
from imagekit.tags import tags

pytestmark = pytest.mark.programs

SILENT = "http://127.0.0.1:9/nothing-listens"


def request_for(manifest: Manifest, installer: Installer) -> Request:
    platform, native = lookup.pick_platform(manifest, "linux/arm64")
    wanted = lookup.Wanted(platform, native, "sim", "git", None, installer=installer)
    return lookup.offline_request(installers.as_installed(manifest, installer), wanted)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that could be RLinf's."""
    (tmp_path / "RLinf" / "requirements").mkdir(parents=True)
    (tmp_path / "RLinf" / installers.SCRIPT).write_text("")
    return tmp_path / "RLinf"


@pytest.mark.parametrize(
    ("installer", "source", "torch", "said"),
    [
        ("pip", "auto", "auto", r"INSTALLER='pip' is not an installer; use lock or upstream"),
        ("upstream", "pypi", "auto", r"which SOURCE=pypi does not have; use SOURCE=git"),
        ("upstream", "/", "auto", r"SOURCE=/ holds no requirements/install\.sh"),
        ("upstream", "auto", "cpu", r"not from where TORCH=cpu does; leave TORCH out"),
    ],
)
def test_where_it_cannot_work_it_is_refused(installer: str, source: str, torch: str, said: str) -> None:
    with pytest.raises(Problem, match=said) as caught:
        installers.check_wanted(installer, source, torch)
    assert caught.value.exit_code == 2


def test_where_it_can_work(checkout: Path) -> None:
    assert installers.check_wanted("upstream", "git", "auto") == "upstream"
    assert installers.check_wanted("upstream", str(checkout), "pypi") == "upstream"
    assert installers.check_wanted("lock", "pypi", "cpu") == "lock"


def test_labels_and_facts_follow_what_it_installs(manifest: Manifest) -> None:
    upstream = installers.as_installed(manifest, "upstream")
    request = request_for(manifest, "upstream")
    found = labels(upstream, upstream.get_image("rlinf-npu"), request)
    ours = manifest.project.label_prefix
    assert found[f"{ours}.installer"] == "upstream"
    assert found[f"{ours}.torch-npu"] == manifest.versions.torch_npu
    known = facts(upstream, request)
    assert known["installer"] == "upstream"
    assert "tensorflow" in known["python"]["excluded"]
    assert "opencv-python" not in known["python"]["excluded"]  # upstream's set has it: the doctor must not mind


def test_its_image_has_a_size_of_its_own(manifest: Manifest) -> None:
    upstream = installers.as_installed(manifest, "upstream")
    assert upstream.get_image("rlinf-npu").budget_mib == manifest.upstream.budget_mib
    assert upstream.get_image("cann-base") == manifest.get_image("cann-base")


@pytest.mark.parametrize("platform", ["linux/arm64", "linux/amd64"])
def test_what_is_put_in_place_is_the_locks(manifest: Manifest, platform: str) -> None:
    """Where the lock lacks one, no image could be planned."""
    locked = locked_versions(manifest.get_platform(platform))
    assert set(manifest.upstream.repair) <= locked.keys()
    assert locked["torch-npu"] == manifest.versions.torch_npu


def test_without_it_nothing_changes(manifest: Manifest) -> None:
    assert installers.as_installed(manifest, "lock") is manifest
    arguments = bake(manifest, ["rlinf-npu"], request_for(manifest, "lock"))["target"]["rlinf-npu"]["args"]
    everywhere = {"SOURCE_DATE_EPOCH", "FILE_DATE", "PYTHON_VERSION"}
    assert arguments.keys() == everywhere | {"UV_VERSION", "NPU_FIXES", "INSTALLER"}
    assert arguments["INSTALLER"] == "lock"


def test_the_plan_calls_it_as_the_manifest_says(manifest: Manifest) -> None:
    upstream = installers.as_installed(manifest, "upstream")
    arguments = bake(upstream, ["rlinf-npu"], request_for(manifest, "upstream"))["target"]["rlinf-npu"]["args"]
    assert arguments["INSTALLER"] == "upstream"
    assert arguments["INSTALL_ARGUMENTS"] == "--platform ascend embodied --model openpi --env maniskill_libero"
    repaired = dict(each.split("==") for each in arguments["REPAIR"].split())
    assert repaired.keys() == set(manifest.upstream.repair)
    assert repaired.items() <= locked_versions(manifest.get_platform("arm64")).items()
    assert f"torch-npu=={repaired['torch-npu']}" in arguments["PROMISED"].split()
    assert {"libcst", "typer"} <= set(arguments["OWN"].split())  # of the fixes and the commands
    assert {"tensorflow*", "torchcodec"} <= set(arguments["STRIP"].split())
    assert not [value for value in arguments.values() if "mirror" in value]  # it comes as a secret


def test_its_images_never_take_the_other_ones_tags(manifest: Manifest) -> None:
    upstream, lock = (request_for(manifest, installer) for installer in ("upstream", "lock"))
    ours, theirs = (set(tags(manifest, "rlinf-npu", each.flavour)) for each in (upstream, lock))
    assert all(tag.endswith("-upstream-sim") for tag in ours)
    assert not ours & theirs
    config = {
        "architecture": "arm64",
        "os": "linux",
        "config": {"Labels": labels(manifest, manifest.get_image("rlinf-npu"), upstream)},
    }
    assert releases(manifest, identify(manifest, config)).readable.endswith("-upstream-sim")


def reach(manifest: Manifest, git: str, page: str) -> Manifest:
    upstream = manifest.upstream.model_copy(update={"git": [git], "pages": [page]})
    return manifest.model_copy(update={"upstream": upstream})


@pytest.fixture
def answering(serve: Serve) -> str:
    return f"http://{serve(lambda _: (200, b''))}/"


def look(manifest: Manifest, source: str, said: Said) -> None:
    network = NetworkSettings(no_proxy="*")
    probes = installers.upstream_probes(manifest, "upstream", None, network, 5)
    installers.check_reach(manifest, source, probes, Prober(5), said)


def test_each_address_that_does_not_answer_is_named(manifest: Manifest, answering: str, said: Said) -> None:
    with pytest.raises(Problem, match=rf"needs what does not answer: {SILENT}; .* INSTALLER=lock"):
        look(reach(manifest, SILENT, answering), "git", said)
    assert f"  probe {answering}: in reach" in said.text


def test_a_folder_of_ones_own_may_fetch_from_elsewhere(manifest: Manifest, answering: str, said: Said) -> None:
    look(reach(manifest, SILENT, answering), "/somewhere/RLinf", said)
    assert said[-1].startswith("note: RLinf's own requirements/install.sh")


def test_the_lock_asks_for_none_of_it(manifest: Manifest) -> None:
    assert installers.upstream_probes(manifest, "lock", None, NetworkSettings(), 5) == []


def test_under_a_mirror_its_own_mirrors_are_asked(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GIT_CONFIG_COUNT", raising=False)  # this machine's own settings of git come before ours
    mirror = manifest.mirrors["cn"]
    network = NetworkSettings.from_host(mirror, environ={})
    probes = installers.upstream_probes(manifest, "upstream", mirror, network, 5)
    pages = [probe.name for probe in probes if probe.stdin]
    assert f"{mirror.git_prefix}https://github.com/sapien-sim/physx-precompiled/releases" in pages
    assert f"{mirror.huggingface}/RLinf/openpi_tokenizer" in pages
    assert all(probe.env["GIT_CONFIG_VALUE_0"] == "https://github.com/" for probe in probes if not probe.stdin)


# --- what the build learns about git on this machine ------------------------------------------------------------------


def test_the_users_own_rewriting_of_urls_enters_the_build(tmp_path: Path) -> None:
    rules = {
        "https://user:p%22ss@git.corp/github/": "https://github.com/",
        "/srv/local.git": "https://github.com/me/own",
        "git@git.corp:": "https://github.com/keyed/",
    }
    environ = {"GIT_CONFIG_COUNT": str(len(rules)), "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    for number, (url, replaced) in enumerate(rules.items()):
        environ |= {f"GIT_CONFIG_KEY_{number}": f"url.{url}.insteadOf", f"GIT_CONFIG_VALUE_{number}": replaced}
    network = NetworkSettings.from_host(environ=environ, root=tmp_path)
    assert "p%22ss" not in repr(network)
    with network.secrets() as paths:
        env = {"GIT_CONFIG_GLOBAL": str(paths["gitconfig"]), "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin"}
        command = ["git", "config", "--global", "--get-regexp", "^url"]
        read = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert read == "url.https://user:p%22ss@git.corp/github/.insteadof https://github.com/\n"


def test_the_mirrors_argument_comes_as_a_secret(programs: AddProgram) -> None:
    network = replace(NetworkSettings(), install_mirror="--use-mirror")
    with network.secrets() as paths:
        assert paths["net"].read_text() == "INSTALL_MIRROR=--use-mirror\n"
