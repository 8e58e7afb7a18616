"""What has to be where in a CANN image."""

import json

from tests.images.support.container import Container
from tests.images.support.environment import LISTS, elements
from tests.images.support.subjects import Subject, manifest

MODULES = "absl, attr, cffi, Cython, decorator, google.protobuf, numpy, pathlib2, psutil, requests, scipy, sympy, yaml"
PREFIX = f"/usr/local/python{manifest().versions.python}"


def test_every_folder_the_environment_names_exists(subject: Subject, idle: Container) -> None:
    """But the driver's: they come with the host's driver."""
    named = {element for name in LISTS for element in elements(subject.env[name])}
    named |= {value for value in subject.env.values() if value.startswith("/usr/local/Ascend/") and ":" not in value}
    own = sorted(folder for folder in named if not folder.startswith(manifest().devices.driver))
    missing = idle.sh(f"for d in {' '.join(own)}; do [ -d $d ] || echo $d; done").out.split()
    assert missing == []


def test_no_driver_inside(idle: Container) -> None:
    assert not idle.host.file(manifest().devices.driver).exists
    assert not idle.host.file("/usr/local/bin/npu-smi").exists


def test_libascend_hal_only_in_devlib(idle: Container) -> None:
    found = idle.sh("find / -xdev -name 'libascend_hal.so*' -type f").out.split()
    assert found
    assert [path for path in found if "/devlib/" not in path] == []


def test_python_is_where_the_vendor_has_it(idle: Container) -> None:
    version = idle.exec([f"{PREFIX}/bin/python3", "-c", "import sys; print(sys.version_info[:2], sys.prefix)"])
    major, minor = manifest().versions.python_series.split(".")
    assert version.out.strip() == f"({major}, {minor}) {PREFIX}"
    for name in ("python", "python3", "python3.11", "pip", "pip3"):
        assert idle.host.file(f"{PREFIX}/bin/{name}").exists, name


def test_preinstalled_packages(idle: Container) -> None:
    """CANN's operator compiler imports them (cann-container-image#70: a release without attrs and decorator)."""
    wanted: dict[str, str] = {}
    for item in manifest().base.sim.preinstalled:
        name, _, wanted[name] = item.partition("==")
    code = (
        "import json, sys, importlib.metadata as m\n"
        "print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))\n"
        f"import {MODULES}"
    )
    done = idle.python(code, *wanted, python=f"{PREFIX}/bin/python3")
    assert done.ok, done.err
    found = json.loads(done.out.splitlines()[0])
    assert {name: found[name] for name, version in wanted.items() if version} == {n: v for n, v in wanted.items() if v}
