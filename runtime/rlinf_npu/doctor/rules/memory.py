"""Shared memory, limits of the process, huge pages."""

import re
from collections.abc import Iterator

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import CONTAINER, Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.tables import limits

_GIB = 1 << 30


def _meminfo(ctx: Context) -> dict[str, int]:
    """/proc/meminfo in its own units (KiB; huge pages: pages)."""
    text = ctx.system.read("/proc/meminfo") or ""
    return {match[1]: int(match[2]) for match in re.finditer(r"^(\w+):\s+(\d+)", text, re.MULTILINE)}


@rule(
    "shm-small",
    "/dev/shm for Ray",
    where=CONTAINER,
    meaning="/dev/shm is smaller than Ray's object store: Ray puts objects on disk, or refuses to start.",
    fix="Give the container more: shm_size in compose.yaml, docker run --shm-size=32g; in Kubernetes an "
    "emptyDir with medium Memory.",
    link="https://github.com/gpustack/gpustack/issues/5014",
)
def shm_small(ctx: Context) -> Iterator[Hit]:
    """Size of /dev/shm against what Ray takes by default on this machine."""
    usage, memory = ctx.system.usage("/dev/shm"), _meminfo(ctx).get("MemAvailable", 0) * 1024
    wanted = min(memory * limits().ray_memory_percent // 100, limits().ray_shm_bytes)
    if usage is None:
        yield Hit("/dev/shm does not exist")
    elif usage.size < wanted:
        yield Hit(f"/dev/shm: {usage.size / _GIB:.2f} GiB; Ray's object store here: {wanted / _GIB:.1f} GiB")
    elif usage.free < wanted // 2:
        yield Hit(
            f"/dev/shm: only {usage.free / _GIB:.2f} of {usage.size / _GIB:.1f} GiB free", severity=Severity.WARNING
        )


@rule(
    "ulimits",
    "Limits of the process",
    where=CONTAINER,
    severity=Severity.WARNING,
    meaning="The limit is low for Ray: workers die with 'too many open files' or cannot start threads.",
    fix="compose.yaml leaves the engine's defaults: raise default-ulimits in /etc/docker/daemon.json, or add "
    "ulimits to the service in a Compose file of your own; docker run --ulimit nofile=65536.",
    link="https://github.com/ray-project/ray/issues/11239",
)
def ulimits(ctx: Context) -> Iterator[Hit]:
    """Hard limits in /proc/self/limits: Ray raises its soft limit of open files to the hard one by itself."""
    text = ctx.system.read("/proc/self/limits") or ""
    for title, least in (("Max open files", limits().nofile), ("Max processes", limits().nproc)):
        match = re.search(rf"^{title}\s+\S+\s+(\d+)", text, re.MULTILINE)  # "unlimited" does not match
        if match and int(match[1]) < least:
            yield Hit(f"{title}: at most {match[1]}, needed: {least}")


@rule(
    "hugepages",
    "Huge pages",
    severity=Severity.WARNING,
    meaning="Most of the memory is reserved for huge pages that nobody uses; it is lost to training.",
    fix="Lower vm.nr_hugepages on the host.",
    link="https://docs.kernel.org/admin-guide/mm/hugetlbpage.html",
)
def hugepages(ctx: Context) -> Iterator[Hit]:
    """Free huge pages against all memory."""
    info = _meminfo(ctx)
    idle = info.get("HugePages_Free", 0) * info.get("Hugepagesize", 0)
    if idle * 100 > info.get("MemTotal", 1) * limits().hugepages_percent:
        yield Hit(f"/proc/meminfo: {idle / (1 << 20):.0f} of {info['MemTotal'] / (1 << 20):.0f} GiB in free huge pages")
