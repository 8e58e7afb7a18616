"""What goes wrong on real hosts goes wrong here in the same words, and the doctor knows them."""

from collections.abc import Callable

import pytest

from imagekit.process import Finished
from tests.images.support.container import Container

pytestmark = pytest.mark.device
Npus = Callable[[int], Container]


def import_torch(container: Container, **how: object) -> Finished:
    """What everybody does first."""
    return container.exec(["/opt/venv/bin/python", "-c", "import torch, torch_npu"], **how)  # type: ignore[arg-type]


def explanation(container: Container, text: str) -> str:
    """What the doctor says to a log."""
    done = container.exec(["doctor", "explain"], stdin=text, env={"COLUMNS": "200"})
    assert done.ok, done.err
    return done.out


def test_driver_not_mounted(idle: Container) -> None:
    """vllm-ascend#1440."""
    done = import_torch(idle)
    assert done.code != 0
    assert "libascend_hal.so: cannot open shared object file" in done.err
    assert "Mount the host's driver folder" in explanation(idle, done.err)


def test_toolkit_environment_lost(npus: Npus) -> None:
    """vllm-ascend#262: a shell without LD_LIBRARY_PATH."""
    done = import_torch(npus(1), env={"LD_LIBRARY_PATH": "/usr/local/Ascend/driver/lib64/driver"})
    assert done.code != 0
    assert "libhccl.so: cannot open shared object file" in done.err
    assert "LD_LIBRARY_PATH" in explanation(npus(1), done.err)


def test_with_driver_and_environment_it_imports(npus: Npus) -> None:
    done = import_torch(npus(1))
    assert done.ok, done.err


def test_card_number_out_of_range(npus: Npus) -> None:
    """gpustack#3352: a host's id inside a container with fewer cards."""
    done = npus(2).python("import torch; torch.npu.set_device(5)")
    assert done.code != 0
    assert "aclrtSetDevice(5): 2 device(s) visible" in done.err
    assert "107001" in done.err  # ACL_ERROR_RT_INVALID_DEVICEID


def test_the_toolkit_alone_is_enough_to_build(idle: Container) -> None:
    """dlinfer#47: in a build step there is no driver; autoload is switched off for that step."""
    done = idle.python("import torch; print(torch.__version__)", env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.ok, done.err
