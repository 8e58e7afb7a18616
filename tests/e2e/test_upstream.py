"""INSTALLER=upstream for real: RLinf's own install.sh behind a proxy, and the image that comes of it.

Half an hour on two cores that do nothing else. Where GitHub, Hugging Face or PyTorch's index is not in reach, stand-ins
take their place (upstream_kit says which); they are listed in reports/upstream.txt.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import requests

from imagekit import installers
from imagekit.manifest import ROOT, load_manifest
from imagekit.network import NetworkSettings
from imagekit.probe import Prober
from tests.e2e.commands import run_merged
from tests.e2e.proxy_kit import USER
from tests.e2e.registry_kit import engine
from tests.e2e.upstream_kit import Outside, standing_in

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3 * 3600)]
PYPI = {"pypi.org", "files.pythonhosted.org"}
REPORT = ROOT / "reports" / "upstream.txt"


@dataclass(frozen=True)
class Run:
    """A command that has ended."""

    code: int
    said: str


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """The network as builds will find it."""
    if not engine().local:
        pytest.skip("the engine is on another machine, whose builds cannot reach a proxy on this one")
    if os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy"):
        pytest.skip("this machine is behind a proxy already, and ours knows no way through another")
    bridge = engine().client().networks.get("bridge").attrs["IPAM"]["Config"][0]["Gateway"]
    with standing_in(tmp_path_factory.mktemp("outside"), bridge) as made:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text("".join(f"{line}\n" for line in made.described), encoding="utf-8")
        yield made


def run(outside: Outside, *arguments: str, **environment: str) -> Run:
    """Run a command of this checkout as somebody behind that proxy."""
    wanted = {"INSTALLER": "upstream", "BASE": "sim", "SOURCE": "git"} | environment
    env = os.environ | outside.environ | wanted
    done = run_merged([sys.executable, *arguments], env, ROOT)
    return Run(done.returncode, done.stdout)


def test_nobody_gets_through_without_its_password(outside: Outside) -> None:
    """What the leak tests look for in the image is what every tool of the build had to have."""
    password = f"{USER}:{outside.proxy.password}@"
    proxies = {"https": outside.environ["HTTPS_PROXY"].replace(password, "")}
    with pytest.raises(requests.exceptions.ProxyError, match="407"):
        requests.get("https://pypi.org/simple/pip/", proxies=proxies, timeout=30)


@pytest.fixture(scope="module")
def built(outside: Outside) -> Run:
    """The image, and the one without fixes that tests compare it with: all but a small layer is shared."""
    done = run(outside, "build.py", "image")
    return run(outside, "build.py", "image", NO_FIXES="1") if done.code == 0 else done


def test_all_that_it_needs_answers(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in outside.environ.items():
        monkeypatch.setenv(name, value)
    manifest, said = load_manifest(), list[str]()
    network = NetworkSettings.from_host()
    probes = installers.upstream_probes(manifest, "upstream", None, network, 30)
    installers.check_reach(manifest, "git", probes, Prober(30), said.append)
    assert len(said) == len(manifest.upstream.git) + len(manifest.upstream.pages)


@pytest.fixture
def image(built: Run) -> None:
    """What needs the image fails in one line where there is none: a skip could be taken for a pass."""
    if built.code:
        pytest.fail("it was not built: test_it_builds_to_its_end shows why", pytrace=False)


def test_it_builds_to_its_end(built: Run) -> None:
    assert built.code == 0, built.said[-5000:]
    assert "-upstream-unfixed-sim" in built.said


def test_nothing_is_asked_for_elsewhere(image: None, outside: Outside) -> None:
    """images.toml and the documentation name all that it needs."""
    assert outside.proxy.silent == {}
    if outside.described:
        assert outside.proxy.passed - PYPI == set()


def test_the_image_passes_its_tests(image: None, outside: Outside) -> None:
    done = run(outside, "-m", "pytest", "tests/images", "-q", "-nauto", "-m", "not smoke", "--require-images")
    assert done.code == 0, done.said[-10000:]


def test_the_four_steps(image: None, outside: Outside) -> None:
    done = run(outside, "-m", "pytest", "tests/images", "-q", "-m", "smoke", "--require-images")
    assert done.code == 0, done.said[-10000:]
