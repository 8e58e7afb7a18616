"""The plan is a pure function of the manifest and the request."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from imagekit import lookup
from imagekit.manifest import ROOT, Manifest, load_manifest
from imagekit.planner import Request, bake, describe, facts, labels, write_facts
from imagekit.tags import Flavour, tags


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest()


def request_for(manifest: Manifest, base: str = "sim", **changes: object) -> Request:
    platform, native = lookup.pick_platform(manifest, "linux/arm64")
    wanted = lookup.Wanted(platform, native, base, "git", None)
    request = lookup.offline_request(manifest, wanted)
    flavour = Flavour(base, request.flavour.os, "0.3.0-ga4b6abe", "0123456789ab", platform, native=True)
    return replace(request, flavour=flavour, created=1_700_000_000, **changes)


def test_the_simulated_base_replaces_only_the_vendors_image(manifest: Manifest) -> None:
    sim, cann = (bake(manifest, ["rlinf-npu"], request_for(manifest, base))["target"] for base in ("sim", "cann"))
    assert set(sim) - set(cann) == {"cann-sim", "sim-driver"}
    for name in ("cann-base", "rlinf-npu"):
        assert sim[name]["context"] == cann[name]["context"]
        assert sim[name]["args"] == cann[name]["args"]
    assert sim["cann-base"]["contexts"]["cann"] == "target:cann-sim"
    assert cann["cann-base"]["contexts"]["cann"].startswith(
        "docker-image://swr.cn-south-1.myhuaweicloud.com/ascendhub/cann:"
    )
    assert sim["rlinf-npu"]["contexts"]["cann-base"] == "target:cann-base"


def test_on_a_stand_in_with_the_vendors_name_none_of_our_bases_is_built(manifest: Manifest) -> None:
    real = request_for(manifest, "cann")
    stand_in = replace(real, flavour=replace(real.flavour, base="sim"))
    targets = bake(manifest, ["rlinf-npu"], stand_in)["target"]
    assert set(targets) == {"cann-base", "rlinf-npu"}
    assert targets["cann-base"]["contexts"]["cann"] == real.base_contexts["cann"]
    for target in targets.values():
        assert all("-ubuntu22.04-" in tag and tag.endswith("-sim") for tag in target["tags"])
        assert target["labels"]["ai.rlinf.npu.simulated"] == "true"


def test_tags_follow_the_vendors_grammar(manifest: Manifest) -> None:
    flavour = request_for(manifest).flavour
    stem = "8.3.rc1-910b-debian12-py3.11"
    assert tags(manifest, "cann-sim", flavour) == [f"cann-sim:{stem}-sim", f"cann-sim:{stem}-0123456789ab-sim"]
    assert tags(manifest, "rlinf-npu", flavour)[0] == f"rlinf-npu:0.3.0-ga4b6abe-cann{stem}-sim"
    real = replace(flavour, base="cann", os="ubuntu22.04")
    assert tags(manifest, "rlinf-npu", real)[0] == "rlinf-npu:0.3.0-ga4b6abe-cann8.3.rc1-910b-ubuntu22.04-py3.11"


def test_a_foreign_platform_and_an_unfixed_tree_show_in_every_tag(manifest: Manifest) -> None:
    flavour = replace(request_for(manifest).flavour, native=False, fixes=False)
    assert all("-arm64" in tag and tag.endswith("-unfixed-sim") for tag in tags(manifest, "rlinf-npu", flavour))


def test_labels_say_what_is_inside(manifest: Manifest) -> None:
    request = request_for(manifest, base_digest="sha256:" + "0" * 64)
    found = labels(manifest, manifest.get_image("rlinf-npu"), request)
    oci = "org.opencontainers.image."
    for name in (
        "title",
        "description",
        "version",
        "revision",
        "source",
        "licenses",
        "created",
        "base.name",
        "base.digest",
    ):
        assert found[oci + name], name
    assert found[oci + "created"] == "2023-11-14T22:13:20Z"
    ours = manifest.project.label_prefix + "."
    assert found[ours + "base"] == "sim"
    assert found[ours + "simulated"] == "true"
    assert found[ours + "torch-npu"] == manifest.versions.torch_npu
    assert found[ours + "rlinf.revision"] == manifest.rlinf.revision


def test_secrets_are_files_and_never_arguments(manifest: Manifest) -> None:
    request = request_for(manifest, secrets={"ca": Path("/run/x/ca"), "net": Path("/run/x/net")})
    plan = bake(manifest, ["rlinf-npu"], request)
    for target in plan["target"].values():
        assert target["secret"] == ["id=ca,src=/run/x/ca", "id=net,src=/run/x/net"]
        assert not [a for a in target["args"] if "proxy" in a.lower() or "mirror" in a.lower() or "index" in a.lower()]


def test_facts_hold_no_mirror_and_no_registry(manifest: Manifest, tmp_path: Path) -> None:
    text = json.dumps(facts(manifest, request_for(manifest)))
    for mirror in manifest.mirrors.values():
        assert mirror.apt not in text
        assert mirror.pypi not in text
    path = write_facts(manifest, request_for(manifest), tmp_path) / "facts.json"
    before = path.stat().st_mtime_ns
    write_facts(manifest, request_for(manifest), tmp_path)
    assert path.stat().st_mtime_ns == before, "an unchanged file must keep its time"


def test_the_plan_is_the_same_every_time(manifest: Manifest) -> None:
    request = request_for(manifest)
    assert json.dumps(bake(manifest, ["rlinf-npu"], request)) == json.dumps(bake(manifest, ["rlinf-npu"], request))


def test_what_plan_does_not_look_up_is_said(manifest: Manifest) -> None:
    def said(**wanted: str) -> str:
        asked = {"base": "sim", "source": "git", "torch": "pypi"} | wanted
        platform = manifest.get_platform("amd64")
        return "\n".join(lookup.assumptions(manifest, lookup.Wanted(platform, True, mirror=None, **asked)))

    assert said() == ""
    version = manifest.versions.rlinf
    assert f"takes rlinf {version} from PyPI, and the tag begins with {version}-cann" in said(source="auto")
    assert "not read" in said(source="/some/folder")
    assert "CANN image" in said(base="auto")
    assert "CPU wheels" in said(torch="auto")


def test_the_table_shows_what_stands_on_what(manifest: Manifest) -> None:
    rows = {name: below for name, below, _ in describe(manifest, ["rlinf-npu"], request_for(manifest))}
    assert rows == {
        "cann-sim": "debian:bookworm",
        "cann-base": "cann-sim",
        "rlinf-npu": "cann-base",
        "sim-driver": "cann-sim",
    }
    real = {name: below for name, below, _ in describe(manifest, ["rlinf-npu"], request_for(manifest, "cann"))}
    assert real["cann-base"].startswith("swr.cn-south-1.myhuaweicloud.com/")


def test_every_version_stands_in_the_manifest_once() -> None:
    """A version written in a Dockerfile would be a second truth."""
    manifest = load_manifest()
    root = Path(__file__).resolve().parents[3]
    versions = {v for k, v in manifest.versions.model_dump().items() if k not in ("chip", "soc", "rlinf")}
    for dockerfile in root.glob("images/*/Dockerfile"):
        lines = [line for line in dockerfile.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        assert not [line for line in lines for version in versions if version in line], dockerfile


def test_steps_are_kept_in_a_registry_only_when_one_is_named(manifest: Manifest) -> None:
    without = bake(manifest, ["rlinf-npu"], request_for(manifest))["target"]
    assert not any("cache-to" in target and target["cache-to"] for target in without.values())
    plan = bake(manifest, ["rlinf-npu"], request_for(manifest, registry_cache="h.io/us/cache"))["target"]
    assert plan["rlinf-npu"]["cache-from"] == ["type=registry,ref=h.io/us/cache:buildcache-rlinf-npu-arm64"]
    assert "mode=max" in plan["cann-base"]["cache-to"][0]
    assert plan["sim-driver"]["cache-to"] == []  # it is cann-sim once more


def test_bytecode_of_a_test_run_builds_nothing_again(manifest: Manifest) -> None:
    """Tests import from build contexts; what Python leaves there must not change a layer."""
    targets = bake(manifest, ["rlinf-npu"], request_for(manifest))["target"].values()
    used = {target["context"] for target in targets} | {c for target in targets for c in target["contexts"].values()}
    ours = {Path(context) for context in used if context.startswith((f"{ROOT}/runtime", f"{ROOT}/images/"))}
    with_python = {context for context in ours if any(context.rglob("*.py"))}
    assert {context.name for context in with_python} == {"runtime", "stubgen", "cann-sim", "rlinf-npu"}
    for context in with_python:
        assert "**/__pycache__" in (context / ".dockerignore").read_text(encoding="utf-8").splitlines(), context


def test_steps_are_dated_by_the_packages_not_by_the_commit(manifest: Manifest) -> None:
    """Else every commit would build every step again; but nothing is newer than SOURCE_DATE_EPOCH."""
    late, early = manifest.apt.seconds + 1000, manifest.apt.seconds - 1000
    for created, date in ((late, manifest.apt.seconds), (late + 5, manifest.apt.seconds), (early, early)):
        request = replace(request_for(manifest), created=created)
        for target in bake(manifest, ["rlinf-npu"], request)["target"].values():
            assert target["args"]["FILE_DATE"] == str(date)


def test_layouts_are_the_same_images_at_another_place(manifest: Manifest) -> None:
    here, there = (bake(manifest, ["rlinf-npu"], request_for(manifest, layouts=to)) for to in (None, Path("/to")))
    assert here["target"]["rlinf-npu"]["output"][0].startswith("type=image,oci-mediatypes=true,compression=zstd")
    assert there["target"]["rlinf-npu"].pop("output") == [
        here["target"]["rlinf-npu"].pop("output")[0].replace("type=image", "type=oci,tar=false,dest=/to/rlinf-npu")
    ]
    assert here["target"]["rlinf-npu"] == there["target"]["rlinf-npu"]


def test_a_dated_build_names_its_servers_and_no_other_does(manifest: Manifest) -> None:
    for apt, named in (("locked", False), ("snapshot", True)):
        arguments = bake(manifest, ["cann-base"], request_for(manifest, apt=apt))["target"]["cann-base"]["args"]
        assert arguments["APT"] == apt
        assert (manifest.apt.date in arguments["APT_SERVERS"]) == named
