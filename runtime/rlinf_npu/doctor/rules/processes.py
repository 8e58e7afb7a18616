"""Pid 1 and what it left behind; the clock."""

import time
from collections.abc import Iterator

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import CONTAINER, Hit, Severity
from rlinf_npu.doctor.registry import rule
from rlinf_npu.doctor.tables import limits

_ZOMBIES = "https://github.com/vllm-project/vllm-ascend/issues/9888"
_REAPERS = {"tini", "docker-init", "dumb-init", "catatonit", "systemd", "init", "runit", "s6-svscan", "pause"}


@rule(
    "pid1",
    "Pid 1 reaps",
    where=CONTAINER,
    severity=Severity.WARNING,
    meaning="Pid 1 is not an init: processes that die after a stop stay as zombies and keep the cards' memory.",
    fix="Keep the image's entrypoint (tini; compose.yaml does), or docker run --init.",
    link=_ZOMBIES,
)
def pid1(ctx: Context) -> Iterator[Hit]:
    """The name of pid 1."""
    name = (ctx.system.read("/proc/1/comm") or "").strip()
    if name and name not in _REAPERS:
        yield Hit(f"pid 1 is {name}")


@rule(
    "zombies",
    "Zombies",
    severity=Severity.WARNING,
    meaning="Dead processes wait for a parent that does not collect them; they may keep the cards' memory.",
    fix="End the parent process; in a container restart it with an init as pid 1.",
    link=_ZOMBIES,
)
def zombies(ctx: Context) -> Iterator[Hit]:
    """Processes in state Z."""
    found = []
    for path in ctx.system.glob("/proc/[0-9]*/stat"):
        name, _, rest = (ctx.system.read(path) or "").rpartition(")")
        if rest.split()[:1] == ["Z"]:
            found.append(f"{path.split('/')[2]} ({name.partition('(')[2]})")
    if len(found) >= limits().zombies:
        yield Hit(f"{len(found)}: {', '.join(found[:10])}")


@rule(
    "clock",
    "Clock",
    meaning="The clock is wrong: TLS certificates are refused, builds and checkpoints get wrong times, hosts of "
    "a job disagree.",
    fix="Set the host's clock and start a time service (timedatectl set-ntp true).",
    link="https://www.freedesktop.org/software/systemd/man/latest/timedatectl.html",
)
def clock(ctx: Context) -> Iterator[Hit]:
    """Against the build time of the image and the Date header of mirrors that answered."""
    now = ctx.system.now()
    if ctx.facts.created and now < ctx.facts.created:
        yield Hit(f"the clock says {_utc(now)}, before this image was built ({_utc(ctx.facts.created)})")
    if not (ctx.facts.mirrors or ctx.extra_mirrors):
        return
    for url, answer in ctx.mirrors.items():
        if answer.date and abs(answer.date - now) > limits().clock_skew_seconds:
            yield Hit(f"{url} says {_utc(answer.date)}, the clock {_utc(now)}")
            return


def _utc(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
