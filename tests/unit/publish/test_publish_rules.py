"""What may be published, decided without a registry: tags, waivers, verdicts, scanners' words, differences."""

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from imagekit.errors import Problem
from imagekit.manifest import KnownVulnerability, Manifest, Waiver, load_manifest
from imagekit.publish import (
    attachments,
    budget,
    cache,
    evidence,
    last,
    scanners,
    signing,
    suites,
    transfer,
    vulnerabilities,
)
from imagekit.publish.evidence import Evidence, SuiteRun
from imagekit.publish.identity import content_hash, identify, refuse_unfixed, releases
from imagekit.publish.junit import outcomes
from imagekit.publish.place import by_digest, repository
from imagekit.publish.sbom import Package, packages, words
from imagekit.publish.scanners import Found, Scan
from imagekit.registry import (
    Altered,
    Descriptor,
    NotFound,
    Reference,
    RegistryClient,
    Unauthorised,
    Unreachable,
    Untrusted,
    canonical,
)
from imagekit.registry import Manifest as ImageManifest

TODAY = date(2026, 11, 29)
IMAGE = Reference("h.io", "us/rlinf-npu", "", "sha256:" + "a" * 64)
JUNIT = b"""<testsuites><testsuite>
<testcase classname="a.b" name="good"/><testcase classname="a.b" name="late"><skipped message="no card"/></testcase>
%s</testsuite></testsuites>"""
UNCHECKED = {"status": "not checked", "tool": "x", "scope": "x", "note": "why", "findings": []}
GROWN = {"status": "failed", "size": 2, "last_size": 1, "last_digest": "", "note": "grown", "difference": []}
BAD = b'<testcase classname="a.b" name="bad"><failure message="no">text</failure></testcase>'


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    whole = load_manifest()
    return whole.model_copy(update={"publish": whole.publish.model_copy(update={"waiver": [], "vulnerability": []})})


def config(manifest: Manifest, arch: str = "amd64", **labels: str) -> dict[str, Any]:
    """A registry's configuration of an image of ours."""
    prefix = manifest.project.label_prefix
    known = {
        "org.opencontainers.image.title": manifest.image[-1].title,
        "org.opencontainers.image.revision": "0123456789ab",
        "org.opencontainers.image.version": "0.3.0",
        f"{prefix}.base": "cann",
        f"{prefix}.simulated": "false",
        f"{prefix}.cann": manifest.versions.cann,
        f"{prefix}.chip": manifest.versions.chip,
    }
    found = known | {name.replace("OURS", prefix): value for name, value in labels.items()}
    return {"architecture": arch, "os": "linux", "config": {"Labels": found}, "rootfs": {"diff_ids": ["sha256:1"]}}


# --- identity and tags ------------------------------------------------------------------------------------------------


def test_release_tags(manifest: Manifest) -> None:
    found = identify(manifest, config(manifest, "arm64"))
    tags, stem = releases(manifest, found), "0.3.0-cann8.3.rc1-910b-ubuntu22.04-py3.11"
    assert (tags.readable, tags.immutable) == (stem, f"{stem}-0123456789ab")
    assert (tags.arch_readable, tags.arch_immutable) == (f"{stem}-arm64", f"{stem}-0123456789ab-arm64")
    assert found.candidate == "candidate-0123456789ab-arm64"


@pytest.mark.parametrize(
    "labels", [{"OURS.base": "sim", "OURS.simulated": "true"}, {"OURS.simulated": ""}, {"OURS.base": "x"}]
)
def test_what_does_not_clearly_say_real_is_simulated(manifest: Manifest, labels: dict[str, str]) -> None:
    found = identify(manifest, config(manifest, **labels))
    tags = releases(manifest, found)
    assert found.simulated
    assert all(tag.endswith("-sim") for tag in vars(tags).values())
    assert found.candidate.endswith("-sim")


