"""Run the installation once torch_npu has been imported, whoever imports it and in whatever order.

Needed because torch loads extensions in the order of sys.path, ours before torch_npu. Importing torch_npu ourselves
would work, but when that fails (no driver mounted) torch would blame this package instead of torch_npu.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

_TARGET = "torch_npu"


class _ThenInstall(importlib.abc.Loader):
    """The module's own loader, followed by a call."""

    def __init__(self, loader: importlib.abc.Loader, afterwards: Callable[[], object]) -> None:
        self._loader = loader
        self._afterwards = afterwards

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._loader.exec_module(module)
        except BaseException:
            arm()  # the next attempt must find the hook again
            raise
        self._afterwards()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds torch_npu through the other finders and puts the call behind its loader; then it is gone."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec and spec.loader:
            prepare_environment()
            spec.loader = _ThenInstall(spec.loader, _install)
        return spec


def prepare_environment() -> None:
    """Settings torch_npu reads when it loads.

    Its task queue would run operators in a thread of its own, where Python kernels cannot run.
    """
    os.environ["TASK_QUEUE_ENABLE"] = "0"


def enabled() -> bool:
    """Are the simulated operators wanted?"""
    return os.environ.get("CANNSIM_HOST_OPS", "1") != "0"


def arm() -> None:
    """Install now when torch_npu is complete, else as soon as it is. Calling it again changes nothing."""
    if not enabled() or any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    module = sys.modules.get(_TARGET)
    if module is None or getattr(module.__spec__, "_initializing", False):
        sys.meta_path.insert(0, _Finder())
    else:
        _install()


def _install() -> None:
    # Imported here: it needs torch, and this module is loaded in processes that never use it.
    from cannsim_host_ops import banner, install  # noqa: PLC0415

    install.install()
    banner.show()
