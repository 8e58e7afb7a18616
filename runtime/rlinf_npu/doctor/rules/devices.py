"""Device nodes: present, enough, readable by this user."""

import stat
from collections.abc import Iterator

from rlinf_npu.doctor.context import Context
from rlinf_npu.doctor.model import CONTAINER, Hit, Severity
from rlinf_npu.doctor.registry import rule


@rule(
    "no-cards",
    "Cards",
    meaning="No card is visible here.",
    fix="On a host: is the driver loaded (lsmod | grep drv_davinci), does npu-smi info list cards? In a "
    "container: give it the "
    "nodes (--device, NPUS= in .env); they appear only when they exist at start.",
    link="https://github.com/vllm-project/vllm-ascend/issues/14628",
)
def no_cards(ctx: Context) -> Iterator[Hit]:
    """No /dev/davinci<number>."""
    if not ctx.cards:
        yield Hit("no " + ctx.facts.devices.card.replace("{id}", "<number>"))


@rule(
    "manager-missing",
    "Device managers",
    needs=("cards",),
    meaning="Cards are here, but a node that every process needs to talk to them is not.",
    fix="Add the node to the container's devices (compose.yaml does); on a host reload the driver.",
    link="https://github.com/vllm-project/vllm-ascend/issues/1440",
)
def manager_missing(ctx: Context) -> Iterator[Hit]:
    """davinci_manager, devmm_svm, hisi_hdc."""
    for path in ctx.facts.devices.managers:
        if not ctx.system.exists(path):
            yield Hit(f"{path} does not exist")


@rule(
    "node-access",
    "Rights on device nodes",
    needs=("cards",),
    meaning="This user may not read and write a device node, so CANN counts 0 devices.",
    fix="Run as the nodes' owner, or add their group (docker run --group-add, compose: group_add).",
    link="https://github.com/Ascend/ascend-device-plugin/issues/139",
)
def node_access(ctx: Context) -> Iterator[Hit]:
    """Permission bits of every node against uid, groups and capabilities."""
    who = ctx.identity
    denied: dict[str, list[str]] = {}
    for path in [*ctx.cards.values(), *ctx.facts.devices.managers]:
        status = ctx.system.stat(path)
        if status and not stat.S_ISDIR(status.st_mode) and not who.may(status):
            denied.setdefault(f"{status.st_uid}:{status.st_gid} {stat.S_IMODE(status.st_mode):04o}", []).append(path)
    for rights, paths in denied.items():
        groups = ",".join(map(str, sorted(who.gids)))
        evidence = f"{', '.join(paths)}: {rights}; this process: uid {who.uid}, groups {groups}"
        if who.uid == 0:
            yield Hit(
                evidence + ", no CAP_DAC_OVERRIDE",
                meaning="root without CAP_DAC_OVERRIDE is bound by the permission bits too, so CANN counts 0 devices.",
                fix="Keep CAP_DAC_OVERRIDE (do not drop all capabilities), or run as the nodes' owner.",
            )
        else:
            yield Hit(evidence)


@rule(
    "node-count",
    "Enough device nodes",
    needs=("cards", "npu-smi"),
    meaning="npu-smi knows more chips than there are device nodes here.",
    fix="In a container: add the missing nodes, or ask for fewer cards. On a host: reload the driver, see dmesg.",
    link="https://github.com/vllm-project/vllm-ascend/issues/14628",
)
def node_count(ctx: Context) -> Iterator[Hit]:
    """Nodes against the chips that npu-smi lists."""
    chips = len(ctx.smi.chips) if ctx.smi else 0
    if len(ctx.cards) < chips:
        yield Hit(f"npu-smi info lists {chips} chips, nodes: {len(ctx.cards)} ({', '.join(ctx.cards.values())})")


@rule(
    "passwd-entry",
    "Entry for this user",
    where=CONTAINER,
    meaning="The user has no entry in /etc/passwd; HCCL then fails with error 19 in HcclGetRootInfo.",
    fix="Run as the image's user (1000) or root, or mount an /etc/passwd with this uid.",
    link="https://github.com/vllm-project/vllm-ascend/issues/9490",
    severity=Severity.ERROR,
)
def passwd_entry(ctx: Context) -> Iterator[Hit]:
    """The uid against /etc/passwd."""
    lines = (ctx.system.read("/etc/passwd") or "").splitlines()
    if str(ctx.identity.uid) not in {line.split(":")[2] for line in lines if line.count(":") >= 6}:
        yield Hit(f"uid {ctx.identity.uid} is not in /etc/passwd")
