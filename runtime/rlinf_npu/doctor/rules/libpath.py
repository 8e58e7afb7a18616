"""Where shared libraries and Python modules are looked for."""

from collections.abc import Iterator

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import CONTAINER, Hit, Severity
from rlinf_npu.doctor.registry import rule

_ENVIRONMENT = "https://github.com/vllm-project/vllm-ascend/issues/9141"
_HAL = "libascend_hal.so"


def _folders(ctx: Context) -> list[str]:
    text = ctx.system.env.get("LD_LIBRARY_PATH", "")
    return text.split(":") if text else []


@rule(
    "libpath-toolkit",
    "Toolkit's environment",
    where=CONTAINER,
    needs=("toolkit",),
    meaning="This shell does not have the toolkit's environment: imports fail with libhccl.so or `No module "
    "named 'tbe'`.",
    fix="Start commands with the image's environment; do not replace LD_LIBRARY_PATH or clear the "
    "environment (sudo, su -, env -i).",
    link=_ENVIRONMENT,
)
def libpath_toolkit(ctx: Context) -> Iterator[Hit]:
    """No folder of LD_LIBRARY_PATH holds libhccl.so, or a variable that the image sets is gone or changed."""
    if not any(ctx.system.exists(f"{folder}/libhccl.so") for folder in _folders(ctx) if folder):
        yield Hit(f"no folder of LD_LIBRARY_PATH has libhccl.so: {ctx.system.env.get('LD_LIBRARY_PATH', 'not set')}")
    gone = [name for name in ctx.facts.env if name not in ctx.system.env]
    if gone:
        yield Hit("not set: " + ", ".join(sorted(gone)), severity=Severity.WARNING)


@rule(
    "libpath-driver",
    "Driver on the library path",
    where=CONTAINER,
    needs=("driver",),
    meaning="The driver is mounted but not on LD_LIBRARY_PATH: imports fail with libascend_hal.so.",
    fix="Keep lib64/driver and lib64/common of the driver folder on LD_LIBRARY_PATH.",
    link="https://github.com/vllm-project/vllm-ascend/issues/1440",
)
def libpath_driver(ctx: Context) -> Iterator[Hit]:
    """libascend_hal.so exists but no folder of the path is its own."""
    if not ctx.system.exists(ctx.driver_library):
        return
    own = ctx.driver_library.rpartition("/")[0]
    if own not in [folder.rstrip("/") for folder in _folders(ctx)]:
        yield Hit(f"{own} is not in LD_LIBRARY_PATH")


@rule(
    "libpath-shadowed",
    "No stub before the driver",
    where=CONTAINER,
    needs=("driver",),
    meaning=f"Another {_HAL} is found before the driver's: CANN's stub for build time (devlib) answers that there "
    "is no card.",
    fix="Take that folder off LD_LIBRARY_PATH; devlib belongs to a build step only.",
    link="https://github.com/vllm-project/vllm-ascend/issues/661",
)
def libpath_shadowed(ctx: Context) -> Iterator[Hit]:
    """First folder of the path that has the library, or a devlib folder anywhere."""
    own = ctx.driver_library.rpartition("/")[0]
    first = next((folder for folder in _folders(ctx) if folder and ctx.system.exists(f"{folder}/{_HAL}")), own)
    if first.rstrip("/") != own:
        yield Hit(f"{first}/{_HAL} comes first")
        return
    devlib = [folder for folder in _folders(ctx) if "devlib" in folder.split("/")]
    if devlib:
        yield Hit(f"LD_LIBRARY_PATH has {', '.join(devlib)}", severity=Severity.WARNING)


@rule(
    "libpath-untidy",
    "Tidy search paths",
    severity=Severity.WARNING,
    meaning="An empty element means the current folder: a file there can be loaded in place of the right one. "
    "Duplicates hide the real order.",
    fix="Remove empty elements (a colon at either end, or two in a row) and duplicates.",
    link="https://man7.org/linux/man-pages/man8/ld.so.8.html",
)
def libpath_untidy(ctx: Context) -> Iterator[Hit]:
    """LD_LIBRARY_PATH and PYTHONPATH."""
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        text = ctx.system.env.get(name, "")
        folders = text.split(":") if text else []
        twice = sorted({folder for folder in folders if folder and folders.count(folder) > 1})
        problems = (["an empty element"] if "" in folders else []) + [f"{folder} twice" for folder in twice]
        if problems:
            yield Hit(f"{name}: {', '.join(problems)}")
