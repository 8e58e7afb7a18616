"""The Python set is the lock's, whole, and holds nothing that does not belong on an NPU."""

import fnmatch
import json
import re

import pytest

from imagekit.locks import lock_path, versions_in
from imagekit.manifest import CheckException
from imagekit.torch_lock import cpu_lock
from tests.images.support.container import Container
from tests.images.support.subjects import Subject, manifest

UNWANTED = [
    "tensorflow*",
    "torchcodec",
    "flash-attn*",
    "nvidia-*",
    "pynvml",
    "triton*",
    "jax-cuda*",
    "cupy*",
    "bitsandbytes",
]
# Their modules, for packages that bring one under another name.
UNWANTED_MODULES = ["tensorflow", "torchcodec", "flash_attn", "pynvml", "triton", "nvidia", "cupy"]
COMPLAINT = re.compile(
    r"The package `(?P<package>[^`]+)` requires `(?P<requires>[A-Za-z0-9._-]+)[^`]*`, but (?P<but>.*)"
)


@pytest.fixture(scope="session")
def installed(idle: Container) -> dict[str, str]:
    """Version by normalised name, of every distribution in the image's environment."""
    code = (
        "import importlib.metadata as m, json, re\n"
        "print(json.dumps([(re.sub('[-_.]+', '-', d.metadata['Name']).lower(), d.version) for d in m.distributions()]))"
    )
    pairs = json.loads(idle.exec(["/opt/venv/bin/python", "-c", code], env={"PYTHONPATH": ""}).out)
    twice = {name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1}
    assert twice == set()
    return dict(pairs)


@pytest.fixture(scope="session")
def complaints(idle: Container) -> list[tuple[str, str, str]]:
    """What `uv pip check` finds: (package, what it requires, what is the matter)."""
    done = idle.exec(["uv", "pip", "check", "--python", "/opt/venv/bin/python"])
    found = COMPLAINT.findall(done.out + done.err)
    assert done.ok or found, done.err
    return found


def excuses(exception: CheckException, package: str, requires: str) -> bool:
    """Whether a complaint is the known one."""
    return fnmatch.fnmatch(package, exception.package) and fnmatch.fnmatch(requires, exception.requires)


def test_pip_check_is_clean_but_for_known_exceptions(subject: Subject, complaints: list[tuple[str, str, str]]) -> None:
    known = subject.promised.python.check_exception
    left = [c for c in complaints if not any(excuses(exception, c[0], c[1]) for exception in known)]
    assert left == []


def test_no_exception_has_become_superfluous(subject: Subject, complaints: list[tuple[str, str, str]]) -> None:
    if subject.attrs["Architecture"] != "amd64":
        pytest.skip("some requirements exist on x86-64 only: there the list is complete")
    if subject.label("torch.wheels") == "cpu":
        pytest.skip("PyTorch's CPU wheels ask for less than PyPI's: there the list is complete")
    known = manifest().upstream.check_exception if subject.upstream else manifest().python.check_exception
    unused = [e for e in known if not any(excuses(e, package, requires) for package, requires, _ in complaints)]
    assert unused == []


def test_exactly_one_torch(subject: Subject, installed: dict[str, str], idle: Container) -> None:
    versions = subject.promised.versions
    assert installed["torch"].partition("+")[0] == versions.torch
    assert installed["torch-npu"] == versions.torch_npu
    assert installed["torchvision"].partition("+")[0] == versions.torchvision
    assert idle.sh("find / -xdev -type d -name torch -path '*-packages/torch'").out.split() == [
        "/opt/venv/lib/python3.11/site-packages/torch"
    ]


@pytest.mark.parametrize("pattern", UNWANTED)
def test_not_installed(installed: dict[str, str], pattern: str) -> None:
    assert fnmatch.filter(installed, pattern) == []


def test_nothing_that_the_manifest_excludes(subject: Subject, installed: dict[str, str]) -> None:
    excluded = {name for exclude in subject.promised.python.exclude for name in exclude.names}
    assert excluded & installed.keys() == set()


def test_no_unwanted_module_under_another_name(idle: Container) -> None:
    code = f"import importlib.util as u; print([m for m in {UNWANTED_MODULES} if u.find_spec(m)])"
    assert idle.exec(["python", "-c", code]).out.strip() == "[]"


def test_the_environment_is_the_lock(subject: Subject, installed: dict[str, str]) -> None:
    if subject.upstream:
        pytest.skip("RLinf's own installer resolved it, not our lock")
    text = lock_path(manifest().get_platform(subject.attrs["Architecture"])).read_text(encoding="utf-8")
    if subject.label("torch.wheels") == "cpu":
        text = cpu_lock(manifest(), text)
    locked = versions_in(text)
    for name in manifest().python.not_installed:
        locked.pop(name, None)
    ours = {"rlinf", "rlinf-npu-runtime"}  # the tree and our runtime, laid in beside the environment
    simulated = {name for name in installed if name.startswith("cannsim")}
    found = {name: version for name, version in installed.items() if name not in ours | simulated}
    assert found == locked


def test_labels_are_measured(subject: Subject, installed: dict[str, str]) -> None:
    assert subject.label("torch") == installed["torch"].partition("+")[0]
    assert subject.label("torch-npu") == installed["torch-npu"]


def test_rlinf_label_is_measured(subject: Subject, idle: Container) -> None:
    facts = json.loads(idle.host.file("/usr/share/rlinf-npu/facts.json").content_string)
    assert subject.label("rlinf.source") == facts["rlinf"]["source"]
    assert subject.label("rlinf.revision") == facts["rlinf"]["revision"]
    project = idle.sh("cat /opt/rlinf/pyproject.toml /opt/rlinf/rlinf-*.dist-info/METADATA 2>/dev/null").out
    measured = re.search(r"(?im)^version\s*[=:]\s*\"?([^\"\s]+)", project)
    assert measured
    assert subject.labels["org.opencontainers.image.version"].startswith(measured[1])


def test_facts_agree_with_the_labels(subject: Subject, idle: Container) -> None:
    facts = json.loads(idle.host.file("/usr/share/rlinf-npu/facts.json").content_string)
    assert facts["simulated"] is subject.simulated
    assert facts["installer"] == subject.label("installer")
    assert facts["versions"] == subject.promised.versions.model_dump()
