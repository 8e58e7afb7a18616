"""Labels and tags say what is inside. What can be measured is measured in the image, never taken from the manifest."""

import re
from datetime import datetime

import pytest

from imagekit.tags import SIM
from tests.images.support.container import Container
from tests.images.support.subjects import Subject, client, engine, manifest

OCI = "org.opencontainers.image"
STANDARD = [
    "title",
    "description",
    "vendor",
    "version",
    "revision",
    "source",
    "licenses",
    "created",
    "base.name",
    "base.digest",
]
# The vendor's grammar, <cann>-<chip>-<os>-py<python>, with our additions around it.
TAG = re.compile(
    r"(?P<image>[a-z-]+):"
    r"(?:(?P<rlinf>\d[\w.]*(?:-[gd][0-9a-f]{7})?)-cann)?"
    r"(?P<cann>\d[\w.]*)-(?P<chip>\w+)-(?P<os>[a-z]+[\d.]+)-py(?P<python>\d+\.\d+)"
    r"(?:-(?P<revision>[0-9a-f]{12}(?:-dirty)?|unversioned))?"
    r"(?:-(?P<arch>arm64|amd64))?(?P<suffix>(?:-upstream)?(?:-unfixed)?(?:-sim)?)"
)


@pytest.fixture(scope="session")
def parts(subject: Subject) -> list[re.Match[str]]:
    """Every tag, taken apart."""
    if not subject.tags:
        pytest.skip("image given by IMAGE without a digest: its tags are not known")
    found = [TAG.fullmatch(tag) for tag in subject.tags]
    assert all(found), f"not in the grammar: {subject.tags}"
    return [match for match in found if match]


def measured_cann(container: Container) -> str:
    """CANN's version, from the file that its installer writes."""
    text = container.sh(
        'cat "$ASCEND_TOOLKIT_HOME"/version.cfg "$ASCEND_TOOLKIT_HOME"/toolkit/version.info 2>/dev/null'
    ).out
    found = re.search(
        r"(?im)^(?:version|version_dir|runtime_running_version)=\[?(?:[\d.]+:)?([\d.]+\.rc\d+|[\d.]+)\]?", text
    )
    assert found, text
    return found[1].lower()


def measured_os(container: Container) -> str:
    """`debian12`, `ubuntu22.04`."""
    return container.sh('. /etc/os-release && echo "$ID$VERSION_ID"').out.strip()


@pytest.mark.parametrize("name", STANDARD)
def test_standard_label(subject: Subject, name: str) -> None:
    assert subject.labels.get(f"{OCI}.{name}")


def test_title_and_licence(subject: Subject) -> None:
    assert subject.labels[f"{OCI}.title"] == manifest().get_image(subject.name).title
    assert subject.labels[f"{OCI}.licenses"] == manifest().project.licenses


def test_created_is_a_time(subject: Subject) -> None:
    """It is the source's time, not the build's: the same source gives the same image."""
    created = datetime.fromisoformat(subject.labels[f"{OCI}.created"])
    assert created.tzinfo is not None
    assert created <= datetime.now(created.tzinfo)


def test_base_digest_is_a_digest(subject: Subject) -> None:
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", subject.labels[f"{OCI}.base.digest"])


def test_source_holds_no_credentials(subject: Subject) -> None:
    assert re.fullmatch(r"https://[^@\s]+", subject.labels[f"{OCI}.source"])


def test_cann_label_is_measured(subject: Subject, idle: Container) -> None:
    assert subject.label("cann") == measured_cann(idle)


def test_tags_say_what_is_inside(subject: Subject, idle: Container, parts: list[re.Match[str]]) -> None:
    python = idle.exec([f"/usr/local/python{manifest().versions.python}/bin/python3", "-V"]).out.split()[1]
    measured = (measured_cann(idle), subject.label("chip"), measured_os(idle), python.rpartition(".")[0])
    for tag in parts:
        assert tag["image"] == subject.name
        assert (tag["cann"], tag["chip"], tag["os"], tag["python"]) == measured
        assert tag["suffix"].endswith(SIM) == subject.simulated


def test_one_readable_and_one_immutable_tag(subject: Subject, parts: list[re.Match[str]]) -> None:
    assert [tag["revision"] for tag in parts] == [None, subject.labels[f"{OCI}.revision"]]


def test_tags_point_to_the_built_digest(subject: Subject) -> None:
    """What is tested is what was built, and later what is published."""
    if not subject.digest:
        pytest.skip("image given by IMAGE without a digest: nothing recorded")
    if engine().containerd_store:  # there an image's id is its manifest's digest
        assert subject.id == subject.digest
    if not subject.built:
        return  # its tags are about to be given, in a registry
    ids = {tag: client().images.get(tag).id for tag in subject.tags}
    assert ids == dict.fromkeys(subject.tags, subject.id)


def test_the_version_stands_in_label_and_tag(subject: Subject, parts: list[re.Match[str]]) -> None:
    assert {tag["rlinf"] or tag["cann"] for tag in parts} == {subject.labels[f"{OCI}.version"]}