@pytest.mark.parametrize(
    ("base", "os"),
    [("docker.io/ascendai/cann:8.3.rc1-910b-ubuntu22.04-py3.11", "ubuntu22.04"), ("debian:bookworm", "debian12")],
)
def test_a_simulated_images_tags_name_its_distribution(manifest: Manifest, base: str, os: str) -> None:
    simulated = {"OURS.base": "sim", "OURS.simulated": "true", "org.opencontainers.image.base.name": base}
    assert f"-{os}-py3.11" in releases(manifest, identify(manifest, config(manifest, **simulated))).readable


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"org.opencontainers.image.title": "something"}, "no image of images.toml"),
        ({"OURS.cann": "7.0"}, "is 7.0, images.toml says"),
        ({"org.opencontainers.image.revision": ""}, "no label org.opencontainers.image.revision"),
    ],
)
def test_not_an_image_of_ours(manifest: Manifest, labels: dict[str, str], said: str) -> None:
    with pytest.raises(Problem, match=said):
        identify(manifest, config(manifest, **labels))


def test_no_platform_of_ours(manifest: Manifest) -> None:
    with pytest.raises(Problem, match="linux/riscv64"):
        identify(manifest, config(manifest, "riscv64"))


def test_unfixed(manifest: Manifest) -> None:
    with pytest.raises(Problem, match="never published"):
        refuse_unfixed(identify(manifest, config(manifest, **{"OURS.fixes": "none"})))


def test_content_hash(manifest: Manifest) -> None:
    one = config(manifest)
    assert content_hash(one) == content_hash(one | {"created": "2026", "history": [1]})
    assert content_hash(one) != content_hash(one | {"rootfs": {"diff_ids": ["sha256:2"]}})
    assert content_hash(one) != content_hash(config(manifest, other="label"))


def test_where_to(manifest: Manifest) -> None:
    assert str(repository(manifest, "rlinf-npu", {})) == f"{manifest.publish.registry}/rlinf-npu"
    assert str(repository(manifest, "x", {"REGISTRY": "h.io:5/us/"})) == "h.io:5/us/x"
    for wrong in ("h.io", "us/them", "https://h.io/us"):
        with pytest.raises(Problem):
            repository(manifest, "x", {"REGISTRY": wrong})


def test_by_digest_only() -> None:
    assert by_digest(f"h.io/us/x:t@{IMAGE.digest}").target == IMAGE.digest
    with pytest.raises(Problem, match="names no digest"):
        by_digest("h.io/us/x:t")


# --- evidence ---------------------------------------------------------------------------------------------------------


def run(junit: bytes = JUNIT % b"", **changes: Any) -> SuiteRun:
    passed, skipped, failed = evidence.summary(outcomes(junit))
    known = {"name": "full", "passed": passed, "skipped": skipped, "failures": failed, "seconds": 1.0, "cached": False}
    known |= {"finished": datetime.now(UTC), "junit": "full.xml", "sha256": hashlib.sha256(junit).hexdigest()}
    return SuiteRun(**(known | changes))


def seen(runs: list[SuiteRun] | None = None, **changes: Any) -> Evidence:
    """Evidence that is green."""
    clean = {"status": "passed", "tool": "trivy", "scope": "all", "note": "", "findings": []}
    size = {"status": "passed", "size": 1, "last_size": 0, "last_digest": "", "note": "", "difference": []}
    known: dict[str, Any] = {
        "schema_version": 1,
        "project": "x",
        "image": "rlinf-npu",
        "digest": IMAGE.digest,
        "content": "b" * 64,
        "platform": "linux/amd64",
        "revision": "0123456789ab",
        "simulated": True,
        "labels": {},
        "suite": "full",
        "suite_hash": "c" * 64,
        "started": datetime.now(UTC),
        "finished": datetime.now(UTC),
        "host": {},
        "versions": {},
        "runs": [run()] if runs is None else runs,
        "sboms": {},
        "vulnerabilities": clean,
        "budget": size,
        "waivers": [],
        "green": True,
    }
    return Evidence.model_validate(known | changes)


def waiving(manifest: Manifest, *waivers: Waiver) -> Manifest:
    return manifest.model_copy(update={"publish": manifest.publish.model_copy(update={"waiver": list(waivers)})})


def waiver(test: str, until: date = TODAY) -> Waiver:
    return Waiver(test=test, reason="known, being worked on", until=until)


