"""The driver: present, whole, of a fitting version."""

from collections.abc import Iterator

from rlinf_npu.doctor import versions
from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import CONTAINER, HOST, Hit, Severity
from rlinf_npu.doctor.registry import rule

# The vendor's list of what a container needs from the host.
_MOUNTS = "https://github.com/vllm-project/vllm-ascend/issues/1440"


@rule(
    "driver-missing",
    "NPU driver",
    meaning="There is no NPU driver here, so nothing can reach a card.",
    fix="On the host: install the Ascend driver. In a container: mount the host's driver folder read-only "
    "(compose.yaml does).",
    link=_MOUNTS,
)
def driver_missing(ctx: Context) -> Iterator[Hit]:
    """The driver folder is absent or empty."""
    folder = ctx.facts.devices.driver
    if not ctx.system.is_dir(folder):
        yield Hit(f"{folder} does not exist")
    elif not any(ctx.system.glob(f"{folder}/*")):
        yield Hit(f"{folder} is empty (Docker creates an empty folder when the host's path does not exist)")


@rule(
    "driver-half",
    "Whole driver folder",
    needs=("driver",),
    meaning="Only a part of the driver folder is here; HCCL reads other parts (EI0014), tools and versions are "
    "missing.",
    fix="Mount the whole driver folder, not lib64 or single files.",
    link="https://github.com/gpustack/runtime/pull/27",
)
def driver_half(ctx: Context) -> Iterator[Hit]:
    """Expected parts are missing, links dangle, or only folders below the driver are mount points."""
    folder = ctx.facts.devices.driver
    if not any(ctx.system.glob(f"{folder}/*")):
        return
    parts = (ctx.driver_library, f"{folder}/lib64/common", f"{folder}/version.info")
    gone = [part for part in parts if not ctx.system.exists(part)]
    if gone:
        yield Hit("missing: " + ", ".join(gone))
    below = [point for point in _mount_points(ctx) if point.startswith(folder + "/")]
    if below and folder not in _mount_points(ctx) and ctx.where == CONTAINER:
        yield Hit("mounted piecewise: " + ", ".join(below), severity=Severity.WARNING)


def _mount_points(ctx: Context) -> list[str]:
    lines = (ctx.system.read("/proc/self/mountinfo") or "").splitlines()
    return [fields[4] for fields in map(str.split, lines) if len(fields) > 4]


@rule(
    "driver-version",
    "Driver and CANN",
    needs=("driver",),
    meaning="The host's driver is older than this CANN release is made for; failures look random (507899, "
    "207000, hangs).",
    fix="Upgrade driver and firmware on the host, or use an image with an older CANN.",
    link="https://github.com/vllm-project/vllm-ascend/issues/5468",
)
def driver_version(ctx: Context) -> Iterator[Hit]:
    """version.info against the compatibility table."""
    version, row = ctx.driver_info.get("version"), ctx.cann_row
    if not version or row is None:
        return
    evidence = f"driver {version} ({ctx.facts.devices.driver}/version.info), CANN {ctx.cann}"
    if not versions.at_least(version, row.oldest):
        yield Hit(f"{evidence}; oldest listed: {row.oldest}", link=row.sources[0])
    elif not row.stated and row.paired and not versions.at_least(version, row.paired):
        yield Hit(
            f"{evidence}; released together: {row.paired}",
            severity=Severity.WARNING,
            meaning="The driver is older than the one released with this CANN; the vendor's table does not say whether "
            "they work together.",
            link=row.sources[-1],
        )


@rule(
    "driver-version-unknown",
    "Driver's version",
    needs=("driver",),
    severity=Severity.WARNING,
    meaning="The driver's version cannot be told, or this CANN is not in our table, so they were not compared.",
    fix="Mount the whole driver folder; compare driver and CANN by the vendor's table.",
    link="https://www.hiascend.com/developer/download/compatibility",
)
def driver_version_unknown(ctx: Context) -> Iterator[Hit]:
    """No Version= line, or no row for the CANN release."""
    path = f"{ctx.facts.devices.driver}/version.info"
    if ctx.system.exists(path) and not ctx.driver_info.get("version"):
        yield Hit(f"{path} has no Version= line")
    if ctx.cann_row is None:
        yield Hit(f"CANN {ctx.cann} is not in the compatibility table")


@rule(
    "firmware-version",
    "Firmware and driver",
    where=HOST,
    needs=("driver",),
    meaning="The driver does not accept the installed firmware.",
    fix="Install the firmware of the same Ascend HDK release as the driver, then reboot.",
    link="https://www.hiascend.com/document/detail/zh/Atlas%20200I%20A2/24.1.RC3/re/api/api_109.html",
)
def firmware_version(ctx: Context) -> Iterator[Hit]:
    """The driver's compatible_version_fw against the firmware's version.info beside the driver folder."""
    path = ctx.facts.devices.driver.rpartition("/")[0] + "/firmware/version.info"
    firmware = versions.info_file(ctx.system.read(path) or "").get("version")
    accepted = versions.firmware_range(ctx.driver_info)
    if not firmware or not accepted:
        return
    oldest, newest = accepted
    if not versions.key(oldest) <= versions.key(firmware) or versions.key(firmware)[:3] > versions.key(newest)[:3]:
        yield Hit(f"firmware {firmware} ({path}), driver accepts {oldest} to {newest}")


@rule(
    "mount-missing",
    "Files from the host",
    needs=("driver",),
    meaning="A path that containers take from the host is missing.",
    fix="Mount it (compose.yaml does). Without npu-smi and dcmi the doctor sees less and Ray cannot tell the chip.",
    link=_MOUNTS,
)
def mount_missing(ctx: Context) -> Iterator[Hit]:
    """The manifest's mounts; those that are not required give a warning."""
    for mount in ctx.facts.devices.mounts:
        if mount.path != ctx.facts.devices.driver and not ctx.system.exists(mount.path):
            yield Hit(f"{mount.path} does not exist", severity=None if mount.required else Severity.WARNING)


@rule(
    "mount-is-folder",
    "Files mounted as folders",
    meaning="A folder stands where a file or device node belongs: Docker creates one when the host's path does "
    "not exist.",
    fix="Correct the path in the mount, remove the empty folder that Docker made on the host, start again.",
    link="https://docs.docker.com/engine/storage/bind-mounts/#differences-between--v-and---mount-behavior",
)
def mount_is_folder(ctx: Context) -> Iterator[Hit]:
    """npu-smi, install info, managers and cards must not be folders."""
    files = [
        mount.path
        for mount in ctx.facts.devices.mounts
        if "." in mount.path.rpartition("/")[2] or "/bin/" in mount.path
    ]
    for path in [*files, *ctx.facts.devices.managers, *ctx.cards.values()]:
        if ctx.system.is_dir(path):
            yield Hit(f"{path} is a folder")
