"""npu-count: the same number as torch_npu 2.6.0.post3 for every form of ASCEND_RT_VISIBLE_DEVICES; never a silent 1."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rlinf_npu import devices

# (text, what torch_npu 2.6.0.post3 answers with 4 cards); taken from its device_count, see test_same_as_torch_npu.
FORMS = [
    (None, 4),
    ("", 0),
    ("0", 1),
    ("3", 1),
    ("0,1", 2),
    ("1,3", 2),
    ("0,1,2,3", 4),
    ("4", 0),  # out of range
    ("0,1,7", 2),  # counting stops at the first id that does not exist
    ("7,0", 0),
    ("1,0", 0),  # must ascend
    ("0,0", 0),  # no repetition
    ("abc", 0),
    ("0,abc", 1),
    ("0,1x,2", 2),  # what comes behind a strange character is ignored
    ("0, 1", 1),
    (" 0", 0),
    ("-1", 0),
    ("0-3", 1),
    ("0,", 1),
    ("0,,1", 1),
    (",0", 0),
    ("00,01", 2),
    ("0,10", 1),
]


def nodes(folder: Path, *names: str) -> dict[str, str]:
    for name in names:
        (folder / name).touch()
    return {devices.DEV_DIR: str(folder)}


def four(folder: Path) -> dict[str, str]:
    return nodes(folder, "davinci0", "davinci1", "davinci2", "davinci3", "davinci_manager", "devmm_svm")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    return tools


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    folder = tmp_path / "dev"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_visible_devices(text: str | None, expected: int, dev: Path) -> None:
    environ = four(dev) | ({} if text is None else {devices.VISIBLE: text})
    assert devices.count(environ).number == expected


def test_same_as_torch_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch_npu = pytest.importorskip("torch_npu", reason="needs torch_npu and a (simulated) CANN", exc_type=ImportError)
    for present in (1, 4, 16):
        monkeypatch.setattr(torch_npu.npu, "_raw_device_count_ascend_hal", lambda value=present: value)
        for text, with_four in FORMS:
            if text is None:
                monkeypatch.delenv(devices.VISIBLE, raising=False)
            else:
                monkeypatch.setenv(devices.VISIBLE, text)
            theirs = torch_npu.npu.device_count()
            assert devices.visible_count(present, devices.visible_ids(text)) == theirs, (present, text)
            assert present != 4 or theirs == with_four, text


def test_two_digit_cards(dev: Path) -> None:
    environ = nodes(
        dev, *(f"davinci{number}" for number in range(16)), "davinci_manager", "davinci_manager_docker", "davinciX"
    )
    assert devices.count(environ) == devices.Count(16, f"{dev}/davinci*", devices.count(environ).message)
    assert devices.count(environ | {devices.VISIBLE: "9,10,15"}).number == 3


def test_filter_that_leaves_nothing_says_why_and_asks_no_gpu(dev: Path, no_gpu: Path) -> None:
    fake_smi(no_gpu, "GPU 0: a")
    found = devices.count(four(dev) | {devices.VISIBLE: "1,0"})
    assert found.number == 0
    assert "'1,0'" in found.message
    assert "ascending" in found.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every node")
def test_nodes_that_may_not_be_opened_do_not_count(dev: Path) -> None:
    environ = four(dev)
    for number in range(4):
        (dev / f"davinci{number}").chmod(0)
    found = devices.count(environ)
    assert found.number == 0
    assert "none of which this user may open" in found.message


def test_rights_decide(dev: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.os, "access", lambda path, _mode: Path(path).name == "davinci2")
    assert devices.count(four(dev)).number == 1


def fake_smi(folder: Path, *lines: str, code: int = 0) -> None:
    tool = folder / "nvidia-smi"
    body = "\n".join(f"echo '{line}'" for line in lines)
    tool.write_text(f"#!/bin/sh\n{body}\nexit {code}\n")
    tool.chmod(0o755)


def test_nvidia_smi_only_without_npus(dev: Path, no_gpu: Path) -> None:
    fake_smi(no_gpu, "GPU 0: NVIDIA A100", "  MIG 1g device 0", "GPU 1: NVIDIA A100")
    assert devices.count({devices.DEV_DIR: str(dev)}) == devices.Count(2, "nvidia-smi")
    assert devices.count(four(dev)).number == 4


def test_broken_nvidia_smi_counts_nothing(dev: Path, no_gpu: Path) -> None:
    fake_smi(no_gpu, "NVIDIA-SMI has failed because it could not communicate with the driver", code=9)
    assert devices.count({devices.DEV_DIR: str(dev)}).number == 0


def test_nothing_is_zero_with_a_message(dev: Path) -> None:
    found = devices.count({devices.DEV_DIR: str(dev / "missing")})
    assert found.number == 0
    assert "davinci<number>" in found.message


def test_torch_in_a_process_has_the_last_word(dev: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "torch_count", lambda: 3)
    assert devices.count(four(dev), ask_torch=True) == devices.Count(
        3, "torch.npu", devices.count(four(dev), True).message
    )
    monkeypatch.setattr(devices, "torch_count", lambda: 0)
    found = devices.count(four(dev), ask_torch=True)
    assert (found.number, found.source) == (0, "torch.npu")
    monkeypatch.setattr(devices, "torch_count", lambda: None)
    assert devices.count(four(dev), ask_torch=True).number == 4


def test_torch_count_without_torch_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "TORCH_COUNT", "raise ImportError('no torch_npu')")
    assert devices.torch_count() is None
    monkeypatch.setattr(devices, "TORCH_COUNT", "print('a warning'); print('npu-count 8')")
    assert devices.torch_count() == 8


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    runtime = Path(devices.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-m", "rlinf_npu.devices", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(runtime), "PATH": os.environ["PATH"], **environ},
    )


def test_command_prints_the_number_alone(dev: Path) -> None:
    done = run(**four(dev))
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")
    done = run("--verbose", **four(dev), ASCEND_RT_VISIBLE_DEVICES="0,1")
    assert (done.stdout, done.stderr) == ("2\n", "npu-count: 2 by ASCEND_RT_VISIBLE_DEVICES\n")


def test_command_zero_is_loud_on_stderr(dev: Path) -> None:
    done = run(CANNSIM_DEV_DIR=str(dev))
    assert (done.returncode, done.stdout) == (0, "0\n")
    assert done.stderr.startswith("npu-count: 0 devices: ")


def test_command_usage() -> None:
    done = run("--gpus")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--gpus" in done.stderr
    assert run("--help").returncode == 0
