"""Push, gate, promote: real registry (TLS, login), real engine, real pytest, syft and pip-audit; tiny images."""

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from imagekit.errors import Problem
from imagekit.publish import attachments, index
from imagekit.publish.evidence import read
from imagekit.publish.push import Pushed
from imagekit.registry import File, canonical
from imagekit.registry.client import INDEX, fallback
from tests.e2e.publish_kit import Publisher, as_if_gated, for_arm64, publisher
from tests.e2e.registry_kit import registry, tiny

__all__ = ["publisher", "registry", "tiny"]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_good_image_is_published_as_it_was_tested(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    assert publisher.release_tags(image) == []
    seen, why_not = publisher.gate(image)
    assert (why_not, seen.green, seen.simulated) == ([], True, True)
    assert [(run.name, run.passed, run.failures) for run in seen.runs] == [("tiny", 3, []), ("always", 1, [])]
    assert publisher.database.asked == ["leftpad 1.0", "leftpad 1.1"]
    tags = publisher.promote(image)
    assert sorted(publisher.release_tags(image)) == sorted(tags)
    assert all(tag.endswith("-sim") for tag in tags)
    ours = {publisher.client.for_platform(image.tagged(tag), "linux/amd64").descriptor.digest for tag in tags}
    assert ours == {image.digest}
    assert [publisher.client.manifest(image.tagged(tag)).is_index for tag in tags] == [False, False, True, True]


def test_what_is_attached(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    publisher.gate(image)
    kinds = {entry.artifact_type for entry in publisher.client.referrers(image)}
    assert kinds == {attachments.EVIDENCE, attachments.SPDX, attachments.CYCLONEDX, attachments.IN_TOTO}
    (proof,) = attachments.all_of(publisher.client, image, attachments.EVIDENCE)
    assert sorted(proof.files) == ["always.xml", "evidence.json", "tiny.xml"]
    assert read(proof.files, image).digest == image.digest
    statement = json.loads(attachments.newest_file(publisher.client, image, attachments.IN_TOTO) or b"")
    assert statement["subject"][0]["digest"]["sha256"] == image.digest.partition(":")[2]
    spdx = json.loads(attachments.newest_file(publisher.client, image, attachments.SPDX) or b"")
    assert "leftpad" in [package["name"] for package in spdx["packages"]]


def test_the_index_of_the_candidates_gives_every_host_its_own(publisher: Publisher) -> None:
    """As `make index` joins them; `docker pull` chooses the same way."""
    ours = publisher.push(publisher.build())
    other = for_arm64(publisher, ours)
    pushed = [Pushed("rlinf-npu", str(image), "", image.digest, 0, simulated=True) for image in (other, ours)]
    written = index.join(publisher.manifest, pushed, publisher.environ)
    assert (written.platforms, written.tag[-4:]) == ("linux/arm64, linux/amd64", "-sim")
    tagged = ours.tagged(written.tag)
    for image, platform in ((ours, "linux/amd64"), (other, "linux/arm64")):
        assert publisher.client.for_platform(tagged, platform).descriptor.digest == image.digest
    assert publisher.client.resolve(tagged).digest == written.digest
    assert publisher.release_tags(ours) == []


def test_a_failing_image_never_gets_a_release_tag(publisher: Publisher) -> None:
    image = publisher.push(publisher.build(run="touch /broken"))
    seen, why_not = publisher.gate(image)
    assert why_not == ["test failed: tests.e2e.tiny_suite.tiny.test_is_not_broken"]
    with pytest.raises(Problem, match="may not be published: test failed"):
        publisher.promote(image)
    assert not seen.green
    assert publisher.release_tags(image) == []


def test_a_tag_that_moves_meanwhile_changes_nothing(publisher: Publisher) -> None:
    tested = publisher.push(publisher.build())
    publisher.gate(tested)
    other = publisher.push(publisher.build(run="touch /broken"))  # the same revision: the same candidate tag
    candidate = next(tag for tag in publisher.client.tags(tested) if tag.startswith("candidate-"))
    assert publisher.client.resolve(tested.tagged(candidate)).digest == other.digest != tested.digest
    tags = publisher.promote(tested)
    one = [tag for tag in tags if not publisher.client.manifest(tested.tagged(tag)).is_index]
    assert {publisher.client.resolve(tested.tagged(tag)).digest for tag in one} == {tested.digest}


def test_an_untested_image_is_not_published(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    with pytest.raises(Problem, match="no evidence of suite tiny"):
        publisher.promote(image)
    assert publisher.gate(image, "part")[1] == []
    with pytest.raises(Problem, match="no evidence of suite tiny"):
        publisher.promote(image)
    assert publisher.release_tags(image) == []


def test_evidence_of_another_state_of_the_suite(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    publisher.gate(image)
    publisher.change(size_ratio=2.0)
    with pytest.raises(Problem, match="another state of suite"):
        publisher.promote(image)


def test_green_results_are_used_again_but_not_for_secrets(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    publisher.gate(image)
    again, _ = publisher.gate(image)
    assert [(run.name, run.cached) for run in again.runs] == [("tiny", True), ("always", False)]
    assert publisher.database.asked == ["leftpad 1.0", "leftpad 1.1"] * 2
    publisher.promote(image)


def test_red_results_are_not_kept(publisher: Publisher) -> None:
    image = publisher.push(publisher.build(run="touch /broken"))
    publisher.gate(image)
    assert [run.cached for run in publisher.gate(image)[0].runs] == [False, False]


def test_a_waiver_is_used_recorded_and_ends(publisher: Publisher) -> None:
    image = publisher.push(publisher.build(run="touch /broken"))
    today = datetime.now(UTC).date()
    publisher.waive("*.test_is_not_broken", today - timedelta(days=1))
    assert "ended on" in " ".join(publisher.gate(image)[1])
    publisher.waive("*.test_is_not_broken", today)
    with pytest.raises(Problem, match="was red when it was gated"):  # a waiver must be on the record
        publisher.promote(image)
    seen, why_not = publisher.gate(image)
    assert why_not == []
    assert [waiver.covers for waiver in seen.waivers] == [["tests.e2e.tiny_suite.tiny.test_is_not_broken"]]
    publisher.waive("*.test_is_not_broken", date(2020, 1, 1))  # time goes by between gate and promote
    with pytest.raises(Problem, match="may not be published"):
        publisher.promote(image)
    assert publisher.release_tags(image) == []
    publisher.waive("*.test_is_not_broken", today)
    publisher.promote(image)


def test_vulnerabilities(publisher: Publisher) -> None:
    publisher.database.add("leftpad 1.1", "PYSEC-2026-1")
    image = publisher.push(publisher.build())
    seen, why_not = publisher.gate(image)
    assert why_not == ["vulnerabilities failed: PYSEC-2026-1 in leftpad 1.1"]
    assert (seen.vulnerabilities.tool, seen.vulnerabilities.scope) == ("pip-audit", "Python packages only")


def test_a_database_out_of_reach_is_not_a_clean_report(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    publisher.database.stop()
    publisher.environ["OSV_URL"] = publisher.database.url
    seen, why_not = publisher.gate(image)
    assert seen.vulnerabilities.status == "not checked"
    assert why_not[0].startswith("vulnerabilities not checked: the vulnerability database")
    with pytest.raises(Problem, match="vulnerabilities not checked"):
        publisher.promote(image)


def test_an_image_that_has_grown_is_held_back_and_explained(publisher: Publisher) -> None:
    publisher.publish()
    package = "d=/usr/lib/python3/dist-packages/bigone-2.0.dist-info; mkdir -p $d; touch $d/RECORD; "
    package += "printf 'Metadata-Version: 2.1\\nName: bigone\\nVersion: 2.0\\n' >$d/METADATA; "
    label = {"org__opencontainers__image__revision": "fedcba987654"}
    image = publisher.push(publisher.build(run=f"{package} head -c 9000000 /dev/urandom >/grown", **label))
    seen, why_not = publisher.gate(image)
    assert len(why_not) == 1
    assert why_not[0].startswith("size: ")
    assert "+ pypi bigone 2.0" in seen.budget.difference
    assert any(line.startswith("+ layer 9.0 MB RUN") for line in seen.budget.difference)


def test_an_image_of_new_versions_is_compared_with_the_last_release_too(publisher: Publisher) -> None:
    """After `bump cann` and `bump rlinf`: images grow when versions change. A candidate is no release."""
    first, before = publisher.publish(), publisher.manifest.versions.cann
    oci, ours = "org__opencontainers__image", publisher.manifest.project.label_prefix.replace(".", "__")
    versions = publisher.manifest.versions.model_copy(update={"cann": "9.9.rc1", "rlinf": "0.9.0"})
    publisher.manifest = publisher.manifest.model_copy(update={"versions": versions})
    new = {f"{oci}__version": "0.9.0", f"{ours}__cann": "9.9.rc1", f"{oci}__created": "2026-02-02T00:00:00Z"}
    grown = publisher.push(publisher.build(run="head -c 9000000 /dev/urandom >/grown", **new))
    seen, why_not = publisher.gate(grown)
    assert [line.partition(":")[0] for line in why_not] == ["size"]
    assert (seen.budget.last_digest, f"-cann{before}-" in seen.budget.note) == (first.digest, True)
    second = publisher.publish(**new | {f"{oci}__revision": "fedcba987654"})
    seen, _ = publisher.gate(grown)
    assert (seen.budget.status, seen.budget.last_digest) == ("failed", second.digest)
    assert "0.9.0-cann9.9.rc1" in seen.budget.note


def test_a_simulated_image_is_never_a_release(publisher: Publisher) -> None:
    """Whatever its labels say half-heartedly: only `cann` and `false` together make a release."""
    prefix = publisher.manifest.project.label_prefix.replace(".", "__")
    image = publisher.push(publisher.build(simulated=False, **{f"{prefix}__simulated": ""}))
    publisher.gate(image)
    assert all(tag.endswith("-sim") for tag in publisher.promote(image))


def test_no_real_image_is_built_or_gated_from_uncommitted_files(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = {"org__opencontainers__image__revision": "fedcba987654-dirty"}
    image = publisher.push(publisher.build(simulated=False, **label))
    for checkout, said in (("0123456789ab-dirty", "was gated with files"), ("0123456789ab", "was built from files")):
        monkeypatch.setattr("imagekit.lookup.our_revision", lambda name=checkout: name)
        publisher.gate(image)
        with pytest.raises(Problem, match=f"{said} that no commit has"):
            publisher.promote(image)
    assert publisher.release_tags(image) == []


def test_an_unfixed_image_is_not_even_pushed(publisher: Publisher) -> None:
    prefix = publisher.manifest.project.label_prefix.replace(".", "__")
    with pytest.raises(Problem, match="never published"):
        publisher.push(publisher.build(**{f"{prefix}__fixes": "none"}))


def test_two_architectures_share_an_index(publisher: Publisher) -> None:
    amd64 = publisher.publish()
    arm64 = for_arm64(publisher, amd64)
    as_if_gated(publisher, arm64, amd64)
    tags = publisher.promote(arm64)
    indexes = [publisher.client.manifest(arm64.tagged(tag)) for tag in tags]
    entries = [{e.platform: e.digest for e in index.manifests} for index in indexes if index.is_index]
    assert entries == [{"linux/amd64": amd64.digest, "linux/arm64": arm64.digest}] * 2


def test_an_index_takes_no_untested_image_of_another_architecture(publisher: Publisher) -> None:
    first = publisher.publish()
    before = {tag: publisher.client.resolve(first.tagged(tag)).digest for tag in publisher.release_tags(first)}
    stranger = for_arm64(publisher, first)
    moved = next(tag for tag in before if tag.endswith("-py3.11-amd64-sim")).replace("amd64", "arm64")
    found = publisher.client.manifest(stranger)
    publisher.client.put_manifest(first.tagged(moved), found.raw, found.descriptor.media_type)
    with pytest.raises(Problem, match="without green evidence"):
        publisher.promote(first)
    assert before == {tag: publisher.client.resolve(first.tagged(tag)).digest for tag in before}


def test_another_architecture_is_gated_elsewhere(publisher: Publisher) -> None:
    arm64 = for_arm64(publisher, publisher.push(publisher.build()))
    with pytest.raises(Problem, match="machine of its own architecture"):
        publisher.gate(arm64)


def test_the_bill_of_materials_that_the_gate_went_by_has_to_be_there(publisher: Publisher) -> None:
    image = publisher.push(publisher.build())
    publisher.gate(image)
    place = fallback(image)
    left = [e for e in publisher.client.manifest(place).manifests if e.artifact_type != attachments.SPDX]
    raw = canonical({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry.document() for entry in left]})
    publisher.client.put_manifest(place, raw, INDEX)
    other = File("sbom.spdx.json", attachments.SPDX, b"{}")
    publisher.client.attach(publisher.client.manifest(image), attachments.SPDX, [other])
    with pytest.raises(Problem, match="bill of materials"):
        publisher.promote(image)
    assert publisher.release_tags(image) == []


def test_a_published_revision_stands_for_one_image(publisher: Publisher) -> None:
    first = publisher.publish()
    second = publisher.push(publisher.build())
    publisher.gate(second)
    with pytest.raises(Problem, match="published already"):
        publisher.promote(second)
    immutable = [tag for tag in publisher.release_tags(first) if "0123456789ab-amd64" in tag]
    assert [publisher.client.resolve(first.tagged(tag)).digest for tag in immutable] == [first.digest]