def test_green(manifest: Manifest) -> None:
    assert evidence.complaints(seen(), manifest, TODAY) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs": [run(JUNIT % BAD)]}, "test failed: a.b.bad"),
        ({"runs": []}, "no suite was run"),
        ({"runs": [run(passed=0)]}, "no test has passed"),
        ({"vulnerabilities": UNCHECKED}, "not checked: why"),
        ({"budget": GROWN}, "size: grown"),
    ],
)
def test_red_whatever_the_verdict_says(manifest: Manifest, changes: dict[str, Any], said: str) -> None:
    assert said in " ".join(evidence.complaints(seen(**changes), manifest, TODAY))


def test_a_waiver_covers_until_its_day(manifest: Manifest) -> None:
    red = seen(runs=[run(JUNIT % BAD)])
    assert evidence.complaints(red, waiving(manifest, waiver("a.b.*")), TODAY) == []
    late = evidence.complaints(red, waiving(manifest, waiver("a.b.*", date(2026, 11, 28))), TODAY)
    assert late == ["test failed: a.b.bad", "the waiver for a.b.* ended on 2026-11-28 (known, being worked on)"]
    other = evidence.complaints(red, waiving(manifest, waiver("a.c.*")), TODAY)
    assert other == ["test failed: a.b.bad"]


def test_no_waiver_covers_nothing_tested(manifest: Manifest) -> None:
    assert evidence.complaints(seen(runs=[run(passed=0)]), waiving(manifest, waiver("*****")), TODAY)


def test_a_waiver_that_was_renewed(manifest: Manifest) -> None:
    red, over = seen(runs=[run(JUNIT % BAD)]), waiver("a.b.*", date(2026, 11, 28))
    assert evidence.complaints(red, waiving(manifest, over, waiver("a.b.bad")), TODAY) == []


def test_used_waivers_are_told() -> None:
    left, used, late = evidence.cover(["a.b.bad", "budget"], [waiver("a.*"), waiver("x.*")], TODAY, simulated=True)
    assert (left, [u.covers for u in used], late) == (["budget"], [["a.b.bad"]], [])


def test_a_waiver_for_simulated_images_covers_no_real_one(manifest: Manifest) -> None:
    limited = waiving(manifest, waiver("vulnerabilities not checked").model_copy(update={"simulated_only": True}))
    unchecked = {"vulnerabilities": UNCHECKED}
    assert evidence.complaints(seen(**unchecked, simulated=True), limited, TODAY) == []
    assert evidence.complaints(seen(**unchecked, simulated=False), limited, TODAY) == [
        "vulnerabilities not checked: why"
    ]
    found = {"vulnerabilities": UNCHECKED | {"status": "failed"}}
    assert evidence.complaints(seen(**found, simulated=True), limited, TODAY) == ["vulnerabilities failed: why"]


def files(document: Evidence, junit: bytes = JUNIT % b"") -> dict[str, bytes]:
    return {"evidence.json": document.raw(), "full.xml": junit}


def test_evidence_is_read_as_it_was_written() -> None:
    document = seen()
    assert evidence.read(files(document), IMAGE) == document


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda: {}, "no evidence.json"),
        (lambda: files(seen(digest="sha256:" + "f" * 64)), "it is about"),
        (lambda: files(seen(), JUNIT % BAD), "is not the file it names"),
        (lambda: files(seen(runs=[run(JUNIT % BAD, failures=[])]), JUNIT % BAD), "is not what full.xml says"),
        (lambda: {"evidence.json": b'{"schema_version": 2}'}, "not evidence"),
    ],
)
def test_evidence_that_does_not_hold(spoil: Callable[[], dict[str, bytes]], said: str) -> None:
    with pytest.raises(Altered, match=said):
        evidence.read(spoil(), IMAGE)


