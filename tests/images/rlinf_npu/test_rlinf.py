"""RLinf's tree and our runtime: found from anywhere, fixed, compiled, and never written to."""

import json
from collections.abc import Callable

import pytest

from tests.images.support.container import Container
from tests.images.support.simulated import Cards
from tests.images.support.subjects import Subject, manifest

Npus = Callable[[int], Container]
OWNER = str(manifest().devices.uid)
COMMANDS = ["npufix", "recap", "doctor", "smoke"]
# Packages and modules that the four steps go through; where a source of RLinf lacks one, it is not asked for.
FOUR_STEPS = [
    "rlinf.workers.sft",
    "rlinf.data.datasets.recap",
    "rlinf.data.process",
    "rlinf.models.embodiment.value_model",
    "rlinf.models.embodiment.openpi",
    "rlinf.hybrid_engines.fsdp",
    "rlinf.runners.sft_runner",
    "rlinf.scheduler",
    "rlinf.config",
]
OTHER_BACKENDS = {"rlinf.workers.sft.megatron_vlm_sft_worker": "Megatron, which no step uses; ours train with FSDP"}
WHERE = "import rlinf, rlinf_npu, sys; print(rlinf.__path__[0], rlinf_npu.__path__[0])"


@pytest.mark.parametrize("folder", ["/", "/workspace", "/tmp", "/opt"])
def test_imports_from_anywhere(npus: Npus, folder: str) -> None:
    """Ascend/pytorch#29, and a folder named like a module must not get in the way."""
    done = npus(1).exec(["python", "-c", WHERE], workdir=folder)
    assert done.ok, done.err
    assert done.out.split() == ["/opt/rlinf/rlinf", "/opt/rlinf-npu/rlinf_npu"]


def test_rlinf_home(subject: Subject, idle: Container) -> None:
    assert idle.host.file(subject.env["RLINF_HOME"] + "/rlinf/__init__.py").exists


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("user", ["root", OWNER])
def test_commands_are_on_the_path(idle: Container, command: str, user: str) -> None:
    """No driver is mounted here: asking for help must not need one."""
    done = idle.exec([command, "--help"], user=user)
    assert done.ok, done.err
    assert "Usage" in done.out or "usage" in done.out


def test_npu_count_help(idle: Container) -> None:
    assert idle.exec(["npu-count", "--help"]).out.startswith("usage: npu-count")


@pytest.mark.parametrize("folder", ["/opt/rlinf", "/opt/rlinf-npu"])
def test_compiled(idle: Container, folder: str) -> None:
    """Otherwise every process of a non-root user would compile it again."""
    code = (
        "import importlib.util as u, os, pathlib, sys\n"
        "found = pathlib.Path(sys.argv[1]).rglob('*.py')\n"
        "print([str(p) for p in found if not os.path.exists(u.cache_from_source(str(p)))])"
    )
    assert idle.exec(["python", "-c", code, folder]).out.strip() == "[]"


def test_every_module_of_the_four_steps_imports(npus: Npus) -> None:
    found = npus(1).probe("import_paths", *FOUR_STEPS, seconds=120)
    assert len(found["imported"]) > 20
    assert found["failures"].keys() - OTHER_BACKENDS.keys() == set(), found["failures"]


def test_fixes_are_applied_and_reported(subject: Subject, idle: Container) -> None:
    assert subject.label("fixes") == "npufix"
    report = json.loads(idle.host.file("/usr/share/rlinf-npu/npufix.json").content_string)
    statuses = {entry["id"]: entry["status"] for entry in report["fixes"]}
    assert set(statuses.values()) <= {"applied", "already applied", "already", "not needed"}
    assert "applied" in statuses.values()


def test_npufix_verify_finds_nothing(idle: Container) -> None:
    done = idle.exec(["npufix", "verify", "/opt/rlinf"], seconds=120)
    assert done.ok, done.out[-2000:] + done.err[-2000:]


def test_no_cuda_use_is_open_on_our_paths(idle: Container) -> None:
    done = idle.exec(["npufix", "scan", "/opt/rlinf", "--json"], seconds=120)
    report = json.loads(done.out)
    assert report["summary"]["open_on_paths"] == 0


def test_nothing_needs_to_write_into_the_image(subject: Subject, cards: Cards) -> None:
    """A read-only root as uid 1000: what runs here also runs under a strict Kubernetes policy."""
    writable = dict.fromkeys(("/workspace", f"/home/{manifest().devices.owner}"), f"uid={OWNER},mode=700")
    options = cards.options(1) | {"read_only": True, "tmpfs": writable | {"/tmp": ""}, "user": OWNER}
    with subject.run(**options) as container:
        modules = "torch, torch_npu, rlinf, openpi, lerobot.common.datasets, ray"
        code = f"import {modules}; print(torch.ones(2).npu().sum().item())"
        done = container.python(code, seconds=90)
        assert done.ok, done.err
        assert done.out.strip().splitlines()[-1] == "2.0"
        assert container.exec(["recap", "--help"]).ok
        assert container.exec(["npu-count"]).out.strip() == "1"
