"""Calling the compiled stand-in: each call happens in a forked child, which starts with a runtime nobody has used."""

import ctypes
import os
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Libraries:
    """The loaded libraries, inside a child."""

    runtime: ctypes.CDLL
    hccl: ctypes.CDLL
    operators: ctypes.CDLL

    def error(self) -> str:
        """Text of the last error."""
        text = self.runtime.aclGetRecentErrMsg()
        return text.decode() if text else ""


class StandIn:
    """The libraries on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self) -> Libraries:
        """Load them in order of dependency, which makes a search path unnecessary."""
        for path in ("driver/lib64/driver/libascend_hal.so", "lib64/libc_sec.so"):
            ctypes.CDLL(str(self.folder / path), mode=ctypes.RTLD_GLOBAL)
        load = [ctypes.CDLL(str(self.folder / f"lib64/lib{name}.so"), mode=ctypes.RTLD_GLOBAL) for name in
                ("ascendcl", "hccl", "opapi")]  # fmt: skip
        load[0].aclGetRecentErrMsg.restype = ctypes.c_char_p
        load[0].aclrtGetSocName.restype = ctypes.c_char_p
        return Libraries(*load)

    def run(self, function: Callable[[Libraries], Any], **environment: str) -> Any:
        """Result of `function` in a child with these variables set."""
        return in_children([lambda: function(self.load())], environment)[0]


def in_children(functions: list[Callable[[], Any]], environment: dict[str, str]) -> list[Any]:
    """Run the functions at the same time, a process for each, and return their results.

    Raises:
        AssertionError: one of them failed, with its traceback.
    """
    children = [_start(function, environment) for function in functions]
    results = [_collect(reader, pid) for reader, pid in children]
    failures = [text for ok, text in results if not ok]
    assert not failures, "\n".join(failures)
    return [value for _, value in results]


def _start(function: Callable[[], Any], environment: dict[str, str]) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return reader, pid
    os.close(reader)
    try:
        os.environ.update(environment)
        result = (True, function())
    except BaseException:  # reported by the parent
        result = (False, traceback.format_exc())
    with os.fdopen(writer, "wb") as stream:
        stream.write(pickle.dumps(result))
    os._exit(0)


def _collect(reader: int, pid: int) -> tuple[bool, Any]:
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    os.waitpid(pid, 0)
    return pickle.loads(data) if data else (False, "child died without a result")  # noqa: S301  # our own child