@pytest.mark.parametrize("data", [b"", b"<a>", b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'])
def test_junit_that_is_none(data: bytes) -> None:
    with pytest.raises(Altered):
        outcomes(data)


def test_errors_of_a_fixture_count_as_failures() -> None:
    (found,) = outcomes(b'<s><testcase classname="a" name="b"><error message="m"/></testcase></s>')
    assert (found.test, found.result, found.reason) == ("a.b", "failed", "m")


# --- signatures -------------------------------------------------------------------------------------------------------


def test_signature(tmp_path: Path) -> None:
    key = signing.evidence_key({"EVIDENCE_KEY": "k" * 32})
    assert key is not None
    good = signing.sign(b"text", key)
    assert signing.verify(b"text", good, key, IMAGE) == "signed, verified"
    assert signing.verify(b"text", None, None, IMAGE) == "not signed"
    assert "not verified" in signing.verify(b"text", good, None, IMAGE)
    for raw, signature in ((b"text!", good), (b"text", None), (b"text", signing.sign(b"text", b"x" * 32))):
        with pytest.raises(Altered):
            signing.verify(raw, signature, key, IMAGE)


def test_key_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 40 + "\n", encoding="utf-8")
    assert signing.evidence_key({"EVIDENCE_KEY_FILE": str(tmp_path / "key")}) == b"k" * 40
    assert signing.evidence_key({}) is None
    with pytest.raises(Problem, match="32 are needed"):
        signing.evidence_key({"EVIDENCE_KEY": "short"})
    with pytest.raises(Problem, match="cannot be read"):
        signing.evidence_key({"EVIDENCE_KEY_FILE": str(tmp_path / "none")})


def test_cosign(tmp_path: Path) -> None:
    assert signing.cosign({"PATH": str(tmp_path)}) is None
    with pytest.raises(Problem, match="COSIGN_KEY is set, but cosign is not installed"):
        signing.cosign({"PATH": str(tmp_path), "COSIGN_KEY": "k"})
    program = tmp_path / "cosign"
    program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/said\n[ "$5" != h.io/bad ]\n', encoding="utf-8")
    program.chmod(0o755)
    command = signing.cosign({"PATH": str(tmp_path), "COSIGN_KEY": "env://K"})
    assert signing.sign_image(command, IMAGE) == "signed"
    assert (tmp_path / "said").read_text(encoding="utf-8").split() == ["sign", "--yes", "--key", "env://K", str(IMAGE)]
    with pytest.raises(Problem, match="did not sign"):
        signing.sign_image(command, Reference("h.io", "bad"))
    assert signing.sign_image(signing.cosign({"PATH": str(tmp_path), "COSIGN_KEYLESS": "1"}), IMAGE) == "signed"


# --- vulnerabilities --------------------------------------------------------------------------------------------------


def known(review_by: date, package: str = "*") -> KnownVulnerability:
    return KnownVulnerability(id="CVE-1", package=package, reason="never called from here", review_by=review_by)


def judge(manifest: Manifest, scan: Scan, *entries: KnownVulnerability) -> evidence.Vulnerabilities:
    publish = manifest.publish.model_copy(update={"vulnerability": list(entries)})
    return vulnerabilities.report(scan, publish, TODAY)


def test_a_finding_counts_unless_it_is_listed_in_time(manifest: Manifest) -> None:
    scan = Scan("trivy", scanners.EVERYTHING, [Found("CVE-1", "zlib", "1", "critical")])
    assert judge(manifest, scan).status == "failed"
    assert judge(manifest, scan, known(TODAY)).status == "passed"
    assert judge(manifest, scan, known(TODAY, "other")).status == "failed"
    late = judge(manifest, scan, known(date(2026, 11, 28)))
    assert (late.status, late.note) == ("failed", "CVE-1 was to be reviewed by 2026-11-28")


@pytest.mark.parametrize(
    ("severity", "status"), [("low", "passed"), ("high", "failed"), ("unknown", "failed"), ("odd", "failed")]
)
def test_severities(manifest: Manifest, severity: str, status: str) -> None:
    assert judge(manifest, Scan("grype", scanners.EVERYTHING, [Found("C", "p", "1", severity)])).status == status


def test_pip_audit_has_no_severities(manifest: Manifest) -> None:
    assert judge(manifest, Scan("pip-audit", scanners.PYTHON_ONLY, [Found("C", "p", "1", "low")])).status == "failed"


def test_nothing_known_is_not_clean(manifest: Manifest) -> None:
    found = judge(manifest, Scan("pip-audit", scanners.PYTHON_ONLY, [], "out of reach"))
    assert (found.status, found.note) == ("not checked", "out of reach")


def test_pip_audits_words() -> None:
    answer = {
        "dependencies": [
            {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]},
            {"name": "b", "version": "1", "vulns": []},
            {"name": "c", "skip_reason": "Dependency not found on PyPI and could not be audited: c (0.1)"},
        ]
    }
    found = scanners.read_pip_audit(answer)
    assert found == [Found("PYSEC-1", "a", "1", fixed_in="2"), Found("not-covered", "c", "0.1")]


