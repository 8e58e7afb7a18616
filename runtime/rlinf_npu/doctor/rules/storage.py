"""Disk space and inodes where work is done."""

from collections.abc import Iterator

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import HOST, Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.system import FsUsage
from rlinf_npu.doctor.tables import limits

_GIB = 1 << 30
_SPILL = "https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html"
_DOCKER_ROOT = "/var/lib/docker"


def _places(ctx: Context) -> dict[str, FsUsage]:
    """Folders that training writes to, one per file system."""
    named = [
        ctx.system.env[name] for name in ("LOG_DIR", "RUNS_DIR", "DATA_DIR", "RAY_TMPDIR") if ctx.system.env.get(name)
    ]
    found: dict[str, FsUsage] = {}
    for path in [*named, "/tmp", "/"]:
        usage = ctx.system.usage(path) if path.startswith("/") else None
        if usage and usage not in found.values():
            found[path] = usage
    return found


@rule(
    "disk",
    "Disk space",
    meaning="Too little space: checkpoints fail half-written, and Ray stops creating objects above 95 % use.",
    fix="Free space, or point LOG_DIR and RAY_TMPDIR to a larger disk.",
    link=_SPILL,
)
def disk(ctx: Context) -> Iterator[Hit]:
    """Free bytes and use of every file system that is written to."""
    for path, usage in _places(ctx).items():
        used = 100 * (usage.size - usage.free) // usage.size if usage.size else 0
        evidence = f"{path}: {usage.free / _GIB:.1f} GiB free, {used} % used"
        if used >= limits().disk_used_percent and usage.free < 4 * limits().disk_free_gib * _GIB:
            yield Hit(evidence)
        elif usage.free < limits().disk_free_gib * _GIB:
            yield Hit(evidence, severity=Severity.WARNING)


@rule(
    "inodes",
    "Inodes",
    severity=Severity.WARNING,
    meaning="The file system is nearly out of inodes: 'no space left on device' although there is space.",
    fix="Delete folders with very many small files (caches, old runs).",
    link="https://docs.kernel.org/filesystems/ext4/overview.html",
)
def inodes(ctx: Context) -> Iterator[Hit]:
    """Free inodes; file systems without a fixed number report 0."""
    for path, usage in _places(ctx).items():
        if usage.inodes and usage.inodes_free * 100 < usage.inodes * limits().inodes_free_percent:
            yield Hit(f"{path}: {usage.inodes_free} of {usage.inodes} inodes free")


@rule(
    "disk-docker",
    "Disk space for images",
    where=HOST,
    needs=("docker",),
    severity=Severity.WARNING,
    meaning="Too little space to build or pull the images (layers and their unpacked copies).",
    fix="docker system df, then docker builder prune; or move Docker's data-root.",
    link="https://github.com/verl-project/verl/issues/4137",
)
def disk_docker(ctx: Context) -> Iterator[Hit]:
    """Free space below Docker's data folder against the manifest's need."""
    root = ctx.system.run(
        "docker", "info", "--format", "{{.DockerRootDir}}", seconds=limits().network_seconds
    ).out.strip()
    path = root if root.startswith("/") else _DOCKER_ROOT
    usage, needed = ctx.system.usage(path), ctx.facts.disk_gib
    if usage and needed and usage.free < needed * _GIB:
        yield Hit(f"{path}: {usage.free / _GIB:.1f} GiB free, a build needs {needed} GiB")