def test_a_package_in_two_versions_is_asked_about_twice() -> None:
    both = [
        Package("pypi", "A_b", "1"),
        Package("pypi", "a-b", "2+cpu"),
        Package("pypi", "c", "1"),
        Package("deb", "d", "1"),
    ]
    assert scanners.rounds(both) == [["a-b==1", "c==1"], ["a-b==2"]]
    assert scanners.rounds([]) == []


@pytest.mark.parametrize(("skipped", "error"), [(1, ""), (2, "the database knows none of the 2 packages")])
def test_a_database_that_knows_no_package_at_all(
    skipped: int, error: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unknown = [Found("not-covered", name, "1") for name in ("a", "b")[:skipped]]
    monkeypatch.setattr(scanners, "_pip_audit_once", lambda *_: Scan("pip-audit", scanners.PYTHON_ONLY, unknown))
    packages = [Package("pypi", "a", "1"), Package("pypi", "b", "1")]
    assert scanners.scan(b"{}", packages, {"PATH": str(tmp_path)}).error == error


def scanner(folder: Path, name: str, script: str) -> dict[str, str]:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return {"PATH": f"{folder}"}


def test_trivy_goes_first(tmp_path: Path) -> None:
    answer = {
        "Results": [
            {
                "Vulnerabilities": [
                    {"VulnerabilityID": "CVE-1", "PkgName": "z", "InstalledVersion": "1", "Severity": "HIGH"}
                ]
            },
            {},
        ]
    }
    environ = scanner(tmp_path, "trivy", f"echo '{json.dumps(answer)}'")
    scanner(tmp_path, "grype", "exit 1")
    scan = scanners.scan(b"{}", [], environ)
    assert (scan.tool, scan.scope, scan.found) == ("trivy", "all packages", [Found("CVE-1", "z", "1", "high")])


def test_grypes_words(tmp_path: Path) -> None:
    match = {
        "vulnerability": {"id": "C", "severity": "Negligible", "fix": {"versions": ["2"]}},
        "artifact": {"name": "z", "version": "1"},
    }
    environ = scanner(tmp_path, "grype", f"echo '{json.dumps({'matches': [match]})}'")
    assert scanners.scan(b"{}", [], environ).found == [Found("C", "z", "1", "low", "2")]


@pytest.mark.parametrize("script", ["echo database is not there >&2; exit 1", "echo '{}'", "echo no json"])
def test_a_scanner_that_fails_has_found_nothing_out(tmp_path: Path, script: str) -> None:
    assert scanners.scan(b"{}", [], scanner(tmp_path, "trivy", script)).error


def test_no_python_packages_is_not_clean(tmp_path: Path) -> None:
    assert "no Python packages" in scanners.scan(b"{}", [Package("deb", "zlib", "1")], {"PATH": str(tmp_path)}).error


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_packages_of_a_cyclonedx_document() -> None:
    components = [
        {"name": "b", "version": "1", "purl": "pkg:pypi/b@1"},
        {"name": "a", "version": "2", "purl": "pkg:deb/debian/a@2"},
        {"name": "file"},
    ]
    assert packages({"components": components}) == [Package("deb", "a", "2"), Package("pypi", "b", "1")]


def test_difference() -> None:
    before = [Package("pypi", "a", "1"), Package("pypi", "gone", "1"), Package("deb", "same", "1")]
    after = [Package("pypi", "a", "2"), Package("pypi", "new", "1"), Package("deb", "same", "1")]
    assert budget.difference(before, after) == ["+ pypi new 1", "- pypi gone 1", "~ pypi a 1 -> 2"]


class Shelf:
    """A registry's repository: (configuration, bytes) by tag. One byte more is another image."""

    def __init__(self, **images: tuple[dict[str, Any], int]) -> None:
        self.images = {tag.replace("_", "-").replace("DOT", "."): image for tag, image in images.items()}

    def tags(self, _: Reference) -> list[str]:
        return [*self.images, "0.1-cann8.0-910b-debian12-py3.11-amd64", "sha256-" + "a" * 64]  # the first was deleted

    def for_platform(self, reference: Reference, _: str) -> ImageManifest:
        if reference.tag not in self.images:
            raise NotFound("gone", "")
        return self.image(reference, self.images[reference.tag][1])

    def image(self, reference: Reference, size: int) -> ImageManifest:
        layer = {"mediaType": "x", "digest": "sha256:" + "b" * 64, "size": size}
        return ImageManifest(reference, Descriptor("x", f"sha256:{size:064}", 1), b"", {"layers": [layer]})

    def config(self, manifest: ImageManifest) -> dict[str, Any]:
        return next(config for config, size in self.images.values() if size == manifest.size)


def test_the_last_release_is_found_whatever_its_versions(manifest: Manifest) -> None:
    """After `bump cann`, `bump rlinf` or a new commit of RLinf the tags have another beginning."""

    def made(day: int, arch: str = "amd64", **labels: str) -> dict[str, Any]:
        return config(manifest, arch, **{"org.opencontainers.image.created": f"2026-01-{day:02}T00:00:00Z"} | labels)

    def find(**releases: tuple[dict[str, Any], int]) -> str:
        ours = config(manifest)
        shelf = Shelf(candidate=(ours, 100), **releases)
        client: RegistryClient = shelf  # type: ignore[assignment]
        found = last.find(client, manifest, shelf.image(IMAGE, 100), identify(manifest, ours))
        return found.tag if found else ""

    here, old = "0.3.0_cann8DOT3DOTrc1_910b_ubuntu22DOT04_py3DOT11", {"OURS.cann": "8.2.rc1"}
    earlier = {
        "0.2.0_cann8DOT2DOTrc1_910b_ubuntu22DOT04_py3DOT11_amd64": (made(2, **old), 1),
        "0.2.0_gabcdef0_cann8DOT2DOTrc1_910b_ubuntu22DOT04_py3DOT11_amd64": (made(3, **old), 2),
        "0.2.0_cann8DOT1DOTrc1_910b_ubuntu22DOT04_py3DOT10_amd64": (made(1, **{"OURS.cann": "8.1.rc1"}), 3),
    }
    newest = "0.2.0-gabcdef0-cann8.2.rc1-910b-ubuntu22.04-py3.11-amd64"
    assert find() == ""
    assert find(**earlier) == newest
    simulated = {"OURS.base": "sim", "OURS.simulated": "true"}
    others = {
        f"{here}_arm64": (made(9, "arm64"), 11),
        f"{here}_amd64_sim": (made(9, **simulated), 12),
        f"{here}_amd64_upstream": (made(9, **{"OURS.installer": "upstream"}), 13),
        f"{here.replace('910b', 'a3')}_amd64": (made(9, **{"OURS.chip": "a3"}), 14),
        f"{here}": (made(9), 15),  # an index
        "candidate_0123456789ab_amd64": (made(9), 16),
        f"candidate_{here}_amd64": (made(9), 17),
        "1.0_cann9_910b_ubuntu22DOT04_py3DOT11_amd64": (made(9, **simulated), 18),  # labels go before a tag
        f"{here}_amd64": (config(manifest), 100),  # the very image: it has been released already
    }
    assert find(**others) == ""
    assert find(**earlier, **others) == newest
    same = {f"{here}_amd64": (made(3), 20)}  # of one commit: the one of the same versions
    assert find(**earlier | same) == "0.3.0-cann8.3.rc1-910b-ubuntu22.04-py3.11-amd64"


@pytest.mark.parametrize(("size", "status"), [(105, "passed"), (106, "failed")])
def test_the_budget_names_the_release_that_it_compares_with(
    size: int, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf()
    client: RegistryClient = shelf  # type: ignore[assignment]
    monkeypatch.setattr(attachments, "newest_file", lambda *_: None)
    monkeypatch.setattr(budget, "layers", lambda *_: {})
    release = last.Release("0.2.0-x-amd64", shelf.image(IMAGE, 100))
    found = budget.check(client, shelf.image(IMAGE, size), release, [], 1.05)
    assert (found.status, found.last_size) == (status, 100)
    assert "the last release, 0.2.0-x-amd64" in found.note


def test_layer_changes() -> None:
    lines = budget.layer_changes(
        {"x": (5, "s"), "y": (2_000_000, "RUN old")}, {"x": (5, "s"), "z": (3_000_000, "RUN new")}
    )
    assert lines == ["+ layer 3.0 MB RUN new", "- layer 2.0 MB RUN old"]


# --- suites -----------------------------------------------------------------------------------------------------------


def test_the_hash_of_a_suite(manifest: Manifest, tmp_path: Path) -> None:
    tests = tmp_path / "tests/images"
    tests.mkdir(parents=True)
    (tests / "test_a.py").write_text("a", encoding="utf-8")
    (tests / "test_leaks.py").write_text("b", encoding="utf-8")
    first = suites.suite_hash(manifest, "full", tmp_path)
    assert first != suites.suite_hash(manifest, "quick", tmp_path)
    assert first == suites.suite_hash(waiving(manifest, waiver("a.b.*")), "full", tmp_path)  # a waiver tests nothing
    (tests / "test_a.py").write_text("c", encoding="utf-8")
    assert first != suites.suite_hash(manifest, "full", tmp_path)


def test_no_such_suite(manifest: Manifest) -> None:
    with pytest.raises(Problem, match=r"no suite 'x'") as caught:
        suites.jobs(manifest, "x")
    assert caught.value.usage


def test_what_is_run_at_every_gate_is_never_in_the_cached_part(manifest: Manifest) -> None:
    first, always = suites.jobs(manifest, manifest.publish.required_suite)
    assert set(manifest.publish.always) <= set(first.suite.ignore)
    assert always.suite.tests == manifest.publish.always


def test_only_green_results_are_kept(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    (reports / "full.xml").write_bytes(JUNIT % b"")
    cache.keep(tmp_path / "red", run(failures=["a.b.bad"]), reports)
    cache.keep(tmp_path / "nothing", run(passed=0), reports)
    cache.keep(tmp_path / "green", run(), reports)
    found = cache.find(tmp_path / "green", tmp_path / "again")
    assert found is not None
    assert found.cached
    assert (tmp_path / "again/full.xml").read_bytes() == JUNIT % b""
    assert cache.find(tmp_path / "red", tmp_path) is cache.find(tmp_path / "nothing", tmp_path) is None


# --- the engine's words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("unauthorized: authentication required", Unauthorised),
        ("denied: requested access to the resource is denied", Unauthorised),
        ("write tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection", Unreachable),
        ("dial tcp 10.0.0.1:443: connect: connection refused", Unreachable),
        ("received unexpected HTTP status: 503 Service Unavailable", Unreachable),
        ("failed commit on ref \"layer\": unexpected commit digest sha256:1, expected sha256:2", Altered),
        ("tls: failed to verify certificate: x509: unknown authority", Untrusted),
        ("manifest unknown: manifest unknown", NotFound),
        ("something new", Problem),
    ],
)  # fmt: skip
def test_the_engines_errors(text: str, kind: type[Problem]) -> None:
    found = transfer.classify(text, IMAGE)
    assert isinstance(found, kind)
    assert IMAGE.host in found.what
    assert found.fix


def test_canonical_json_has_one_form() -> None:
    assert canonical({"b": 1, "a": "ä"}) == '{"a":"ä","b":1}'.encode()


def test_progress_of_a_bill_of_materials_has_no_stamps_of_a_log() -> None:
    assert words("\x1b[36m[0012]\x1b[0m  INFO indexing files path=/\n") == "indexing files path=/"
    assert words("[0000]  WARN no explicit name") == "no explicit name"
    assert words("plain words [3] INFO") == "plain words [3] INFO"
